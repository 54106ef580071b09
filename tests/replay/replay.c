/* SPDX-License-Identifier: Apache-2.0 */
/* See replay.h. */
#include "replay.h"

#include "base/alloc.h"
#include "base/file.h"
#include "support/drive.h"
#include "support/step_reader.h"

#include <stdio.h>
#include <string.h>

#define MAX_BYTES (INT64_C(1) << 32)

/* The fields of a model that a record names must be those of the model that is there. */
static bool same_model(const whim_record_head *head, const whim_config *c)
{
    if (strcmp(head->arch, c->arch->name) == 0 && head->n_layer == c->n_layer &&
        head->d_model == c->d_model && head->n_vocab == c->n_vocab) {
        return true;
    }
    printf("the steps are those of %s (%s, %d layers of %d, %d tokens), the model is %s, %d layers "
           "of %d, %d tokens\n",
           head->model, head->arch, head->n_layer, head->d_model, head->n_vocab, c->arch->name,
           c->n_layer, c->d_model, c->n_vocab);
    return false;
}

/* An engine with the limits of the record. */
static whim_engine *open_like(const whim_record_head *head, const char *model,
                              const replay_with *with)
{
    whim_diag diag = {""};
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = {
        .model = model,
        .backend = with->backend,
        .isa = with->isa,
        .n_thread = with->n_thread,
        .ctx = head->max_ctx,
        .kv_type = whim_kv_type_name((whim_kv_type)head->kv_type),
        .max_seqs = head->max_seqs,
        .n_checkpoint = head->n_state > head->max_seqs ? head->n_state - head->max_seqs : 0,
        .max_step_tokens = head->max_rows,
        .max_kept = head->max_kept,
        .max_outs = head->max_outs,
        .n_flight = WHIM_EXEC_FLIGHT,
        .graphs = with->graphs,
    };
    if (whim_engine_prepare(&cfg, &engine, &diag) != WHIM_ERR_OK) {
        printf("%s\n", diag.text);
        return NULL;
    }
    bool same = same_model(head, whim_engine_config(engine));
    int32_t page_len = whim_engine_limits(engine)->page_len;
    if (same && page_len != head->page_tokens) {
        printf("the record has pages of %d positions, this device has pages of %d\n",
               head->page_tokens, page_len);
        same = false;
    }
    cfg.kv_mem = head->n_page * whim_engine_runner_plan(engine)->page_bytes;
    whim_engine_close(engine);
    engine = same ? drive_open(&cfg, &diag) : NULL;
    if (same && engine == NULL) {
        printf("%s\n", diag.text);
    }
    return engine;
}

static bool compare(const whim_exec *exec, const whim_record *record, int64_t number)
{
    whim_record_result expected, got = whim_record_result_of(exec);
    memcpy(&expected, record->words, sizeof expected);
    const int32_t *best = record->words + sizeof expected / sizeof *best;
    for (int64_t i = 0; i < expected.n_out && i < got.n_out; i++) {
        int32_t id = whim_record_best(exec, i);
        if (id != best[i]) {
            printf("step %lld: the best token of output %lld was %d and is %d\n", (long long)number,
                   (long long)i, best[i], id);
            return false;
        }
    }
    if (memcmp(&expected, &got, sizeof got) != 0) {
        printf("step %lld: the best tokens are the same, other bits of %d outputs of %d are not\n",
               (long long)number, expected.n_out, expected.n_top);
        return false;
    }
    return true;
}

static bool replay_all(whim_record_reader *reader, whim_exec *exec, int64_t *n_result)
{
    whim_diag diag = {""};
    whim_record record;
    bool more = true;
    for (;;) {
        whim_err err = whim_record_next(reader, &record, &more, &diag);
        if (err == WHIM_ERR_OK && !more) {
            return true;
        }
        if (err == WHIM_ERR_OK && record.kind == WHIM_RECORD_STEP) {
            err = whim_exec_submit(exec, record.words, record.n_word, NULL, &diag);
        } else if (err == WHIM_ERR_OK && record.kind == WHIM_RECORD_STATE) {
            err = whim_exec_state_copy(exec, 0, record.words[0], record.words[1]);
        } else if (err == WHIM_ERR_OK && record.kind == WHIM_RECORD_ADVANCE) {
            err = whim_exec_advance(exec, 0, (const whim_step_take *)(const void *)record.words,
                                    record.n_word / WHIM_TAKE_WORDS, &diag);
        } else if (err == WHIM_ERR_OK && whim_exec_in_flight(exec) == 0) {
            err = whim_fail(&diag, WHIM_ERR_CORRUPT, "%s: results of no step", reader->name);
        } else if (err == WHIM_ERR_OK) {
            err = whim_exec_collect(exec, &diag);
            if (err == WHIM_ERR_OK && !compare(exec, &record, *n_result + 1)) {
                return false;
            }
            *n_result += 1;
        }
        if (err != WHIM_ERR_OK) {
            printf("%s\n", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
            return false;
        }
    }
}

bool replay_file(const char *path, const char *model, const replay_with *with, int64_t *n_result)
{
    whim_diag diag = {""};
    whim_record_reader reader;
    char *bytes = NULL;
    int64_t n_byte;
    bool same = false;
    *n_result = 0;
    whim_err err = whim_file_read_all(path, MAX_BYTES, &bytes, &n_byte, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_record_open(&reader, path, bytes, n_byte, &diag);
    }
    if (err != WHIM_ERR_OK) {
        printf("%s\n", diag.text);
    } else {
        whim_engine *engine = open_like(&reader.head, model, with);
        same = engine != NULL &&
               replay_all(&reader, whim_runner_exec(whim_engine_runner(engine)), n_result);
        whim_engine_close(engine);
    }
    whim_free(bytes);
    return same;
}
