/* SPDX-License-Identifier: Apache-2.0 */
/* Writing recorded steps. */
#include "runner/step_record.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- results ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *src, int64_t n_word)
{
    const char *bytes = src;
    for (int64_t i = 0; i < n_word; i++) {
        uint32_t word;
        memcpy(&word, bytes + i * (int64_t)sizeof word, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

whim_record_result whim_record_result_of(const whim_exec *exec)
{
    whim_step_size size = whim_exec_size(exec);
    uint64_t hash = 0;
    for (int64_t i = 0; i < size.n_out; i++) {
        whim_ranked best = whim_exec_best(exec, i);
        const float *logits = whim_exec_logits(exec, i);
        if (logits != NULL) {
            hash = mix(hash, logits, whim_exec_n_vocab(exec));
        } else {
            hash = mix(hash, best.values, best.n);
            hash = mix(hash, best.ids, best.n);
        }
    }
    return (whim_record_result){
        .n_out = (int32_t)size.n_out,
        .n_top = (int32_t)size.n_top,
        .bits = {(uint32_t)hash, (uint32_t)(hash >> 32)},
    };
}

int32_t whim_record_best(const whim_exec *exec, int64_t i)
{
    const float *logits = whim_exec_logits(exec, i);
    if (logits == NULL) {
        return whim_exec_best(exec, i).ids[0];
    }
    uint64_t key = 0;
    for (int32_t v = 0; v < whim_exec_n_vocab(exec); v++) {
        uint64_t other = whim_rank_key(logits[v], v);
        key = other > key ? other : key;
    }
    return whim_rank_id(key);
}

/* --- the head --------------------------------------------------------------------------------- */

whim_record_head whim_record_head_of(const whim_config *config, const whim_exec_cfg *cfg)
{
    whim_record_head head = {
        .version = WHIM_RECORD_VERSION,
        .page_tokens = cfg->page_len,
        .kv_type = (int32_t)cfg->kv_type,
        .n_layer = config->n_layer,
        .d_model = config->d_model,
        .n_vocab = config->n_vocab,
        .max_rows = cfg->max_rows,
        .max_seqs = cfg->max_seqs,
        .max_outs = cfg->max_outs,
        .max_ctx = cfg->max_ctx,
        .n_page = cfg->n_page,
        .n_state = cfg->n_state,
        .max_kept = cfg->max_kept,
    };
    memcpy(head.magic, WHIM_RECORD_MAGIC, sizeof head.magic);
    snprintf(head.arch, sizeof head.arch, "%s", config->arch->name);
    return head;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct whim_recording {
    char *path;
    FILE *file;
    int error;     /* errno of the first failure */
    int32_t *best; /* [max_outs] */
};

static void put(whim_recording *r, const void *src, size_t bytes)
{
    if (r->error == 0 && bytes > 0 && fwrite(src, 1, bytes, r->file) != bytes) {
        r->error = errno != 0 ? errno : EIO;
    }
}

static void put_record(whim_recording *r, whim_record_kind kind, const void *words, int64_t n_word,
                       const void *more, int64_t n_more)
{
    int32_t head[2] = {(int32_t)kind, (int32_t)(n_word + n_more)};
    put(r, head, sizeof head);
    put(r, words, (size_t)n_word * sizeof(int32_t));
    put(r, more, (size_t)n_more * sizeof(int32_t));
}

static void on_submit(void *ctx, const int32_t *block)
{
    put_record(ctx, WHIM_RECORD_STEP, block, whim_step_head_of(block)->n_word, NULL, 0);
}

static void on_collect(void *ctx, const whim_exec *exec)
{
    whim_recording *r = ctx;
    whim_record_result result = whim_record_result_of(exec);
    for (int64_t i = 0; i < result.n_out; i++) {
        r->best[i] = whim_record_best(exec, i);
    }
    put_record(r, WHIM_RECORD_RESULT, &result, WHIM_RESULT_WORDS, r->best, result.n_out);
}

static void on_state_copy(void *ctx, int32_t from, int32_t to)
{
    int32_t words[2] = {from, to};
    put_record(ctx, WHIM_RECORD_STATE, words, 2, NULL, 0);
}

static void on_advance(void *ctx, const whim_step_take *takes, int64_t n)
{
    put_record(ctx, WHIM_RECORD_ADVANCE, takes, n * WHIM_TAKE_WORDS, NULL, 0);
}

static void recording_free(whim_recording *r)
{
    if (r->file != NULL) {
        fclose(r->file);
    }
    whim_free(r->best);
    whim_free(r->path);
    whim_free(r);
}

whim_err whim_recording_start(const char *path, const whim_record_head *head, whim_exec *exec,
                              whim_recording **out, whim_diag *diag)
{
    whim_recording *r = whim_alloc(sizeof *r);
    if (r != NULL) {
        r->path = whim_alloc((int64_t)strlen(path) + 1);
        r->best = whim_alloc_array(head->max_outs, sizeof *r->best);
    }
    if (r == NULL || r->path == NULL || r->best == NULL) {
        if (r != NULL) {
            recording_free(r);
        }
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory to record steps");
    }
    strcpy(r->path, path);
    r->file = fopen(path, "wb");
    if (r->file == NULL) {
        whim_err err = whim_file_write_failed(path, errno, diag);
        recording_free(r);
        return err;
    }
    put(r, head, sizeof *head);
    whim_exec_set_tap(exec, &(whim_exec_tap){.ctx = r,
                                             .submitted = on_submit,
                                             .collected = on_collect,
                                             .state_copied = on_state_copy,
                                             .advanced = on_advance});
    *out = r;
    return WHIM_ERR_OK;
}

whim_err whim_recording_end(whim_recording *r, whim_diag *diag)
{
    if (r == NULL) {
        return WHIM_ERR_OK;
    }
    if (fflush(r->file) != 0 && r->error == 0) {
        r->error = errno;
    }
    whim_err err = r->error == 0 ? WHIM_ERR_OK : whim_file_write_failed(r->path, r->error, diag);
    recording_free(r);
    return err;
}
