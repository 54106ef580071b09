/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF vocabularies: tokens with types, then merges (kind gpt2) or scores (kind llama). Scores
 * become merges here: a token can be made of any two tokens that spell it, the one with the highest
 * score first. */
#include "text/tokenizer_impl.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "weights/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct reader {
    whim_tokenizer *tok;
    const whim_gguf *gguf;
    whim_diag *diag;
    int32_t *rank; /* of each token by its score, best first; equal scores have equal ranks */
} reader;

/* An array, which only `token_type` (integers of any kind) may be without. */
static whim_err find_array(const reader *r, const char *name, whim_gguf_type type, int64_t count,
                           const whim_gguf_key **key)
{
    bool integers = type == WHIM_GGUF_I32;
    *key = whim_gguf_find_key(r->gguf, name);
    if (*key == NULL) {
        return integers ? WHIM_ERR_OK
                        : whim_fail(r->diag, WHIM_ERR_CORRUPT, "%s: \"%s\" is missing",
                                    r->gguf->path, name);
    }
    bool fits = integers ? whim_gguf_type_is_int((*key)->type) : (*key)->type == type;
    if (!(*key)->is_array || !fits) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT, "%s: \"%s\" is %s%s, expected an array of %s",
                         r->gguf->path, name, (*key)->is_array ? "an array of " : "",
                         whim_gguf_type_name((*key)->type), whim_gguf_type_name(type));
    }
    if (count >= 0 && (*key)->count != count) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s\" has %lld elements, expected %lld as in \"" KEY("tokens") "\"",
                         r->gguf->path, name, (long long)(*key)->count, (long long)count);
    }
    return WHIM_ERR_OK;
}

static int32_t flags_of(int64_t type)
{
    switch (type) {
    case CONTROL:
    case UNKNOWN:
        return WHIM_TOKEN_ADDED | WHIM_TOKEN_SPECIAL;
    case USER_DEFINED:
        return WHIM_TOKEN_ADDED;
    case UNUSED:
        return WHIM_TOKEN_UNUSED;
    case BYTE:
        return WHIM_TOKEN_BYTE;
    default:
        return 0;
    }
}

static whim_err read_tokens(reader *r)
{
    const whim_gguf_key *key, *types;
    WHIM_TRY(find_array(r, KEY("tokens"), WHIM_GGUF_STRING, -1, &key));
    if (key->count == 0 || key->count > WHIM_VOCAB_MAX) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"" KEY("tokens") "\" has %lld tokens, expected 1 to %d",
                         r->gguf->path, (long long)key->count, WHIM_VOCAB_MAX);
    }
    WHIM_TRY(find_array(r, KEY("token_type"), WHIM_GGUF_I32, key->count, &types));
    WHIM_TRY(whim_vocab_init(&r->tok->vocab, &r->tok->arena, (int32_t)key->count));
    int64_t total = 0, n, type = NORMAL;
    const char *text;
    whim_gguf_iter it = whim_gguf_iter_begin(r->gguf, key);
    while (whim_gguf_next_string(&it, &text, &n)) {
        total += n + 1;
    }
    char *copy = whim_arena_alloc(&r->tok->arena, total);
    if (copy == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_gguf_iter type_it =
        types != NULL ? whim_gguf_iter_begin(r->gguf, types) : (whim_gguf_iter){0};
    it = whim_gguf_iter_begin(r->gguf, key);
    for (int32_t id = 0; whim_gguf_next_string(&it, &text, &n); id++) {
        if (types != NULL) {
            (void)whim_gguf_next_int(&type_it, &type);
        }
        if (whim_utf8_valid_prefix(text, n) != n || memchr(text, 0, (size_t)n) != NULL) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"" KEY("tokens") "\": token %d is not valid UTF-8 text",
                             r->gguf->path, id);
        }
        memcpy(copy, text, (size_t)n);
        whim_vocab_set(&r->tok->vocab, id, copy, (int32_t)n, flags_of(type));
        copy += n + 1;
    }
    return whim_vocab_index(&r->tok->vocab, &r->tok->arena);
}

