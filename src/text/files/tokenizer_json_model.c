/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: the model (vocabulary and merges) and the added tokens. */
#include "text/tokenizer_impl.h"

#include "base/alloc.h"

#include <string.h>

typedef struct reader {
    whim_tokenizer *tok;
    const char *path;
    whim_diag *diag;
    char *text; /* where the next text is read to */
} reader;

/* The id and content of an added token. */
static whim_err read_added(const reader *r, const whim_json *added, int64_t i, int64_t *id,
                           const char **content)
{
    whim_json_scope scope = {whim_json_at(added, i), r->path, "added_tokens.", r->diag};
    WHIM_TRY(whim_json_require(&scope, "id"));
    WHIM_TRY(whim_json_require(&scope, "content"));
    WHIM_TRY(whim_json_get_int(&scope, "id", 0, WHIM_VOCAB_MAX - 1, id));
    WHIM_TRY(whim_json_get_string(&scope, "content", content));
    size_t n = strlen(*content);
    if (n == 0 || n > WHIM_ADDED_MAX_BYTES) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"added_tokens.content\" of id %lld has %zu bytes, expected 1 to %d",
                         r->path, (long long)*id, n, WHIM_ADDED_MAX_BYTES);
    }
    return WHIM_ERR_OK;
}

/* One entry of the vocabulary as it is read; its text is in the reader's. */
typedef struct entry {
    const char *text;
    int32_t n;
    int32_t id;
    bool is_repeated; /* its text stands before */
} entry;

typedef struct entries {
    entry *list;
    int64_t n, cap;
} entries;

static whim_err add_entry(entries *to, entry one)
{
    if (!whim_grow(&to->list, to->n + 1, &to->cap, sizeof *to->list)) {
        return WHIM_ERR_NO_MEMORY;
    }
    to->list[to->n++] = one;
    return WHIM_ERR_OK;
}

static whim_err scan_id(whim_json_scan *scan, const char *text, int32_t *id)
{
    const char c = whim_json_peek(scan), *word = c == '"'   ? "a string"
                                                 : c == '{' ? "an object"
                                                 : c == '[' ? "an array"
                                                            : NULL;
    int64_t value = 0;
    int32_t n = word != NULL ? (int32_t)strlen(word) : whim_json_scan_word(scan, &word);
    for (int32_t i = 0; i < n && value >= 0; i++) {
        bool digit = word[i] >= '0' && word[i] <= '9';
        value = digit && value < WHIM_VOCAB_MAX ? 10 * value + (word[i] - '0') : -1;
    }
    if (n == 0) {
        return whim_json_unexpected(scan, "an integer");
    }
    if (value < 0 || value >= WHIM_VOCAB_MAX) {
        return whim_fail(
            scan->diag, WHIM_ERR_CORRUPT,
            "%s: \"model.vocab\": the id of \"%.80s\" is %.*s, expected an integer from"
            " 0 to %d",
            scan->path, text, n, word, WHIM_VOCAB_MAX - 1);
    }
    *id = (int32_t)value;
    return WHIM_ERR_OK;
}

/* {"text": id, ...} */
static whim_err scan_vocab(reader *r, whim_json_scan scan, entries *to)
{
    (void)whim_json_take(&scan, '{');
    if (whim_json_take(&scan, '}')) {
        return WHIM_ERR_OK;
    }
    do {
        int64_t n;
        int32_t id = 0;
        char *text = r->text;
        WHIM_TRY(whim_json_scan_string(&scan, text, &n));
        if (!whim_json_take(&scan, ':')) {
            return whim_json_unexpected(&scan, "\":\"");
        }
        WHIM_TRY(scan_id(&scan, text, &id));
        WHIM_TRY(add_entry(to, (entry){.text = text, .n = (int32_t)n, .id = id}));
        r->text += n + 1;
    } while (whim_json_take(&scan, ','));
    return whim_json_take(&scan, '}') ? WHIM_ERR_OK : whim_json_unexpected(&scan, "\",\" or \"}\"");
}

