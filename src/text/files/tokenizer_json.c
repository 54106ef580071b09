/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: the top level, its components, the post-processor and the decoder. */
#include "text/tokenizer_impl.h"

#include <string.h>

enum { DEPTH_MAX = 4 }; /* of sequences in sequences */

static const whim_json_limits limits = {.max_bytes = 64 << 20, .max_depth = 32};

static whim_err put_affix_id(whim_affix *affix, const whim_json_scope *scope, int64_t id)
{
    if (affix->n == WHIM_AFFIX_MAX) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%ssingle\" adds more than %d tokens", scope->path, scope->prefix,
                         WHIM_AFFIX_MAX);
    }
    affix->ids[affix->n++] = (int32_t)id;
    return WHIM_ERR_OK;
}

/* The ids of one special token of a template, looked up in "special_tokens". */
static whim_err put_template_token(whim_tokenizer *tok, const whim_json_scope *scope,
                                   const char *name, whim_affix *affix)
{
    const whim_json *table = NULL, *entry = NULL, *ids = NULL;
    WHIM_TRY(whim_json_get_object(scope, "special_tokens", &table));
    whim_json_scope names = {table, scope->path, "post_processor.special_tokens.", scope->diag};
    if (table != NULL) {
        WHIM_TRY(whim_json_get_object(&names, name, &entry));
    }
    whim_json_scope inner = {entry, scope->path, "post_processor.special_tokens.", scope->diag};
    if (entry != NULL) {
        WHIM_TRY(whim_json_get_array(&inner, "ids", &ids));
    }
    if (ids == NULL) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"post_processor.special_tokens\" has no ids for \"%s\"", scope->path,
                         name);
    }
    for (int64_t i = 0; i < whim_json_size(ids); i++) {
        int64_t id;
        if (!whim_json_as_int(whim_json_at(ids, i), &id) || id < 0 || id >= tok->vocab.count) {
            return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                             "%s: \"post_processor.special_tokens\": the ids of \"%s\" are not ids"
                             " of the vocabulary",
                             scope->path, name);
        }
        WHIM_TRY(put_affix_id(affix, scope, id));
    }
    return WHIM_ERR_OK;
}

/* "single" is a list of special tokens around one {"Sequence": {"id": "A"}}. */
static whim_err read_template(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const whim_json *single = NULL;
    WHIM_TRY(whim_json_require(scope, "single"));
    WHIM_TRY(whim_json_get_array(scope, "single", &single));
    whim_affix prefix = {0}, suffix = {0};
    bool seen = false;
    for (int64_t i = 0; i < whim_json_size(single); i++) {
        const whim_json *item = whim_json_at(single, i);
        whim_json_scope at = {item, scope->path, "post_processor.single.", scope->diag};
        const whim_json *token = NULL;
        const char *name = NULL;
        if (whim_json_is_object(item) && whim_json_has(&at, "Sequence") && !seen) {
            seen = true;
            continue;
        }
        if (whim_json_is_object(item)) {
            WHIM_TRY(whim_json_get_object(&at, "SpecialToken", &token));
        }
        if (token != NULL) {
            at.obj = token;
            at.prefix = "post_processor.single.SpecialToken.";
            WHIM_TRY(whim_json_get_string(&at, "id", &name));
        }
        if (name == NULL) {
            return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"post_processor.single\": part %lld is neither the one sequence"
                             " nor a special token",
                             scope->path, (long long)i);
        }
        WHIM_TRY(put_template_token(tok, scope, name, seen ? &suffix : &prefix));
    }
    if (!seen) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"post_processor.single\" has no sequence", scope->path);
    }
    /* A later processor of a sequence wraps what the earlier ones made. */
    for (int32_t i = 0; i < tok->prefix.n; i++) {
        WHIM_TRY(put_affix_id(&prefix, scope, tok->prefix.ids[i]));
    }
    tok->prefix = prefix;
    for (int32_t i = 0; i < suffix.n; i++) {
        WHIM_TRY(put_affix_id(&tok->suffix, scope, suffix.ids[i]));
    }
    return WHIM_ERR_OK;
}

static whim_err read_post(whim_tokenizer *tok, const whim_json_scope *scope, const char *type)
{
    if (strcmp(type, "ByteLevel") == 0) {
        return WHIM_ERR_OK; /* it only moves offsets */
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        return read_template(tok, scope);
    }
    return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"post_processor.type\" is \"%s\", expected ByteLevel,"
                     " TemplateProcessing or Sequence",
                     scope->path, type);
}

static whim_err read_metaspace(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const char *scheme = "always", *mark = WHIM_SPACE_MARK;
    bool prefix = true;
    WHIM_TRY(whim_json_get_string(scope, "prepend_scheme", &scheme));
    WHIM_TRY(whim_json_get_bool(scope, "add_prefix_space", &prefix));
    WHIM_TRY(whim_json_get_string(scope, "replacement", &mark));
    tok->decoder = WHIM_DECODER_SPACE_MARK;
    tok->drop_first_space = prefix && strcmp(scheme, "never") != 0;
    return WHIM_ERR_OK;
}

