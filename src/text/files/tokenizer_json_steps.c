/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: normaliser and pre-tokeniser. */
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

/* {"Regex": "..."} or {"String": "..."}; a bare string is a String. */
static whim_err read_pattern(const whim_json_scope *scope, whim_regex **regex, const char **literal)
{
    const whim_json *value = whim_json_get(scope, "pattern");
    const char *text = NULL;
    if (whim_json_as_string(value, literal)) {
        return WHIM_ERR_OK;
    }
    if (whim_json_is_object(value)) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%spattern.", scope->prefix);
        whim_json_scope inner = {value, scope->path, prefix, scope->diag};
        WHIM_TRY(whim_json_get_string(&inner, "String", literal));
        WHIM_TRY(whim_json_get_string(&inner, "Regex", &text));
    }
    if (text != NULL) {
        whim_err err = whim_regex_compile(text, regex, scope->diag);
        if (err != WHIM_ERR_OK && err != WHIM_ERR_NO_MEMORY) {
            whim_diag_prefix(scope->diag, "%s: \"%spattern.Regex\": ", scope->path, scope->prefix);
        }
        return err;
    }
    if (*literal == NULL) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%spattern\" has neither \"Regex\" nor \"String\"", scope->path,
                         scope->prefix);
    }
    return WHIM_ERR_OK;
}

/* A copy that lives as long as the tokenizer. */
static whim_err keep(whim_tokenizer *tok, const char *text, const char **out)
{
    *out = whim_arena_strndup(&tok->arena, text, (int64_t)strlen(text));
    return *out != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

static whim_err read_replace(whim_tokenizer *tok, const whim_json_scope *scope,
                             whim_normal_step *step)
{
    const char *literal = NULL, *content = NULL;
    step->kind = WHIM_NORMAL_REPLACE;
    WHIM_TRY(whim_json_require(scope, "content"));
    WHIM_TRY(whim_json_get_string(scope, "content", &content));
    WHIM_TRY(keep(tok, content, &step->content));
    WHIM_TRY(read_pattern(scope, &step->regex, &literal));
    return literal != NULL ? keep(tok, literal, &step->pattern) : WHIM_ERR_OK;
}

whim_err whim_tokenizer_json_normalizer(whim_tokenizer *tok, const whim_json_scope *scope,
                                        const char *type)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    if (tok->normalizer.n_step == WHIM_NORMAL_STEPS) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"normalizer\" has more than %d steps", scope->path,
                         WHIM_NORMAL_STEPS);
    }
    /* The step counts at once, so that what it compiled is freed with the rest. */
    whim_normal_step *step = &tok->normalizer.steps[tok->normalizer.n_step++];
    for (int i = 0; i < 4; i++) {
        if (strcmp(type, forms[i]) == 0) {
            step->kind = (whim_normal_kind)i;
            return WHIM_ERR_OK;
        }
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *content = "";
        step->kind = WHIM_NORMAL_PREPEND;
        WHIM_TRY(whim_json_get_string(scope, "prepend", &content));
        return keep(tok, content, &step->content);
    }
    if (strcmp(type, "Replace") == 0) {
        return read_replace(tok, scope, step);
    }
    if (strcmp(type, "Lowercase") == 0) {
        step->kind = WHIM_NORMAL_LOWERCASE;
        return WHIM_ERR_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = WHIM_NORMAL_STRIP;
        step->left = step->right = true;
        WHIM_TRY(whim_json_get_bool(scope, "strip_left", &step->left));
        return whim_json_get_bool(scope, "strip_right", &step->right);
    }
    return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"normalizer.type\" is \"%s\", expected NFC, NFD, NFKC, NFKD, Prepend,"
                     " Replace, Lowercase, Strip or Sequence",
                     scope->path, type);
}

static whim_err read_behavior(const whim_json_scope *scope, whim_split_behavior *out)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = "Isolated";
    WHIM_TRY(whim_json_get_string(scope, "behavior", &name));
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (whim_split_behavior)i;
            return WHIM_ERR_OK;
        }
    }
    return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%sbehavior\" is \"%s\", expected Isolated, Removed, MergedWithPrevious,"
                     " MergedWithNext or Contiguous",
                     scope->path, scope->prefix, name);
}