/* Of a text that stands twice the last id counts. */
static whim_err drop_repeated(entries *vocab)
{
    whim_arena arena;
    whim_vocab texts; /* whose ids are places in the list */
    whim_arena_init(&arena);
    whim_err err = whim_vocab_init(&texts, &arena, (int32_t)vocab->n);
    for (int64_t i = 0; err == WHIM_ERR_OK && i < vocab->n; i++) {
        whim_vocab_set(&texts, (int32_t)i, vocab->list[i].text, vocab->list[i].n, 0);
    }
    err = err == WHIM_ERR_OK ? whim_vocab_index(&texts, &arena) : err;
    for (int64_t i = 0; err == WHIM_ERR_OK && i < vocab->n; i++) {
        entry *first = &vocab->list[whim_vocab_find(&texts, vocab->list[i].text, vocab->list[i].n)];
        first->id = vocab->list[i].id;
        vocab->list[i].is_repeated = first < &vocab->list[i];
    }
    whim_arena_reset(&arena);
    int64_t n = 0;
    for (int64_t i = 0; i < vocab->n; i++) {
        if (!vocab->list[i].is_repeated) {
            vocab->list[n++] = vocab->list[i];
        }
    }
    vocab->n = n;
    return err;
}

/* Highest id + 1 of vocabulary and added tokens. */
static whim_err measure(const reader *r, const entries *vocab, const whim_json *added,
                        int64_t *count)
{
    int64_t n = vocab->n;
    *count = 0;
    for (int64_t i = 0; i < vocab->n; i++) {
        *count = vocab->list[i].id >= *count ? vocab->list[i].id + 1 : *count;
    }
    for (int64_t i = 0; added != NULL && i < whim_json_size(added); i++, n++) {
        int64_t id = 0;
        const char *content = NULL;
        WHIM_TRY(read_added(r, added, i, &id, &content));
        *count = id >= *count ? id + 1 : *count;
    }
    /* Gaps are legal, but a file of a few tokens must not take gigabytes. */
    if (*count == 0 || *count > 16 * n + 65536) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"model.vocab\" has %lld tokens with ids up to %lld", r->path,
                         (long long)n, (long long)*count - 1);
    }
    return WHIM_ERR_OK;
}

static whim_err fill_vocab(reader *r, const entries *vocab)
{
    for (int64_t i = 0; i < vocab->n; i++) {
        const entry *e = &vocab->list[i];
        const whim_token *old = &r->tok->vocab.tokens[e->id];
        if (old->flags != 0) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"model.vocab\": \"%.80s\" and \"%.80s\" both have id %d",
                             r->path, old->text, e->text, e->id);
        }
        whim_vocab_set(&r->tok->vocab, e->id, e->text, e->n, 0);
    }
    return WHIM_ERR_OK;
}

/* Added tokens may be in the vocabulary already, under the same id. */
static whim_err fill_added(reader *r, const whim_json *added)
{
    for (int64_t i = 0; added != NULL && i < whim_json_size(added); i++) {
        int64_t id = 0;
        const char *content = NULL;
        bool special = false;
        WHIM_TRY(read_added(r, added, i, &id, &content));
        whim_json_scope scope = {whim_json_at(added, i), r->path, "added_tokens.", r->diag};
        WHIM_TRY(whim_json_get_bool(&scope, "special", &special));
        whim_token *old = &r->tok->vocab.tokens[id];
        if (old->flags != 0 && strcmp(old->text, content) != 0) {
            return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                             "%s: \"added_tokens\": \"%s\" has id %lld, which is \"%s\"", r->path,
                             content, (long long)id, old->text);
        }
        int32_t flags = WHIM_TOKEN_ADDED | (special ? WHIM_TOKEN_SPECIAL : 0);
        if (old->flags != 0) {
            old->flags |= flags;
        } else {
            int64_t n = (int64_t)strlen(content);
            const char *copy = whim_arena_strndup(&r->tok->arena, content, n);
            if (copy == NULL) {
                return WHIM_ERR_NO_MEMORY;
            }
            whim_vocab_set(&r->tok->vocab, (int32_t)id, copy, (int32_t)n, flags);
        }
    }
    return WHIM_ERR_OK;
}

