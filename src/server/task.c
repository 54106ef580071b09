/* SPDX-License-Identifier: Apache-2.0 */
/* A task: its life, and the fields that all dialects share. */
#include "server/api.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PRIORITY = 4 };

/* How long a request may wait to have a grammar compiled. */
#define MAX_PUT_OFF_NS (30 * WHIM_NS_PER_S)

whim_task *whim_task_create(const whim_api *api, json_t *body)
{
    whim_task *task = whim_alloc(sizeof *task);
    if (task == NULL) {
        json_decref(body);
        return NULL;
    }
    static const char *const nothing[] = {NULL};
    task->body = body;
    task->told = nothing;
    task->ask = (whimbrel_request_options){.size = sizeof task->ask, .n_choice = 1};
    task->sampling = api->sampling;
    task->sampling.seed = whim_library_seed();
    task->repetition_detection = -1;
    task->format_at = "response_format";
    task->schema_at = "response_format.json_schema.schema";
    return task;
}

static bool is_told(const whim_task *task, const char *key)
{
    bool found = false;
    for (int32_t i = 0; task->told[i] != NULL && !found; i++) {
        found = strcmp(key, task->told[i]) == 0;
    }
    return found;
}

void whim_task_trim(whim_task *task)
{
    void *at = json_object_iter(task->body);
    while (at != NULL) {
        const char *key = json_object_iter_key(at);
        at = json_object_iter_next(task->body, at);
        if (!is_told(task, key) && json_object_del(task->body, key) != 0) {
            return; /* it stays, which only costs memory */
        }
    }
    json_decref(task->kwargs);
    json_decref(task->schema_read);
    task->kwargs = task->schema_read = NULL;
    task->schema = NULL;
    if (task->messages != NULL) { /* that there were some still says something */
        json_array_clear(task->messages);
    }
}

void whim_task_destroy(whim_task *task)
{
    if (task == NULL) {
        return;
    }
    for (int32_t i = 0; i < task->n_prompt; i++) {
        whimbrel_free(task->requests != NULL ? task->requests[i] : NULL);
        if (task->prompts != NULL) {
            whim_ids_deinit(&task->prompts[i]);
        }
    }
    whim_str_deinit(&task->left_out);
    whim_str_deinit(&task->input_items);
    json_decref(task->messages);
    json_decref(task->tools);
    json_decref(task->kwargs);
    json_decref(task->schema_read);
    json_decref(task->body);
    whim_arena_reset(&task->arena);
    whim_free(task);
}

/* What the answer must look like, in the words of another route: an answer in any form at all is
 * not what was asked for. */
