/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: how added tokens are looked for; and tokenizer_config.json. */
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

static const whim_json_limits limits = {.max_bytes = 16 << 20, .max_depth = 64};

/* The content as it looks in normalised text. */
static whim_err normalize_content(whim_tokenizer *tok, const char **content, whim_diag *diag)
{
    whim_matcher *matcher;
    WHIM_TRY(whim_matcher_create(&matcher));
    whim_masked_text text = {0};
    whim_str_append(&text.text, *content);
    whim_err err = text.text.failed ? WHIM_ERR_NO_MEMORY
                                    : whim_normalize(&tok->normalizer, &text, matcher, diag);
    if (err == WHIM_ERR_OK) {
        *content = whim_arena_strndup(&tok->arena, whim_str_text(&text.text), text.text.len);
        err = *content != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
    }
    whim_masked_text_deinit(&text);
    whim_matcher_free(matcher);
    return err;
}

static whim_err read_flags(const whim_json_scope *scope, whim_added_token *token, bool *normalized)
{
    bool special = false;
    WHIM_TRY(whim_json_get_bool(scope, "special", &special));
    *normalized = !special;
    token->plain = whim_added_is_plain(token->content, special);
    WHIM_TRY(whim_json_get_bool(scope, "normalized", normalized));
    WHIM_TRY(whim_json_get_bool(scope, "single_word", &token->single_word));
    WHIM_TRY(whim_json_get_bool(scope, "lstrip", &token->lstrip));
    return whim_json_get_bool(scope, "rstrip", &token->rstrip);
}

whim_err whim_tokenizer_json_added(whim_tokenizer *tok, const whim_json *added, const char *path,
                                   whim_diag *diag)
{
    int64_t n = whim_json_size(added);
    whim_added_token *raw = whim_arena_alloc_array(&tok->arena, n, sizeof *raw);
    whim_added_token *late = whim_arena_alloc_array(&tok->arena, n, sizeof *late);
    if (raw == NULL || late == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    int32_t n_raw = 0, n_late = 0;
    for (int64_t i = 0; i < n; i++) {
        whim_json_scope scope = {whim_json_at(added, i), path, "added_tokens.", diag};
        int64_t id = 0;
        bool normalized;
        whim_added_token token = {0};
        WHIM_TRY(whim_json_get_int(&scope, "id", 0, tok->vocab.count - 1, &id));
        token.id = (int32_t)id;
        token.content = tok->vocab.tokens[id].text;
        WHIM_TRY(read_flags(&scope, &token, &normalized));
        if (normalized) {
            WHIM_TRY(normalize_content(tok, &token.content, diag));
            late[n_late++] = token;
        } else {
            raw[n_raw++] = token;
        }
    }
    WHIM_TRY(whim_added_build(&tok->raw, &tok->arena, raw, n_raw));
    return whim_added_build(&tok->normalized, &tok->arena, late, n_late);
}

/* A token of tokenizer_config.json: "text" or {"content": "text"}. */
static whim_err read_token_text(whim_tokenizer *tok, const whim_json_scope *scope, const char *key,
                                const char **out)
{
    const whim_json *value = whim_json_get(scope, key);
    const char *text = NULL;
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (whim_json_is_object(value)) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.", key);
        whim_json_scope inner = {value, scope->path, prefix, scope->diag};
        WHIM_TRY(whim_json_get_string(&inner, "content", &text));
    } else {
        WHIM_TRY(whim_json_get_string(scope, key, &text));
    }
    if (text != NULL) {
        *out = whim_arena_strndup(&tok->arena, text, (int64_t)strlen(text));
    }
    return *out != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

/* "chat_template": one text, or a list of {"name", "template"}. */
static whim_err read_templates(whim_tokenizer *tok, const whim_json_scope *scope)
{
    const whim_json *value = whim_json_get(scope, "chat_template");
    const char *text = NULL;
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (whim_json_as_string(value, &text)) {
        return whim_tokenizer_keep_template(tok, "default", text, (int64_t)strlen(text),
                                            scope->path, scope->diag);
    }
    if (!whim_json_is_array(value)) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"chat_template\" is %s, expected a string or an array", scope->path,
                         whim_json_kind(value));
    }
    for (int64_t i = 0; i < whim_json_size(value); i++) {
        whim_json_scope inner = {whim_json_at(value, i), scope->path, "chat_template.",
                                 scope->diag};
        const char *name = NULL;
        if (!whim_json_is_object(inner.obj)) {
            return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                             "%s: \"chat_template\": entry %lld is %s, expected an object",
                             scope->path, (long long)i, whim_json_kind(inner.obj));
        }
        WHIM_TRY(whim_json_require(&inner, "name"));
        WHIM_TRY(whim_json_require(&inner, "template"));
        WHIM_TRY(whim_json_get_string(&inner, "name", &name));
        WHIM_TRY(whim_json_get_string(&inner, "template", &text));
        WHIM_TRY(whim_tokenizer_keep_template(tok, name, text, (int64_t)strlen(text), scope->path,
                                              scope->diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_tokenizer_config_json(whim_tokenizer *tok, const char *text, int64_t n,
                                    const char *path, whim_diag *diag)
{
    whim_json *json;
    WHIM_TRY(whim_json_parse(&json, text, n, limits, path, diag));
    whim_json_scope scope = {json, path, "", diag};
    whim_err err = read_token_text(tok, &scope, "bos_token", &tok->bos);
    if (err == WHIM_ERR_OK) {
        err = read_token_text(tok, &scope, "eos_token", &tok->eos);
    }
    if (err == WHIM_ERR_OK) {
        err = read_templates(tok, &scope);
    }
    whim_json_free(json);
    return err;
}
