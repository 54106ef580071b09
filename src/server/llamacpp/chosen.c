/* SPDX-License-Identifier: Apache-2.0 */
/* response_fields: an answer that is cut down to the fields that the client wants. */
#include "server/llamacpp/llamacpp.h"

#include <string.h>

enum { MAX_FIELDS = 64, MAX_NAME = 256 };

bool whim_llamacpp_read_chosen(const whim_fields *f, whim_task *task)
{
    static const char *const told[] = {"response_fields", NULL};
    const char *const *names = NULL;
    int32_t n = 0;
    task->told = told;
    return whim_task_read_texts(f, "response_fields", MAX_FIELDS, MAX_NAME, false, &task->arena,
                                &names, &n);
}

/* The value at a path of names with slashes between them, or NULL. */
static json_t *find(json_t *value, const char *path)
{
    char name[MAX_NAME + 1];
    while (path != NULL && value != NULL) {
        const char *slash = strchr(path, '/');
        size_t n = slash != NULL ? (size_t)(slash - path) : strlen(path);
        n = n < sizeof name ? n : sizeof name - 1;
        memcpy(name, path, n);
        name[n] = '\0';
        value = json_object_get(value, name);
        path = slash != NULL ? slash + 1 : NULL;
    }
    return value;
}

void whim_llamacpp_put_chosen(const whim_task *task, const whim_str *whole, whim_str *out)
{
    const json_t *fields = json_object_get(task->body, "response_fields");
    if (json_array_size(fields) == 0) {
        whim_str_append_n(out, whim_str_text(whole), whole->len);
        return;
    }
    int64_t values_left = INT64_MAX; /* our own answer may have as many as it has */
    const whim_json_limits limits = {
        .max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH, .values_left = &values_left};
    json_t *answer = NULL, *chosen = json_object();
    bool ok =
        chosen != NULL && !whole->failed &&
        whim_json_read(&answer, whim_str_text(whole), whole->len, limits, NULL) == WHIM_ERR_OK;
    for (size_t i = 0; i < json_array_size(fields) && ok; i++) {
        const char *path = json_string_value(json_array_get(fields, i));
        json_t *value = find(answer, path);
        ok = value == NULL || json_object_set(chosen, path, value) == 0;
    }
    out->failed = out->failed || !ok;
    whim_put_json(out, chosen);
    json_decref(chosen);
    json_decref(answer);
}