static whim_err read_merges(const reader *r)
{
    const whim_gguf_key *key;
    whim_tokenizer *tok = r->tok;
    WHIM_TRY(find_array(r, KEY("merges"), WHIM_GGUF_STRING, -1, &key));
    const whim_bpe options = tok->bpe;
    WHIM_TRY(whim_bpe_init(&tok->bpe, &tok->vocab, &tok->arena, key->count));
    tok->bpe.ignore_merges = options.ignore_merges;
    tok->bpe.byte_fallback = options.byte_fallback;
    char *joined = whim_arena_alloc(&tok->arena, tok->vocab.max_text + 1);
    if (joined == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    const char *text;
    int64_t n;
    whim_gguf_iter it = whim_gguf_iter_begin(r->gguf, key);
    for (int32_t i = 0; whim_gguf_next_string(&it, &text, &n); i++) {
        /* The alphabet has no space, but the first character may be one in odd files. */
        const char *space = n > 1 ? memchr(text + 1, ' ', (size_t)n - 1) : NULL;
        int64_t n_left = space != NULL ? space - text : 0;
        int64_t n_right = n - n_left - 1;
        int32_t a = -1, b = -1, both = -1;
        if (n_left > 0 && n_right > 0 && n - 1 <= tok->vocab.max_text) {
            memcpy(joined, text, (size_t)n_left);
            memcpy(joined + n_left, space + 1, (size_t)n_right);
            a = whim_vocab_find(&tok->vocab, text, n_left);
            b = whim_vocab_find(&tok->vocab, space + 1, n_right);
            both = whim_vocab_find(&tok->vocab, joined, n - 1);
        }
        if (a < 0 || b < 0 || both < 0) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"" KEY("merges") "\": entry %d, \"%.*s\", does not join two"
                                                    " tokens to a third",
                             r->gguf->path, i, (int)(n < 80 ? n : 80), text);
        }
        whim_bpe_add_merge(&tok->bpe, a, b, i, both);
    }
    return WHIM_ERR_OK;
}

typedef struct scored {
    double score;
    int32_t id;
} scored;

static int by_score(const void *left, const void *right)
{
    const scored *a = left, *b = right;
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

static whim_err rank_scores(reader *r)
{
    const whim_gguf_key *key;
    int32_t count = r->tok->vocab.count;
    WHIM_TRY(find_array(r, KEY("scores"), WHIM_GGUF_F32, count, &key));
    r->rank = whim_arena_alloc_array(&r->tok->arena, count, sizeof *r->rank);
    scored *list = whim_arena_alloc_array(&r->tok->arena, count, sizeof *list);
    if (r->rank == NULL || list == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_gguf_iter it = whim_gguf_iter_begin(r->gguf, key);
    for (int32_t id = 0; id < count && whim_gguf_next_real(&it, &list[id].score); id++) {
        list[id].id = id;
        if (list[id].score != list[id].score) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"" KEY("scores") "\": the score of token %d is not a number",
                             r->gguf->path, id);
        }
    }
    qsort(list, (size_t)count, sizeof *list, by_score);
    int32_t rank = 0;
    for (int32_t i = 0; i < count; i++) {
        rank = i > 0 && list[i].score != list[i - 1].score ? i : rank;
        r->rank[list[i].id] = rank;
    }
    return WHIM_ERR_OK;
}

/* Whether merging may take or make this token: what stands for itself in text. */
static bool mergeable(const whim_token *t)
{
    return t->n_text > 0 &&
           (t->flags & (WHIM_TOKEN_ADDED | WHIM_TOKEN_BYTE | WHIM_TOKEN_UNUSED)) == 0;
}

/* Every way to make a token of two others; counts them, and adds them when `add`. */
static int64_t pairs_of(const reader *r, int32_t id, bool add)
{
    const whim_vocab *vocab = &r->tok->vocab;
    const whim_token *t = &vocab->tokens[id];
    int64_t n = 0;
    if (!mergeable(t) || whim_vocab_find(vocab, t->text, t->n_text) != id) {
        return 0;
    }
    for (int32_t cut = whim_utf8_len(t->text[0]); cut < t->n_text;
         cut += whim_utf8_len(t->text[cut])) {
        int32_t left = whim_vocab_find(vocab, t->text, cut);
        int32_t right = left < 0 ? -1 : whim_vocab_find(vocab, t->text + cut, t->n_text - cut);
        if (right < 0 || !mergeable(&vocab->tokens[left]) || !mergeable(&vocab->tokens[right])) {
            continue;
        }
        n++;
        if (add) {
            whim_bpe_add_merge(&r->tok->bpe, left, right, r->rank[id], id);
        }
    }
    return n;
}

static whim_err read_scores(reader *r)
{
    WHIM_TRY(rank_scores(r));
    int64_t n = 0;
    for (int32_t id = 0; id < r->tok->vocab.count; id++) {
        /* Cutting one token everywhere is quadratic in its length: a text, not a token. */
        if (r->tok->vocab.tokens[id].n_text > 4 * WHIM_ADDED_MAX_BYTES) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"" KEY("tokens") "\": token %d has %d bytes, expected at most"
                                                    " %d",
                             r->gguf->path, id, r->tok->vocab.tokens[id].n_text,
                             4 * WHIM_ADDED_MAX_BYTES);
        }
        n += pairs_of(r, id, false);
    }
    whim_bpe *bpe = &r->tok->bpe;
    WHIM_TRY(whim_bpe_init(bpe, &r->tok->vocab, &r->tok->arena, n));
    for (int32_t id = 0; id < r->tok->vocab.count; id++) {
        (void)pairs_of(r, id, true);
    }
    bpe->byte_fallback = true;
    return WHIM_ERR_OK;
}

