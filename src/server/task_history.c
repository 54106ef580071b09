/* SPDX-License-Identifier: Apache-2.0 */
/* Fields by which the text so far says what should not come next: words that must not come, and
 * repetitions (DRY). */
#include "server/api.h"

#include <float.h>
#include <string.h>

enum { MAX_BREAKERS = 64, MAX_BREAKER_BYTES = 64 };

/* --- words ------------------------------------------------------------------------------------ */

typedef struct ban_list {
    whim_ids ids;
    whim_ban bans[WHIM_MAX_BANS];
    int32_t n;
} ban_list;

static bool same_ids(const ban_list *l, whim_ban a, whim_ban b)
{
    return a.n == b.n &&
           memcmp(l->ids.ids + a.at, l->ids.ids + b.at, (size_t)a.n * sizeof *l->ids.ids) == 0;
}

/* A word as it stands at the beginning of a text, and behind a space. */
static whim_err ban_word(const whim_tokenizer *tok, const char *word, ban_list *l, whim_diag *diag)
{
    const whim_encode_opts opts = {.parse_special = true};
    char text[WHIM_MAX_STOP_BYTES + 2] = " ";
    const char *bare = word + strspn(word, " ");
    strcpy(text + 1, *bare != '\0' ? bare : word);
    whim_ban first = {0};
    for (int32_t i = 0; i < 2; i++) {
        whim_ban ban = {.at = (int32_t)l->ids.n};
        WHIM_TRY(whim_tokenizer_encode(tok, text + 1 - i, (int64_t)strlen(text + 1 - i), &opts,
                                       &l->ids, diag));
        ban.n = (int32_t)l->ids.n - ban.at;
        if (ban.n > 0 && !same_ids(l, first, ban)) {
            l->bans[l->n++] = ban;
        }
        first = ban;
    }
    return WHIM_ERR_OK;
}

static bool read_bans(const whim_api *api, const whim_fields *f, whim_task *task)
{
    static const char key[] = "bad_words";
    const char *const *words = NULL;
    int32_t n = 0;
    whim_history_rules *h = task->history;
    ban_list l = {0};
    whim_diag diag = {{0}};
    whim_err err = WHIM_ERR_OK;
    if (!whim_task_read_texts(f, key, WHIM_MAX_BANS / 2, WHIM_MAX_STOP_BYTES, false, &task->arena,
                              &words, &n)) {
        return false;
    }
    h->n_ban = whim_field(f, key) == NULL ? h->n_ban : 0;
    if (n == 0) {
        return true;
    }
    for (int32_t i = 0; i < n && err == WHIM_ERR_OK; i++) {
        err = ban_word(api->tok, words[i], &l, &diag);
    }
    int32_t *ids = whim_arena_alloc_array(&task->arena, l.ids.n, sizeof *ids);
    whim_ban *bans = whim_arena_alloc_array(&task->arena, l.n, sizeof *bans);
    bool ok = err == WHIM_ERR_OK && ids != NULL && bans != NULL;
    if (ok && l.n > 0) {
        memcpy(ids, l.ids.ids, (size_t)l.ids.n * sizeof *ids);
        memcpy(bans, l.bans, (size_t)l.n * sizeof *bans);
        h->bans = bans;
        h->n_ban = l.n;
        h->ban_ids = ids;
        h->n_ban_id = l.ids.n;
    }
    whim_ids_deinit(&l.ids);
    return ok || (err != WHIM_ERR_OK && err != WHIM_ERR_NO_MEMORY
                      ? whim_field_refuse(f, key, "cannot be taken apart: %.500s", diag.text)
                      : whim_fault_no_memory(f->fault));
}

/* --- DRY -------------------------------------------------------------------------------------- */

typedef struct breakers {
    const char *const *texts;
    int32_t n;
    bool begins[256]; /* whether one begins with this byte: few do */
} breakers;

static bool breaks_at(const breakers *b, const char *bytes, int64_t n_byte)
{
    bool has = false;
    for (int32_t i = 0; i < b->n && !has && b->begins[(uint8_t)bytes[0]]; i++) {
        int64_t n = (int64_t)strlen(b->texts[i]);
        has = n <= n_byte && memcmp(bytes, b->texts[i], (size_t)n) == 0;
    }
    return has;
}

static bool has_breaker(const breakers *b, const char *bytes, int64_t n_byte)
{
    bool has = false;
    for (int64_t i = 0; i < n_byte && !has; i++) {
        has = breaks_at(b, bytes + i, n_byte - i);
    }
    return has;
}

/* A token breaks a repetition where one of the texts stands in it. */
static bool set_breakers(const whim_api *api, const whim_fields *f, const char *const *texts,
                         int32_t n, whim_task *task)
{
    int64_t n_word = api->n_vocab / 32 + 1;
    uint32_t *bits = whim_arena_alloc_array(&task->arena, n_word, sizeof *bits);
    if (bits == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    breakers b = {texts, n, {false}};
    for (int32_t i = 0; i < n; i++) {
        b.begins[(uint8_t)texts[i][0]] = true;
    }
    for (int32_t id = 0; id < api->n_vocab; id++) {
        int64_t n_byte;
        const char *bytes = whim_tokenizer_bytes(api->tok, id, &n_byte);
        if (has_breaker(&b, bytes, n_byte)) {
            bits[id / 32] |= UINT32_C(1) << id % 32;
        }
    }
    task->history->dry_breakers = bits;
    task->history->n_breaker_word = n_word;
    return true;
}

static bool read_dry(const whim_api *api, const whim_fields *f, whim_task *task)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *texts = usual;
    int32_t n = sizeof usual / sizeof usual[0];
    int64_t allowed = 2, last = -1;
    whim_history_rules *h = task->history;
    if (whim_field(f, "dry_multiplier") == NULL && h->dry_multiplier > 0) {
        return true; /* another object of the request has said */
    }
    h->dry_base = 1.75f;
    if (!whim_field_real(f, "dry_multiplier", 0, FLT_MAX, &h->dry_multiplier) ||
        !whim_field_real(f, "dry_base", 0, FLT_MAX, &h->dry_base) ||
        !whim_field_int(f, "dry_allowed_length", 0, INT32_MAX, &allowed) ||
        !whim_field_int(f, "dry_penalty_last_n", -1, INT32_MAX, &last) ||
        !whim_task_read_texts(f, "dry_sequence_breakers", MAX_BREAKERS, MAX_BREAKER_BYTES, false,
                              &task->arena, &texts, &n)) {
        return false;
    }
    h->dry_base = h->dry_base < 1 ? 1.75f : h->dry_base; /* as llama.cpp has it */
    h->dry_allowed = (int32_t)allowed;
    h->dry_last = (int32_t)last;
    h->dry_multiplier = last == 0 ? 0 : h->dry_multiplier; /* it looks at nothing */
    return h->dry_multiplier == 0 || set_breakers(api, f, texts, n, task);
}

bool whim_task_read_history(const whim_api *api, const whim_fields *f, whim_task *task)
{
    if (task->history == NULL) { /* else another object of the request has said something */
        task->history = whim_arena_alloc(&task->arena, sizeof *task->history);
    }
    if (task->history == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    if (!read_bans(api, f, task) || !read_dry(api, f, task)) {
        return false;
    }
    if (task->history->n_ban == 0 && task->history->dry_multiplier == 0) {
        task->history = NULL; /* nothing looks back */
    }
    return true;
}