/* One entry of the merges, ["a", "b"] or "a b", into `out` as both sides one after the other. */
static whim_err scan_merge(whim_json_scan *scan, char *out, int64_t *n_left, int64_t *n_right)
{
    if (whim_json_peek(scan) == '"') {
        int64_t n;
        WHIM_TRY(whim_json_scan_string(scan, out, &n));
        char *space = memchr(out, ' ', (size_t)n);
        if (space == NULL || memchr(space + 1, ' ', (size_t)(out + n - space - 1)) != NULL) {
            return whim_json_unexpected(scan, "two tokens with one space between them");
        }
        *n_left = space - out;
        *n_right = n - *n_left - 1;
        memmove(space, space + 1, (size_t)*n_right);
        return WHIM_ERR_OK;
    }
    if (!whim_json_take(scan, '[')) {
        return whim_json_unexpected(scan, "a pair of strings or a string");
    }
    WHIM_TRY(whim_json_scan_string(scan, out, n_left));
    if (!whim_json_take(scan, ',')) {
        return whim_json_unexpected(scan, "\",\"");
    }
    WHIM_TRY(whim_json_scan_string(scan, out + *n_left, n_right));
    return whim_json_take(scan, ']') ? WHIM_ERR_OK : whim_json_unexpected(scan, "\"]\"");
}

static whim_err add_merge(const reader *r, int64_t i, const char *both, int64_t n_left,
                          int64_t n_right)
{
    const whim_vocab *vocab = &r->tok->vocab;
    int32_t left = whim_vocab_find(vocab, both, n_left);
    int32_t right = whim_vocab_find(vocab, both + n_left, n_right);
    int32_t made = whim_vocab_find(vocab, both, n_left + n_right);
    if (left < 0 || right < 0 || made < 0) {
        return whim_fail(r->diag, WHIM_ERR_CORRUPT,
                         "%s: \"model.merges\": entry %lld joins \"%.*s\" and \"%.*s\", and %s is"
                         " not in the vocabulary",
                         r->path, (long long)i, (int)(n_left < 80 ? n_left : 80), both,
                         (int)(n_right < 80 ? n_right : 80), both + n_left,
                         left < 0    ? "the first"
                         : right < 0 ? "the second"
                                     : "the result");
    }
    whim_bpe_add_merge(&r->tok->bpe, left, right, (int32_t)i, made);
    return WHIM_ERR_OK;
}

/* Read all merges; with `add` false only count them. */
static whim_err scan_merges(const reader *r, whim_json_scan scan, bool add, int64_t *count)
{
    *count = 0;
    (void)whim_json_take(&scan, '[');
    if (whim_json_take(&scan, ']')) {
        return WHIM_ERR_OK;
    }
    do {
        int64_t n_left, n_right;
        WHIM_TRY(scan_merge(&scan, r->text, &n_left, &n_right));
        if (add) {
            WHIM_TRY(add_merge(r, *count, r->text, n_left, n_right));
        }
        (*count)++;
    } while (whim_json_take(&scan, ','));
    return whim_json_take(&scan, ']') ? WHIM_ERR_OK : whim_json_unexpected(&scan, "\",\" or \"]\"");
}

static whim_err refuse_text(const whim_json_scope *scope, const char *key)
{
    const char *text = "";
    WHIM_TRY(whim_json_get_string(scope, key, &text));
    if (text[0] != '\0') {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"model.%s\" is \"%s\", which is not supported", scope->path, key,
                         text);
    }
    return WHIM_ERR_OK;
}