static whim_err read_replace(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const whim_json *pattern = NULL;
    const char *from = "", *to = "";
    tok->decoder = WHIM_DECODER_SPACE_MARK;
    WHIM_TRY(whim_json_get_object(scope, "pattern", &pattern));
    WHIM_TRY(whim_json_get_string(scope, "content", &to));
    whim_json_scope inner = {pattern, scope->path, "decoder.pattern.", scope->diag};
    WHIM_TRY(whim_json_get_string(&inner, "String", &from));
    if (strcmp(from, WHIM_SPACE_MARK) != 0 || strcmp(to, " ") != 0) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"decoder\": Replace of \"%s\" by \"%s\", expected U+2581 by a"
                         " space",
                         scope->path, from, to);
    }
    return WHIM_ERR_OK;
}

static whim_err read_decoder(whim_tokenizer *tok, const whim_json_scope *scope, const char *type)
{
    if (strcmp(type, "ByteLevel") == 0) {
        tok->decoder = WHIM_DECODER_BYTE_LEVEL;
    } else if (strcmp(type, "ByteFallback") == 0) {
        tok->byte_tokens = true;
    } else if (strcmp(type, "Metaspace") == 0) {
        return read_metaspace(tok, scope);
    } else if (strcmp(type, "Replace") == 0) {
        return read_replace(tok, scope);
    } else if (strcmp(type, "Strip") == 0) {
        int64_t start = 0, stop = 0;
        WHIM_TRY(whim_json_get_int(scope, "start", 0, 1, &start));
        WHIM_TRY(whim_json_get_int(scope, "stop", 0, 0, &stop));
        tok->drop_first_space = start == 1;
    } else if (strcmp(type, "Fuse") != 0) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"decoder.type\" is \"%s\", expected ByteLevel, Metaspace, Replace,"
                         " ByteFallback, Fuse, Strip or Sequence",
                         scope->path, type);
    }
    return WHIM_ERR_OK;
}

/* The components: where they stand, what their sequences are called, who reads them. */
static const struct component {
    const char *key, *prefix, *list;
    whim_component_fn *read;
} components[] = {
    {"normalizer", "normalizer.", "normalizers", whim_tokenizer_json_normalizer},
    {"pre_tokenizer", "pre_tokenizer.", "pretokenizers", whim_tokenizer_json_pre},
    {"post_processor", "post_processor.", "processors", read_post},
    {"decoder", "decoder.", "decoders", read_decoder},
};

static whim_err read_component(whim_tokenizer *tok, const struct component *c,
                               const whim_json *value, int32_t depth, const whim_json_scope *top)
{
    whim_json_scope scope = {value, top->path, c->prefix, top->diag};
    const char *type = NULL;
    const whim_json *list = NULL;
    if (!whim_json_is_object(value)) {
        return whim_fail(scope.diag, WHIM_ERR_CORRUPT,
                         "%s: a part of \"%s\" is %s, expected an object", scope.path, c->key,
                         whim_json_kind(value));
    }
    WHIM_TRY(whim_json_require(&scope, "type"));
    WHIM_TRY(whim_json_get_string(&scope, "type", &type));
    if (strcmp(type, "Sequence") != 0 || depth == DEPTH_MAX) {
        return c->read(tok, &scope, type);
    }
    WHIM_TRY(whim_json_require(&scope, c->list));
    WHIM_TRY(whim_json_get_array(&scope, c->list, &list));
    for (int64_t i = 0; i < whim_json_size(list); i++) {
        WHIM_TRY(read_component(tok, c, whim_json_at(list, i), depth + 1, top));
    }
    return WHIM_ERR_OK;
}

static whim_err read_all(whim_tokenizer *tok, const whim_json *json, const char *text,
                         const whim_json_cut *cut, const char *path, whim_diag *diag)
{
    whim_json_scope top = {json, path, "", diag};
    const whim_json *model = NULL, *added = NULL, *value = NULL;
    WHIM_TRY(whim_json_require(&top, "model"));
    WHIM_TRY(whim_json_get_object(&top, "model", &model));
    WHIM_TRY(whim_json_get_array(&top, "added_tokens", &added));
    WHIM_TRY(whim_tokenizer_json_model(tok, model, added, text, cut, path, diag));
    for (size_t i = 0; i < sizeof components / sizeof components[0]; i++) {
        value = NULL;
        WHIM_TRY(whim_json_get_object(&top, components[i].key, &value));
        if (value != NULL) {
            WHIM_TRY(read_component(tok, &components[i], value, 0, &top));
        }
    }
    WHIM_TRY(whim_vocab_decode(&tok->vocab, &tok->arena, tok->decoder, tok->byte_tokens));
    /* Without a pre-tokeniser the whole text is one piece: where that is safe, cut it at spaces. */
    tok->bpe.cut_at_marks = tok->pre.n_step == 0 && !tok->bpe.ignore_merges &&
                            whim_tokenizer_find(tok, WHIM_SPACE_MARK) >= 0 &&
                            whim_bpe_can_cut_at_marks(&tok->vocab);
    return added != NULL ? whim_tokenizer_json_added(tok, added, path, diag) : WHIM_ERR_OK;
}

whim_err whim_tokenizer_from_json(whim_tokenizer *tok, const char *text, int64_t n,
                                  const char *path, whim_diag *diag)
{
    whim_json_cut cut = {0};
    whim_json *json = NULL;
    whim_err err = whim_json_cut_model(text, n, path, &cut, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_json_parse(&json, whim_str_text(&cut.rest), cut.rest.len, limits, path, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = read_all(tok, json, text, &cut, path, diag);
    }
    whim_json_free(json);
    whim_str_deinit(&cut.rest);
    return err;
}