/* The id under a key, which may be absent and then stays as it is; *text is the token's. */
static whim_err read_id(const reader *r, const char *name, int32_t *id, const char **text)
{
    int64_t value = *id;
    WHIM_TRY(whim_gguf_get_int(r->gguf, name, 0, r->tok->vocab.count - 1, &value, r->diag));
    *id = (int32_t)value;
    if (value >= 0 && text != NULL) {
        *text = r->tok->vocab.tokens[value].text;
    }
    return WHIM_ERR_OK;
}

/* A mark that only some requests need: an id that no token has is none. */
static whim_err read_mark(const reader *r, const char *name, int32_t *id)
{
    int64_t value = -1;
    WHIM_TRY(whim_gguf_get_int(r->gguf, name, INT64_MIN, INT64_MAX, &value, r->diag));
    *id = value >= 0 && value < r->tok->vocab.count ? (int32_t)value : -1;
    return WHIM_ERR_OK;
}

/* Files of before 2024-10 call the first three otherwise. */
static whim_err read_fim(const reader *r, whim_fim *fim)
{
    const struct {
        const char *name, *old_name;
        int32_t *id;
    } rows[] = {
        {KEY("fim_pre_token_id"), KEY("prefix_token_id"), &fim->prefix},
        {KEY("fim_suf_token_id"), KEY("suffix_token_id"), &fim->suffix},
        {KEY("fim_mid_token_id"), KEY("middle_token_id"), &fim->middle},
        {KEY("fim_pad_token_id"), NULL, &fim->pad},
        {KEY("fim_rep_token_id"), NULL, &fim->repo},
        {KEY("fim_sep_token_id"), NULL, &fim->file},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        WHIM_TRY(read_mark(r, rows[i].name, rows[i].id));
        if (*rows[i].id < 0 && rows[i].old_name != NULL) {
            WHIM_TRY(read_mark(r, rows[i].old_name, rows[i].id));
        }
    }
    return WHIM_ERR_OK;
}

/* What a file means that names no such token: SentencePiece's own place for it, if it is one. */
static int32_t usual_id(const reader *r, int32_t id)
{
    const whim_vocab *vocab = &r->tok->vocab;
    bool is_mark = id < vocab->count && (vocab->tokens[id].flags & WHIM_TOKEN_SPECIAL) != 0;
    return is_mark ? id : -1;
}

static whim_err read_specials(const reader *r, bool llama, bool add_bos)
{
    whim_tokenizer *tok = r->tok;
    int32_t unk = llama ? usual_id(r, 0) : -1;
    int32_t bos = llama ? usual_id(r, 1) : -1;
    int32_t eos = llama ? usual_id(r, 2) : -1;
    int32_t eot = -1, eom = -1;
    bool add_eos = false;
    WHIM_TRY(read_id(r, KEY("bos_token_id"), &bos, &tok->bos));
    WHIM_TRY(read_id(r, KEY("eos_token_id"), &eos, &tok->eos));
    WHIM_TRY(read_id(r, KEY("eot_token_id"), &eot, NULL));
    WHIM_TRY(read_id(r, KEY("eom_token_id"), &eom, NULL));
    WHIM_TRY(read_id(r, KEY("unknown_token_id"), &unk, NULL));
    WHIM_TRY(whim_gguf_get_bool(r->gguf, KEY("add_bos_token"), &add_bos, r->diag));
    WHIM_TRY(whim_gguf_get_bool(r->gguf, KEY("add_eos_token"), &add_eos, r->diag));
    WHIM_TRY(read_fim(r, &tok->fim));
    tok->has_fim = true;
    if (llama) {
        tok->bpe.unk = unk;
    }
    if (add_bos && bos >= 0) {
        tok->prefix = (whim_affix){.ids = {bos}, .n = 1};
    }
    if (add_eos && eos >= 0) {
        tok->suffix = (whim_affix){.ids = {eos}, .n = 1};
    }
    whim_tokenizer_add_stop(tok, eos);
    whim_tokenizer_add_stop(tok, eot);
    whim_tokenizer_add_stop(tok, eom);
    return WHIM_ERR_OK;
}

