/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading recorded steps. */
#include "runner/step_record.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = {'w', 'h', 'i', 'm', 's', 't', 'e', 'p'};

enum { RESULT_WORDS = sizeof(whim_record_result) / sizeof(int32_t) };

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
    memcpy(head.magic, magic, sizeof magic);
    snprintf(head.arch, sizeof head.arch, "%s", config->arch->name);
    return head;
}

whim_step_limits whim_record_limits(const whim_record_head *head)
{
    return (whim_step_limits){
        .max_rows = head->max_rows,
        .max_seqs = head->max_seqs,
        .max_outs = head->max_outs,
        .max_ctx = head->max_ctx,
        .n_page = head->n_page,
        .page_len = head->page_tokens,
        .n_state = head->n_state,
        .n_vocab = head->n_vocab,
        .max_kept = head->max_kept,
    };
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
    put_record(r, WHIM_RECORD_RESULT, &result, RESULT_WORDS, r->best, result.n_out);
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

/* --- reading ---------------------------------------------------------------------------------- */

static whim_err refuse(const whim_record_reader *r, const char *what, int64_t value,
                       whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: at byte %lld: %s (%lld)", r->name,
                     (long long)r->at, what, (long long)value);
}

static bool is_text(const char *field, size_t size)
{
    return memchr(field, '\0', size) != NULL;
}

/* Limits that a block's words could reach, and that whoever opens an exec of them can add and
 * multiply. */
static bool limits_ok(const whim_record_head *h)
{
    const int64_t limit = 1 << 24;
    const int64_t all[] = {h->max_rows, h->max_seqs, h->max_outs, h->max_ctx, h->n_page};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] < 1 || all[i] > limit) {
            return false;
        }
    }
    return h->n_state >= 0 && h->n_state <= limit && h->max_kept >= 0 &&
           h->max_kept <= h->max_rows && h->n_vocab >= 1 && h->d_model >= 1 && h->n_layer >= 1 &&
           h->max_seqs * h->max_ctx <= INT32_MAX;
}

whim_err whim_record_open(whim_record_reader *r, const char *name, const void *bytes,
                          int64_t n_byte, whim_diag *diag)
{
    *r = (whim_record_reader){.name = name, .bytes = bytes, .n_byte = n_byte};
    whim_record_head *h = &r->head;
    if (n_byte < (int64_t)sizeof *h || memcmp(bytes, magic, sizeof magic) != 0) {
        return refuse(r, "this is no file of recorded steps", n_byte, diag);
    }
    memcpy(h, bytes, sizeof *h);
    if (h->version != WHIM_RECORD_VERSION) {
        return refuse(r, "steps of another version; this program writes and reads 2", h->version,
                      diag);
    }
    if (!is_text(h->model, sizeof h->model) || !is_text(h->arch, sizeof h->arch) ||
        !is_text(h->backend, sizeof h->backend) || !is_text(h->isa, sizeof h->isa)) {
        return refuse(r, "a name in the head has no end", 0, diag);
    }
    if (h->kv_type < 0 || h->kv_type >= WHIM_KV_TYPE_COUNT) {
        return refuse(r, "there is no such KV type", h->kv_type, diag);
    }
    if (h->page_tokens < 2 || h->page_tokens > WHIM_PAGE_LEN_MAX || h->page_tokens % 2 != 0) {
        return refuse(r, "no device has pages of this length", h->page_tokens, diag);
    }
    if (!limits_ok(h)) {
        return refuse(r, "the limits in the head make no sense", h->max_rows, diag);
    }
    r->at = sizeof *h;
    return WHIM_ERR_OK;
}

static whim_err record_check(const whim_record_reader *r, const whim_record *record,
                             whim_diag *diag)
{
    const int32_t *w = record->words;
    whim_step_limits limits = whim_record_limits(&r->head);
    if (record->kind == WHIM_RECORD_STEP) {
        /* Which tokens may be results is known when the steps run. */
        whim_diag why = {""};
        if (whim_step_check(w, record->n_word, &limits, limits.max_outs, &why) != WHIM_ERR_OK) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: at byte %lld: %s", r->name,
                             (long long)r->at, why.text);
        }
    } else if (record->kind == WHIM_RECORD_RESULT) {
        if (record->n_word < RESULT_WORDS || w[0] < 0 || w[0] > limits.max_outs ||
            record->n_word != RESULT_WORDS + w[0]) {
            return refuse(r, "results do not have the length of their outputs", record->n_word,
                          diag);
        }
    } else if (record->kind == WHIM_RECORD_ADVANCE) {
        const whim_step_take *takes = (const whim_step_take *)(const void *)w;
        whim_diag why = {""};
        if (record->n_word % WHIM_TAKE_WORDS != 0) {
            return refuse(r, "rows are taken in pieces of 4 words", record->n_word, diag);
        }
        if (whim_step_takes_check(takes, record->n_word / WHIM_TAKE_WORDS, &limits, limits.max_kept,
                                  &why) != WHIM_ERR_OK) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: at byte %lld: %s", r->name,
                             (long long)r->at, why.text);
        }
    } else if (record->n_word != 2 || w[0] < 0 || w[0] >= limits.n_state || w[1] < 0 ||
               w[1] >= limits.n_state) {
        return refuse(r, "a copy of a state that there is not", record->n_word, diag);
    }
    return WHIM_ERR_OK;
}

whim_err whim_record_next(whim_record_reader *r, whim_record *record, bool *more, whim_diag *diag)
{
    int64_t left = (r->n_byte - r->at) / (int64_t)sizeof(int32_t);
    *more = r->at < r->n_byte;
    if (!*more) {
        return WHIM_ERR_OK;
    }
    const int32_t *at = (const int32_t *)(const void *)(r->bytes + r->at);
    if (left < 2 || at[1] < 0 || at[1] > left - 2) {
        return refuse(r, "the file ends within a record; bytes left:", r->n_byte - r->at, diag);
    }
    if (at[0] < WHIM_RECORD_STEP || at[0] >= WHIM_RECORD_KINDS) {
        return refuse(r, "there is no such kind of record", at[0], diag);
    }
    *record = (whim_record){(whim_record_kind)at[0], at + 2, at[1]};
    WHIM_TRY(record_check(r, record, diag));
    r->at += (2 + record->n_word) * (int64_t)sizeof(int32_t);
    return WHIM_ERR_OK;
}