static bool refuse_forms_of_others(const whim_fields *f)
{
    static const struct {
        const char *key, *inside; /* NULL: the field itself */
    } forms[] = {{"response_format", NULL},
                 {"format", NULL},
                 {"output_format", NULL},
                 {"output_config", "format"},
                 {"text", "format"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const json_t *value = whim_peek(f->obj, forms[i].key);
        const json_t *form = forms[i].inside == NULL ? value : whim_peek(value, forms[i].inside);
        bool says = json_is_object(form) ? !whim_peek_is(whim_peek(form, "type"), "text")
                                         : whim_peek_is(form, "json");
        if (says && !whim_field_is_looked_at(f->looked_at, f->obj, forms[i].key)) {
            return whim_field_refuse(f, forms[i].key,
                                     "is not a field of this route; use \"json_schema\", whose "
                                     "value is the schema");
        }
    }
    return true;
}

static bool log_and_read(const whim_api *api, const whim_http_request *request,
                         whim_task_reader *read, whim_task *task, whim_fault *fault)
{
    bool is_again = request->put_off_ns != 0;
    whim_looked_at looked_at = {.n_field = 0};
    whim_fields f = {.obj = task->body, .fault = fault, .looked_at = &looked_at};
    if (api->log_content && !is_again) {
        whim_log_long_text(api->log, WHIM_LOG_INFO, "content_request", request->request_id,
                           request->body, request->n_body);
    }
    task->may_take_long = request->is_slow;
    if (!read(api, &f, task) || !refuse_forms_of_others(&f)) {
        return false;
    }
    if (!is_again) {
        whim_unknown_fields_log(api->log, task->body, &looked_at, request->path,
                                request->request_id);
    }
    if (task->left_out.len > 0 && !is_again) {
        whim_log_info(api->log, "tools_left_out", whim_log_text("id", request->request_id),
                      whim_log_text("types", task->left_out.text));
    }
    return true;
}

whim_task *whim_task_open(const whim_api *api, whim_exchange *ex, whim_task_reader *read,
                          whim_fault *fault)
{
    const whim_http_request *request = whim_exchange_request(ex);
    if (request->put_off_ns != 0 && whim_clock_ns() - request->put_off_ns > MAX_PUT_OFF_NS) {
        whim_fault_set(fault, WHIM_FAULT_OVERLOADED, NULL,
                       "too many schemas and patterns wait to be compiled; try again later");
        return NULL;
    }
    json_t *body = whim_body_parse(request->body, request->n_body, fault);
    if (body == NULL) {
        return NULL;
    }
    whim_task *task = whim_task_create(api, body);
    if (task == NULL) {
        whim_fault_no_memory(fault);
    } else if (!log_and_read(api, request, read, task, fault)) {
        whim_task_destroy(task);
        task = NULL;
    }
    return task;
}

/* --- texts ----------------------------------------------------------------------------------- */

bool whim_task_read_texts(const whim_fields *f, const char *key, int64_t most, size_t max_bytes,
                          bool single, whim_arena *arena, const char *const **out, int32_t *n_out)
{
    const json_t *value = whim_field(f, key);
    bool one = single && json_is_string(value);
    if (value == NULL) {
        return true;
    }
    if (!one && !json_is_array(value)) {
        return whim_field_refuse(f, key, "must be %sa list of strings, not %s",
                                 single ? "a string or " : "", whim_json_kind(value));
    }
    int64_t n = one ? 1 : (int64_t)json_array_size(value);
    if (n > most) {
        return whim_field_refuse(f, key, "has %" PRId64 " entries; at most %" PRId64 " are allowed",
                                 n, most);
    }
    const char **texts = whim_arena_alloc_array(arena, n, sizeof *texts);
    if (texts == NULL) {
        return whim_fault_no_memory(f->fault);
    }
    *out = texts;
    *n_out = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        const json_t *item = one ? value : json_array_get(value, (size_t)i);
        if (!json_is_string(item)) {
            return whim_field_refuse(f, key, "must hold strings; entry %" PRId64 " is %s", i,
                                     whim_json_kind(item));
        }
        texts[i] = json_string_value(item);
        size_t len = json_string_length(item);
        if (len == 0 || len > max_bytes || strlen(texts[i]) != len) {
            return whim_field_refuse(f, key,
                                     "must hold texts of 1 to %zu bytes without U+0000; entry "
                                     "%" PRId64 " has %zu bytes",
                                     max_bytes, i, len);
        }
    }
    return true;
}

bool whim_task_read_stops(const whim_fields *f, const char *key, whim_task *task)
{
    if (!whim_task_read_texts(f, key, WHIM_MAX_STOPS, WHIM_MAX_STOP_BYTES, true, &task->arena,
                              &task->ask.stops, &task->ask.n_stop)) {
        return false;
    }
    const char **stops = (const char **)task->ask.stops; /* made in the arena just now */
    for (int32_t i = 0; i < task->ask.n_stop; i++) {
        stops[i] = whim_arena_strndup(&task->arena, stops[i], (int64_t)strlen(stops[i]));
        if (stops[i] == NULL) {
            return whim_fault_no_memory(f->fault);
        }
    }
    return true;
}

bool whim_task_read_words(const whim_fields *f, const char *key, whim_task *task)
{
    if (!whim_task_read_texts(f, key, 100000, 64 * 1024, false, &task->arena, &task->ask.words,
                              &task->ask.n_word)) {
        return false;
    }
    return task->ask.n_word > 0 || whim_field_refuse(f, key, "must not be empty");
}

bool whim_task_one_form(const whim_fields *f, const char *key, whim_task *task)
{
    if (task->form_at != NULL) {
        return whim_field_refuse(f, key,
                                 "cannot be given beside \"%s\": only one field may say what the "
                                 "answer looks like",
                                 task->form_at);
    }
    task->form_at = key;
    return true;
}