static whim_err read_options(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const char *unk = NULL;
    double dropout = 0;
    WHIM_TRY(whim_json_get_real(scope, "dropout", 0, 0, &dropout));
    WHIM_TRY(refuse_text(scope, "continuing_subword_prefix"));
    WHIM_TRY(refuse_text(scope, "end_of_word_suffix"));
    WHIM_TRY(whim_json_get_bool(scope, "fuse_unk", &tok->bpe.fuse_unk));
    WHIM_TRY(whim_json_get_bool(scope, "byte_fallback", &tok->bpe.byte_fallback));
    WHIM_TRY(whim_json_get_bool(scope, "ignore_merges", &tok->bpe.ignore_merges));
    WHIM_TRY(whim_json_get_string(scope, "unk_token", &unk));
    if (unk != NULL) {
        tok->bpe.unk = whim_tokenizer_find(tok, unk);
        if (tok->bpe.unk < 0) {
            return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                             "%s: \"model.unk_token\" is \"%s\", which is not in the vocabulary",
                             scope->path, unk);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err fill(reader *r, const entries *vocab, const whim_json *added)
{
    whim_tokenizer *tok = r->tok;
    int64_t count;
    WHIM_TRY(measure(r, vocab, added, &count));
    WHIM_TRY(whim_vocab_init(&tok->vocab, &tok->arena, (int32_t)count));
    WHIM_TRY(fill_vocab(r, vocab));
    WHIM_TRY(fill_added(r, added));
    return whim_vocab_index(&tok->vocab, &tok->arena);
}

static whim_err check_model(const whim_json_scope *scope, const whim_json *added)
{
    const char *type = "BPE";
    const whim_json *value = NULL;
    WHIM_TRY(whim_json_get_string(scope, "type", &type));
    if (strcmp(type, "BPE") != 0) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"model.type\" is \"%s\", expected BPE", scope->path, type);
    }
    WHIM_TRY(whim_json_require(scope, "vocab"));
    WHIM_TRY(whim_json_require(scope, "merges"));
    WHIM_TRY(whim_json_get_object(scope, "vocab", &value));
    WHIM_TRY(whim_json_get_array(scope, "merges", &value));
    for (int64_t i = 0; added != NULL && i < whim_json_size(added); i++) {
        if (!whim_json_is_object(whim_json_at(added, i))) {
            return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                             "%s: \"added_tokens\": entry %lld is %s, expected an object",
                             scope->path, (long long)i, whim_json_kind(whim_json_at(added, i)));
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_tokenizer_json_model(whim_tokenizer *tok, const whim_json *model,
                                   const whim_json *added, const char *text,
                                   const whim_json_cut *cut, const char *path, whim_diag *diag)
{
    whim_json_scope scope = {model, path, "model.", diag};
    WHIM_TRY(check_model(&scope, added));
    reader r = {.tok = tok, .path = path, .diag = diag};
    /* A text never becomes longer by resolving its escapes; its quotes make room for the NUL. */
    r.text = whim_arena_alloc(&tok->arena, cut->vocab_end - cut->vocab);
    if (r.text == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_json_scan scan = {text, cut->vocab, cut->vocab_end, path, "model.vocab", diag};
    entries vocab = {0};
    whim_err err = scan_vocab(&r, scan, &vocab);
    err = err == WHIM_ERR_OK ? drop_repeated(&vocab) : err;
    err = err == WHIM_ERR_OK ? fill(&r, &vocab, added) : err;
    whim_free(vocab.list);
    WHIM_TRY(err);
    int64_t n_merge;
    scan = (whim_json_scan){text, cut->merges, cut->merges_end, path, "model.merges", diag};
    r.text = whim_alloc(cut->merges_end - cut->merges);
    if (r.text == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    err = scan_merges(&r, scan, false, &n_merge);
    if (err == WHIM_ERR_OK) {
        err = whim_bpe_init(&tok->bpe, &tok->vocab, &tok->arena, n_merge);
    }
    if (err == WHIM_ERR_OK) {
        err = scan_merges(&r, scan, true, &n_merge);
    }
    whim_free(r.text);
    WHIM_TRY(err);
    return read_options(tok, &scope);
}