static whim_err build_added(whim_tokenizer *tok)
{
    int32_t n = 0;
    for (int32_t id = 0; id < tok->vocab.count; id++) {
        n += (tok->vocab.tokens[id].flags & WHIM_TOKEN_ADDED) != 0;
    }
    whim_added_token *list = whim_arena_alloc_array(&tok->arena, n, sizeof *list);
    if (list == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    n = 0;
    for (int32_t id = 0; id < tok->vocab.count; id++) {
        const whim_token *t = &tok->vocab.tokens[id];
        if ((t->flags & WHIM_TOKEN_ADDED) != 0 && t->n_text > 0 &&
            t->n_text <= WHIM_ADDED_MAX_BYTES) {
            bool special = (t->flags & WHIM_TOKEN_SPECIAL) != 0;
            list[n++] = (whim_added_token){
                .content = t->text, .id = id, .plain = whim_added_is_plain(t->text, special)};
        }
    }
    return whim_added_build(&tok->raw, &tok->arena, list, n);
}

static whim_err read_templates(const reader *r)
{
    static const char base[] = "tokenizer.chat_template";
    for (int64_t i = 0; i < r->gguf->n_key; i++) {
        const char *name = r->gguf->keys[i].name;
        const char *text;
        int64_t n;
        const char *variant = name + sizeof base - 1;
        if (strncmp(name, base, sizeof base - 1) != 0 || (*variant != '\0' && *variant != '.')) {
            continue;
        }
        variant = *variant == '\0' ? "default" : variant + 1;
        WHIM_TRY(whim_gguf_get_string(r->gguf, name, &text, &n, r->diag));
        WHIM_TRY(whim_tokenizer_keep_template(r->tok, variant, text, n, r->gguf->path, r->diag));
    }
    return WHIM_ERR_OK;
}

/* Kind llama: a space in front, spaces as marks. */
static whim_err set_llama(const reader *r)
{
    whim_tokenizer *tok = r->tok;
    bool prefix = true;
    WHIM_TRY(whim_gguf_get_bool(r->gguf, KEY("add_space_prefix"), &prefix, r->diag));
    whim_normal_step *steps = tok->normalizer.steps;
    int32_t n = 0;
    if (prefix) {
        steps[n++] = (whim_normal_step){.kind = WHIM_NORMAL_PREPEND, .content = WHIM_SPACE_MARK};
    }
    steps[n++] = whim_spaces_become_marks;
    tok->normalizer.n_step = n;
    tok->drop_first_space = prefix;
    return WHIM_ERR_OK;
}

whim_err whim_tokenizer_from_gguf(whim_tokenizer *tok, const whim_gguf *gguf, whim_diag *diag)
{
    reader r = {.tok = tok, .gguf = gguf, .diag = diag};
    const char *model = "", *pre = "default";
    int64_t n_model = 0, n_pre = 7;
    WHIM_TRY(whim_gguf_get_string(gguf, KEY("model"), &model, &n_model, diag));
    WHIM_TRY(whim_gguf_get_string(gguf, KEY("pre"), &pre, &n_pre, diag));
    bool llama = n_model == 5 && memcmp(model, "llama", 5) == 0, add_bos = llama;
    bool gemma = n_model == 6 && memcmp(model, "gemma4", 6) == 0; /* which names its split */
    if (!llama && !gemma && (n_model != 4 || memcmp(model, "gpt2", 4) != 0)) {
        return whim_fail(
            diag, WHIM_ERR_UNSUPPORTED,
            "%s: \"" KEY("model") "\" is \"%.*s\", expected \"gpt2\", \"llama\" or \"gemma4\"",
            gguf->path, (int)(n_model < 64 ? n_model : 64), model);
    }
    pre = gemma ? model : pre;
    n_pre = gemma ? n_model : n_pre;
    WHIM_TRY(read_tokens(&r));
    if (llama) {
        WHIM_TRY(read_scores(&r));
        WHIM_TRY(set_llama(&r));
    } else {
        WHIM_TRY(whim_tokenizer_set_pre(tok, pre, n_pre, gguf->path, &add_bos, diag));
        WHIM_TRY(read_merges(&r));
    }
    WHIM_TRY(read_specials(&r, llama, add_bos));
    WHIM_TRY(build_added(tok));
    WHIM_TRY(read_templates(&r));
    const bool marks = tok->bpe.byte_fallback;
    tok->bpe.cut_at_marks = marks && whim_tokenizer_find(tok, WHIM_SPACE_MARK) >= 0 &&
                            whim_bpe_can_cut_at_marks(&tok->vocab);
    return whim_vocab_decode(&tok->vocab, &tok->arena,
                             marks ? WHIM_DECODER_SPACE_MARK : WHIM_DECODER_BYTE_LEVEL, marks);
}