static whim_err read_split(whim_tokenizer *tok, const whim_json_scope *scope)
{
    whim_pre_step step = {.kind = WHIM_PRE_SPLIT};
    const char *literal = NULL;
    WHIM_TRY(read_behavior(scope, &step.behavior));
    WHIM_TRY(whim_json_get_bool(scope, "invert", &step.invert));
    WHIM_TRY(read_pattern(scope, &step.regex, &literal));
    if (literal != NULL) {
        WHIM_TRY(keep(tok, literal, &step.content));
    }
    whim_err err = whim_pre_add(&tok->pre, step, scope->diag);
    if (err != WHIM_ERR_OK) {
        whim_regex_free(step.regex);
    }
    return err;
}

static whim_err read_byte_level(whim_tokenizer *tok, const whim_json_scope *scope)
{
    bool prefix = true, use_regex = true;
    WHIM_TRY(whim_json_get_bool(scope, "add_prefix_space", &prefix));
    WHIM_TRY(whim_json_get_bool(scope, "use_regex", &use_regex));
    if (prefix) {
        whim_pre_step step = {.kind = WHIM_PRE_PREFIX, .content = " "};
        WHIM_TRY(whim_pre_add(&tok->pre, step, scope->diag));
    }
    if (use_regex) {
        WHIM_TRY(
            whim_pre_add_regex(&tok->pre, whim_pre_gpt2, WHIM_SPLIT_ISOLATED, false, scope->diag));
    }
    whim_pre_step step = {.kind = WHIM_PRE_BYTE_LEVEL};
    return whim_pre_add(&tok->pre, step, scope->diag);
}

static whim_err read_metaspace(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const char *mark = WHIM_SPACE_MARK, *scheme = NULL;
    bool prefix = true, split = true;
    WHIM_TRY(whim_json_get_string(scope, "replacement", &mark));
    WHIM_TRY(whim_json_get_string(scope, "prepend_scheme", &scheme));
    WHIM_TRY(whim_json_get_bool(scope, "add_prefix_space", &prefix)); /* older files */
    WHIM_TRY(whim_json_get_bool(scope, "split", &split));
    if (scheme == NULL) {
        scheme = prefix ? "always" : "never";
    }
    bool first = strcmp(scheme, "first") == 0;
    if (!first && strcmp(scheme, "always") != 0 && strcmp(scheme, "never") != 0) {
        return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%sprepend_scheme\" is \"%s\", expected always, first or never",
                         scope->path, scope->prefix, scheme);
    }
    const char *content;
    WHIM_TRY(keep(tok, mark, &content));
    whim_pre_step step = {.kind = WHIM_PRE_REPLACE, .content = content};
    WHIM_TRY(whim_pre_add(&tok->pre, step, scope->diag));
    if (strcmp(scheme, "never") != 0) {
        step = (whim_pre_step){.kind = WHIM_PRE_PREFIX, .content = content, .first_only = first};
        WHIM_TRY(whim_pre_add(&tok->pre, step, scope->diag));
    }
    if (split) {
        step = (whim_pre_step){
            .kind = WHIM_PRE_SPLIT, .content = content, .behavior = WHIM_SPLIT_WITH_NEXT};
        WHIM_TRY(whim_pre_add(&tok->pre, step, scope->diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_tokenizer_json_pre(whim_tokenizer *tok, const whim_json_scope *scope,
                                 const char *type)
{
    whim_pretokenizer *pre = &tok->pre;
    if (strcmp(type, "Split") == 0) {
        return read_split(tok, scope);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return read_byte_level(tok, scope);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return read_metaspace(tok, scope);
    }
    if (strcmp(type, "Digits") == 0) {
        bool each = false;
        WHIM_TRY(whim_json_get_bool(scope, "individual_digits", &each));
        return whim_pre_add_regex(pre, "\\p{N}", each ? WHIM_SPLIT_ISOLATED : WHIM_SPLIT_CONTIGUOUS,
                                  false, scope->diag);
    }
    if (strcmp(type, "Punctuation") == 0) {
        whim_split_behavior behavior;
        WHIM_TRY(read_behavior(scope, &behavior));
        return whim_pre_add_regex(pre, "[!-/:-@\\[-`{-~\\p{P}]", behavior, false, scope->diag);
    }
    if (strcmp(type, "Whitespace") == 0) {
        return whim_pre_add_regex(pre, "\\w+|[^\\w\\s]+", WHIM_SPLIT_REMOVED, true, scope->diag);
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        return whim_pre_add_regex(pre, "\\s", WHIM_SPLIT_REMOVED, false, scope->diag);
    }
    return whim_fail(scope->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"pre_tokenizer.type\" is \"%s\", expected Split, ByteLevel, Metaspace,"
                     " Digits, Punctuation, Whitespace, WhitespaceSplit or Sequence",
                     scope->path, type);
}