static bool read_forms(const whim_fields *f, whim_task *task)
{
    if (whim_field(f, "choice") != NULL &&
        !(whim_task_one_form(f, "choice", task) && whim_task_read_words(f, "choice", task))) {
        return false;
    }
    if (whim_field(f, "regex") != NULL && !whim_task_one_form(f, "regex", task)) {
        return false;
    }
    return whim_field_string(f, "regex", &task->ask.regex) && whim_foreign_read(f, task);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static float clamp(float x, float least, float most)
{
    return x < least ? least : x > most ? most : x;
}

bool whim_task_read_sampling(const whim_api *api, const whim_fields *f, whim_task *task)
{
    whimbrel_sampling *p = &task->sampling;
    int64_t top_k = p->top_k, seed = 0;
    if (!whim_field_real(f, "temperature", 0, FLT_MAX, &p->temperature) ||
        !whim_field_real(f, "top_p", 0, 1, &p->top_p) ||
        !whim_field_int(f, "top_k", -1, INT32_MAX, &top_k) ||
        !whim_field_real(f, "min_p", 0, 1, &p->min_p) ||
        !whim_field_real(f, "xtc_probability", 0, 1, &p->xtc_probability) ||
        !whim_field_real(f, "xtc_threshold", 0, 1, &p->xtc_threshold) ||
        !whim_field_real(f, "repeat_penalty", FLT_MIN, FLT_MAX, &p->repetition_penalty) ||
        !whim_field_real(f, "repetition_penalty", FLT_MIN, FLT_MAX, &p->repetition_penalty) ||
        !whim_field_real(f, "presence_penalty", -2, 2, &p->presence_penalty) ||
        !whim_field_real(f, "frequency_penalty", -2, 2, &p->frequency_penalty) ||
        !whim_field_int(f, "seed", INT64_MIN, INT64_MAX, &seed)) {
        return false;
    }
    p->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    if (api->is_penalty_ours && p->temperature == 0 &&
        whim_field(f, "repetition_penalty") == NULL && whim_field(f, "repeat_penalty") == NULL) {
        p->repetition_penalty = 1;
    }
    /* Beyond these the result is the same to the last bit that matters. */
    p->temperature = clamp(p->temperature, 0, 100);
    p->repetition_penalty = clamp(p->repetition_penalty, 0.01f, 100);
    if (whim_field(f, "seed") != NULL) {
        p->seed = (uint64_t)seed;
    }
    return true;
}

/* Ollama's clients add ":latest" to names without a tag. */
static bool is_served(const whim_api *api, const char *model)
{
    size_t n = strlen(api->name);
    return strncmp(model, api->name, n) == 0 &&
           (model[n] == '\0' || strcmp(model + n, ":latest") == 0);
}

bool whim_task_check_model(const whim_api *api, const whim_fields *f)
{
    const char *model = NULL;
    if (!whim_field_string(f, "model", &model)) {
        return false;
    }
    if (api->strict_model && model != NULL && !is_served(api, model)) {
        return whim_fault_set(f->fault, WHIM_FAULT_NO_MODEL, "model",
                              "the model \"%.200s\" is not here; this server has \"%s\"", model,
                              api->name);
    }
    return true;
}

static bool read_keep_last(const whim_fields *f, whim_task *task)
{
    static const char key[] = "truncate_prompt_tokens", side_key[] = "truncation_side";
    const char *side = "left";
    int64_t keep = 0;
    if (!whim_field_int(f, key, -1, INT32_MAX, &keep) || !whim_field_string(f, side_key, &side)) {
        return false;
    }
    task->from_front = strcmp(side, "right") == 0;
    if (!task->from_front && strcmp(side, "left") != 0) {
        return whim_field_refuse(f, side_key, "must be left or right: where a prompt is cut");
    }
    task->keep_last = keep;
    return keep != 0 || whim_field(f, key) == NULL ||
           whim_field_refuse(f, key, "must be a number of tokens from 1 on, or -1: what fits");
}

bool whim_task_read_common(const whim_api *api, const whim_fields *f, whim_task *task)
{
    bool skip_special = true, detection = false;
    int64_t priority = 0;
    json_t *kwargs = NULL;
    if (!whim_task_check_model(api, f) || !whim_field_bool(f, "stream", &task->stream) ||
        !whim_task_read_sampling(api, f, task) || !whim_task_read_tokens(api, f, task) ||
        !read_keep_last(f, task) || !whim_field_bool(f, "ignore_eos", &task->ask.ignore_end) ||
        !whim_field_bool(f, "repetition_detection", &detection) ||
        !whim_field_int(f, "min_tokens", 0, INT32_MAX, &task->ask.min_tokens) ||
        !whim_field_bool(f, "skip_special_tokens", &skip_special) ||
        !whim_field_bool(f, "return_token_ids", &task->return_token_ids) ||
        !whim_field_bool(f, "return_tokens_as_token_ids", &task->tokens_as_ids) ||
        !whim_field_bool(f, "return_timings", &task->return_timings) || !read_forms(f, task) ||
        !whim_field_int(f, "priority", INT64_MIN, INT64_MAX, &priority) ||
        !whim_field_object(f, "chat_template_kwargs", &kwargs)) {
        return false;
    }
    if (kwargs != NULL && whim_json_largest_real(kwargs) >= WHIM_JSON_ROUNDED) {
        return whim_field_refuse(f, "chat_template_kwargs",
                                 "has a number that is not held exactly (2^63 or more, or NaN)");
    }
    task->ask.show_special = !skip_special;
    if (whim_field(f, "repetition_detection") != NULL) {
        task->repetition_detection = detection;
    }
    /* A step of priority outweighs a long wait, so a client may not take many of them. */
    task->ask.priority = priority < -MAX_PRIORITY  ? -MAX_PRIORITY
                         : priority > MAX_PRIORITY ? MAX_PRIORITY
                                                   : (int32_t)priority;
    task->kwargs = json_incref(kwargs);
    return true;
}

/* --- reasoning and tools ---------------------------------------------------------------------- */

bool whim_task_set_effort(const whim_fields *f, const char *key, const char *effort,
                          whim_task *task)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    if (effort == NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(effort, words[i]) == 0) {
            task->ask.thinking = i >= 2 ? WHIMBREL_THINKING_ON : WHIMBREL_THINKING_OFF;
            task->ask.effort = words[i]; /* the body goes first */
            return true;
        }
    }
    return whim_field_refuse(
        f, key, "is \"%.40s\"; it must be none, minimal, low, medium, high, xhigh or max", effort);
}

