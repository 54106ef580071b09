/* SPDX-License-Identifier: Apache-2.0 */
/* Reading recorded steps. */
#include "support/step_reader.h"

#include <string.h>

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
    if (n_byte < (int64_t)sizeof *h || memcmp(bytes, WHIM_RECORD_MAGIC, sizeof h->magic) != 0) {
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
        if (record->n_word < WHIM_RESULT_WORDS || w[0] < 0 || w[0] > limits.max_outs ||
            record->n_word != WHIM_RESULT_WORDS + w[0]) {
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
