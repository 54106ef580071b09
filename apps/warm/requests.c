/* SPDX-License-Identifier: Apache-2.0 */
/* Only fields that say how much to answer, and in which form, are changed in a body. So the server
 * makes the same prompt of it as of the client's own. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "warm/warm.h"

#include <jansson.h>
#include <string.h>

#define MAX_FILE (INT64_C(1) << 30)
enum { MAX_DEPTH = WHIM_JSON_DEPTH, PLACE_MAX = 64 };

/* What a prompt does not depend on, and what would make more than one token, or another form of
 * reply. */
static const char *const left_out[] = {
    "max_completion_tokens", "min_tokens",   "n",    "best_of",  "stop",  "logprobs",
    "top_logprobs",          "stream",       "echo", "model",    "store", "prompt_logprobs",
    "return_token_ids",      "service_tier", "user", "metadata",
};

static whim_err wrong(const char *path, const char *place, const char *what, whim_diag *diag)
{
    return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %s%s%s", path, place,
                     place[0] != '\0' ? " is " : "it is ", what);
}

/* Take over `body`. */
static whim_err add(warm_list *list, json_t *body, whim_diag *diag)
{
    whim_str text = {0};
    bool is_chat = json_object_get(body, "messages") != NULL;
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
        json_object_del(body, left_out[i]);
    }
    bool ok =
        json_object_set_new(body, "max_tokens", json_integer(1)) == 0 &&
        json_object_set_new(body, "stream", json_true()) == 0 &&
        json_object_set_new(body, "return_progress", json_true()) == 0 &&
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1)) == 0;
    whim_json_write(&text, body);
    json_decref(body);
    warm_request made = {.is_chat = is_chat, .n_body = text.len};
    made.body = whim_str_take(&text);
    if (!ok || made.body == NULL ||
        !whim_grow(&list->v, list->n + 1, &list->cap, sizeof *list->v)) {
        whim_free(made.body);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the prompts");
    }
    list->v[list->n++] = made;
    return WHIM_ERR_OK;
}

static bool is_message(const json_t *value)
{
    return json_is_object(value) && json_object_get(value, "role") != NULL;
}

/* One prompt: a text, messages, a body, or a line of a batch, whose body that is. */
static whim_err item_take(warm_list *list, json_t *value, const char *path, const char *place,
                          whim_diag *diag)
{
    if (json_is_object(value) && json_is_object(json_object_get(value, "body"))) {
        value = json_object_get(value, "body");
    }
    if (json_is_string(value)) {
        return add(list, json_pack("{s:O}", "prompt", value), diag);
    }
    if (json_is_array(value) && is_message(json_array_get(value, 0))) {
        return add(list, json_pack("{s:O}", "messages", value), diag);
    }
    if (!json_is_object(value)) {
        return wrong(path, place,
                     "no prompt: expected a text, the body of a request, or its messages", diag);
    }
    if (json_object_get(value, "messages") != NULL && json_object_get(value, "system") != NULL) {
        return wrong(path, place,
                     "a body of /v1/messages: write its system text as the first of the messages",
                     diag);
    }
    if (json_object_get(value, "messages") == NULL && json_object_get(value, "prompt") == NULL) {
        return wrong(path, place,
                     "an object without \"messages\" or \"prompt\": expected the body of a request "
                     "to /v1/chat/completions or /v1/completions",
                     diag);
    }
    return add(list, json_incref(value), diag);
}

static whim_err document_take(warm_list *list, json_t *top, const char *path, const char *line,
                              whim_diag *diag)
{
    json_t *many = json_is_object(top) ? json_object_get(top, "prompts") : top;
    const char *name = json_is_object(top) ? "prompts" : "";
    if (line[0] != '\0' || !json_is_array(many) || is_message(json_array_get(many, 0))) {
        if (json_is_object(top) && many != NULL && line[0] == '\0') {
            return json_is_array(many) ? item_take(list, many, path, "\"prompts\"", diag)
                                       : wrong(path, "\"prompts\"", "no list", diag);
        }
        return item_take(list, top, path, line, diag);
    }
    for (size_t i = 0; i < json_array_size(many); i++) {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "%s[%zu]", name, i);
        WHIM_TRY(item_take(list, json_array_get(many, i), path, place, diag));
    }
    return WHIM_ERR_OK;
}

static whim_err text_take(warm_list *list, const char *text, int64_t n, const char *path,
                          const char *line, whim_diag *diag)
{
    json_t *top;
    whim_diag why = {""};
    const whim_json_limits limits = {.max_bytes = MAX_FILE, .max_depth = MAX_DEPTH};
    whim_err err = whim_json_read(&top, text, n, limits, &why);
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, err, "%s%s%s: %s", path, line[0] != '\0' ? ", " : "", line,
                         why.text);
    }
    err = document_take(list, top, path, line, diag);
    whim_json_free(top);
    return err;
}

whim_err warm_list_parse(warm_list *list, const char *text, int64_t n, bool is_lines,
                         const char *path, whim_diag *diag)
{
    int64_t at = 0;
    for (int64_t number = 1; is_lines && at < n; number++) {
        char line[PLACE_MAX];
        const char *end = memchr(text + at, '\n', (size_t)(n - at));
        int64_t bytes = end != NULL ? end - (text + at) : n - at;
        snprintf(line, sizeof line, "line %lld", (long long)number);
        if ((int64_t)strspn(text + at, " \t\r\n") < bytes) { /* the text ends with a NUL */
            WHIM_TRY(text_take(list, text + at, bytes, path, line, diag));
        }
        at += bytes + 1;
    }
    if (!is_lines) {
        WHIM_TRY(text_take(list, text, n, path, "", diag));
    }
    return list->n > 0 ? WHIM_ERR_OK
                       : whim_fail(diag, WHIM_ERR_CORRUPT, "%s: there is no prompt in it", path);
}

whim_err warm_list_read(warm_list *list, const char *path, whim_diag *diag)
{
    char *text;
    int64_t n;
    WHIM_TRY(whim_file_read_all(path, MAX_FILE, &text, &n, diag));
    whim_err err = warm_list_parse(list, text, n, whim_path_has_suffix(path, ".jsonl"), path, diag);
    whim_free(text);
    return err;
}

void warm_list_deinit(warm_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        whim_free(list->v[i].body);
    }
    whim_free(list->v);
    *list = (warm_list){0};
}
