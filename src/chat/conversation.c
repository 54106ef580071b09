/* SPDX-License-Identifier: Apache-2.0 */
/* The list of messages, and its form as JSON. */
#include "chat/conversation.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_FILE = 256 << 20, MAX_DEPTH = 100 };

json_t *whim_message_make(const char *role, const char *content, const char *reasoning)
{
    /* "s*" leaves the key out when there is no text. */
    return json_pack("{s:s, s:s, s:s*}", "role", role, "content", content, "reasoning_content",
                     reasoning);
}

const char *whim_message_text(const json_t *conv, int64_t i, const char *key)
{
    return json_string_value(json_object_get(json_array_get(conv, (size_t)i), key));
}

whim_err whim_conversation_push(json_t *conv, const char *role, const char *content,
                                const char *reasoning)
{
    json_t *message = whim_message_make(role, content, reasoning);
    return json_array_append_new(conv, message) == 0 ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

void whim_conversation_cut(json_t *conv, int64_t n)
{
    for (int64_t last = (int64_t)json_array_size(conv) - 1; last >= n && last >= 0; last--) {
        json_array_remove(conv, (size_t)last);
    }
}

whim_err whim_conversation_dump(json_t *conv, whim_str *out, whim_diag *diag)
{
    json_t *file = json_pack("{s:O}", "messages", conv);
    char *text = file == NULL ? NULL : json_dumps(file, JSON_INDENT(2));
    whim_str_append(out, text == NULL ? "" : text);
    whim_str_append(out, "\n");
    whim_err err = text == NULL || out->failed
                       ? whim_fail(diag, WHIM_ERR_NO_MEMORY,
                                   "the conversation cannot be written: out of memory")
                       : WHIM_ERR_OK;
    free(text); /* made by the JSON library */
    json_decref(file);
    return err;
}

static whim_err parse_message(json_t *conv, const whim_json *item, int64_t i, const char *path,
                              whim_diag *diag)
{
    char prefix[48];
    const char *role = NULL, *content = "", *reasoning = NULL;
    snprintf(prefix, sizeof prefix, "messages[%lld].", (long long)i);
    if (!whim_json_is_object(item)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: messages[%lld] is %s, expected an object",
                         path, (long long)i, whim_json_kind(item));
    }
    const whim_json_scope scope = {.obj = item, .path = path, .prefix = prefix, .diag = diag};
    WHIM_TRY(whim_json_require(&scope, "role"));
    WHIM_TRY(whim_json_get_string(&scope, "role", &role));
    WHIM_TRY(whim_json_get_string(&scope, "content", &content));
    WHIM_TRY(whim_json_get_string(&scope, "reasoning_content", &reasoning));
    whim_err err = whim_conversation_push(conv, role, content, reasoning);
    return err == WHIM_ERR_OK ? err : whim_fail(diag, err, "%s: out of memory", path);
}

whim_err whim_conversation_parse(json_t **conv, const char *text, int64_t n, const char *path,
                                 whim_diag *diag)
{
    static const whim_json_limits limits = {.max_bytes = MAX_FILE, .max_depth = MAX_DEPTH};
    whim_json *json = NULL;
    const whim_json *list = NULL;
    WHIM_TRY(whim_json_parse(&json, text, n, limits, path, diag));
    const whim_json_scope scope = {.obj = json, .path = path, .prefix = "", .diag = diag};
    json_t *read = json_array();
    whim_err err = whim_json_require(&scope, "messages");
    if (err == WHIM_ERR_OK) {
        err = whim_json_get_array(&scope, "messages", &list);
    }
    for (int64_t i = 0; err == WHIM_ERR_OK && i < whim_json_size(list); i++) {
        err = parse_message(read, whim_json_at(list, i), i, path, diag);
    }
    whim_json_free(json);
    json_decref(err == WHIM_ERR_OK ? *conv : read);
    *conv = err == WHIM_ERR_OK ? read : *conv;
    return err;
}