bool whim_task_check_tool(const whim_fields *f)
{
    const json_t *description = whim_field(f, "description"), *strict = whim_field(f, "strict");
    if (description != NULL && !json_is_string(description)) {
        return whim_field_refuse(f, "description", "must be a string");
    }
    return strict == NULL || json_is_boolean(strict) ||
           whim_field_refuse(f, "strict", "must be true or false");
}

bool whim_task_set_tools(const whim_fields *f, const char *key, json_t *tools, whim_task *task)
{
    size_t n = json_array_size(tools);
    char where[64];
    if (n > WHIM_MAX_TOOLS) {
        return whim_field_refuse(f, key, "has %zu tools; at most %d are allowed", n,
                                 WHIM_MAX_TOOLS);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(tools, i);
        const json_t *type = json_object_get(tool, "type");
        snprintf(where, sizeof where, "%s[%zu]", key, i);
        whim_fields in = {.obj = json_object_get(tool, "function"), .fault = f->fault};
        snprintf(in.prefix, sizeof in.prefix, "%s.function.", where);
        const json_t *parameters = whim_field(&in, "parameters");
        if (type != NULL && !json_is_null(type) &&
            (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)) {
            return whim_field_refuse(f, where, "must have the type \"function\"");
        }
        const char *name = NULL;
        if (!whim_field_string(&in, "name", &name)) {
            return false;
        }
        if (name == NULL || name[0] == '\0') {
            return whim_field_refuse(f, where, "must have a name (function.name)");
        }
        if (parameters != NULL && !json_is_object(parameters)) {
            return whim_field_refuse(f, where, "must have an object as function.parameters, not %s",
                                     whim_json_kind(parameters));
        }
        if (!whim_task_check_tool(&in)) {
            return false;
        }
    }
    task->tools = n == 0 ? NULL : json_incref(tools);
    return true;
}
