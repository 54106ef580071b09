/* SPDX-License-Identifier: Apache-2.0 */
/* The list of messages, and its form as JSON. */
#include "chat/conversation.h"

#include "base/alloc.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 256 << 20, MAX_DEPTH = 100 };

static char *copy(const char *text)
{
    int64_t n = (int64_t)strlen(text);
    char *out = whim_alloc(n + 1);
    if (out != NULL) {
        memcpy(out, text, (size_t)n + 1);
    }
    return out;
}

static void message_deinit(whim_message *message)
{
    whim_free(message->role);
    whim_free(message->content);
    whim_free(message->reasoning);
    *message = (whim_message){0};
}

whim_err whim_conversation_push(whim_conversation *conv, const char *role, const char *content,
                                const char *reasoning)
{
    if (!whim_grow(&conv->messages, conv->n + 1, &conv->cap, sizeof *conv->messages)) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_message message = {.role = copy(role),
                            .content = copy(content),
                            .reasoning = reasoning == NULL ? NULL : copy(reasoning)};
    if (message.role == NULL || message.content == NULL ||
        (reasoning != NULL && message.reasoning == NULL)) {
        message_deinit(&message);
        return WHIM_ERR_NO_MEMORY;
    }
    conv->messages[conv->n++] = message;
    return WHIM_ERR_OK;
}

void whim_conversation_pop(whim_conversation *conv)
{
    if (conv->n > 0) {
        message_deinit(&conv->messages[--conv->n]);
    }
}

void whim_conversation_clear(whim_conversation *conv)
{
    while (conv->n > 0) {
        whim_conversation_pop(conv);
    }
}

void whim_conversation_deinit(whim_conversation *conv)
{
    whim_conversation_clear(conv);
    whim_free(conv->messages);
    *conv = (whim_conversation){0};
}

json_t *whim_conversation_messages(const whim_conversation *conv)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < conv->n && list != NULL; i++) {
        const whim_message *message = &conv->messages[i];
        /* "s*" leaves the key out when there is no text. */
        json_t *item = json_pack("{s:s, s:s, s:s*}", "role", message->role, "content",
                                 message->content, "reasoning_content", message->reasoning);
        if (item == NULL || json_array_append_new(list, item) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

whim_err whim_conversation_dump(const whim_conversation *conv, whim_str *out, whim_diag *diag)
{
    json_t *list = whim_conversation_messages(conv);
    json_t *file = list == NULL ? NULL : json_pack("{s:o}", "messages", list);
    char *text = file == NULL ? NULL : json_dumps(file, JSON_INDENT(2));
    whim_err err = WHIM_ERR_OK;
    if (text == NULL) {
        err =
            whim_fail(diag, WHIM_ERR_NO_MEMORY,
                      "the conversation cannot be written: out of memory, or a text is not UTF-8");
    } else {
        whim_str_append(out, text);
        whim_str_append(out, "\n");
        err = out->failed ? whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory") : WHIM_ERR_OK;
    }
    free(text); /* made by the JSON library */
    json_decref(file);
    return err;
}

static whim_err parse_message(whim_conversation *conv, const whim_json *item, int64_t i,
                              const char *path, whim_diag *diag)
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

whim_err whim_conversation_parse(whim_conversation *conv, const char *text, int64_t n,
                                 const char *path, whim_diag *diag)
{
    static const whim_json_limits limits = {.max_bytes = MAX_FILE, .max_depth = MAX_DEPTH};
    whim_json *json = NULL;
    const whim_json *list = NULL;
    whim_conversation read = {0};
    WHIM_TRY(whim_json_parse(&json, text, n, limits, path, diag));
    const whim_json_scope scope = {.obj = json, .path = path, .prefix = "", .diag = diag};
    whim_err err = whim_json_require(&scope, "messages");
    if (err == WHIM_ERR_OK) {
        err = whim_json_get_array(&scope, "messages", &list);
    }
    for (int64_t i = 0; err == WHIM_ERR_OK && i < whim_json_size(list); i++) {
        err = parse_message(&read, whim_json_at(list, i), i, path, diag);
    }
    whim_json_free(json);
    if (err != WHIM_ERR_OK) {
        whim_conversation_deinit(&read);
        return err;
    }
    whim_conversation_deinit(conv);
    *conv = read;
    return WHIM_ERR_OK;
}
