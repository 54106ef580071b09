/* SPDX-License-Identifier: Apache-2.0 */
/* A server that answers: its models, the requests that it gets, the events that its stream
 * becomes. */
#include "base/clock.h"
#include "base/json.h"
#include "chat/chat.h"
#include "client/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A prompt may take its time, and Ctrl-C ends the wait. */
static const double silence_s = 24 * 3600, find_s = 10;

/* --- opening ---------------------------------------------------------------------------------- */

static whim_err refuse_models(const joined *j, const server_reply *models, whim_diag *diag)
{
    if (models->status == 401 || models->status == 403) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s wants a key%s: set WHIMBREL_API_KEY, or give --api-key-file FILE",
                         j->url, j->keys.n > 0 ? ", and not this one" : "");
    }
    if (models->status > 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "GET %s%s/models: HTTP status %d%s%s", j->url,
                         j->address.base, models->status, models->message[0] != '\0' ? ": " : "",
                         models->message);
    }
    return whim_fail(diag, WHIM_ERR_INVALID,
                     "%s does not answer GET %s/models in HTTP, or not within %.0f s; is the "
                     "address right?",
                     j->url, j->address.base, find_s);
}

whim_err joined_choose(joined *j, const char *name, whim_str *names, whim_diag *diag)
{
    server_reply models = {0};
    server_model model;
    whim_err err = server_address_find(&j->address, "/models", find_s, &models, diag);
    if (err == WHIM_ERR_OK && (models.fault != SERVER_FAULT_NONE || models.status != 200)) {
        err = refuse_models(j, &models, diag);
    } else if (err == WHIM_ERR_OK && server_model_find(&models, name, &model, names)) {
        j->model = model;
    } else if (err == WHIM_ERR_OK && name == NULL) {
        j->model = (server_model){.name = "default"}; /* those that list nothing take any name */
    } else if (err == WHIM_ERR_OK) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "%s has no model \"%.200s\"; it has %s", j->url,
                        name, names->len > 0 ? whim_str_text(names) : "none");
    }
    server_reply_deinit(&models);
    return err;
}

/* Requests say of sampling what the command line says; the server chooses the rest. */
static void params_from_options(joined *j, const whim_options *o)
{
    const struct {
        const void *field;
        const char *name;
        json_t *value;
    } given[] = {
        {&o->temp, "temperature", json_real(o->temp)},
        {&o->top_k, "top_k", json_integer(o->top_k)},
        {&o->top_p, "top_p", json_real(o->top_p)},
        {&o->min_p, "min_p", json_real(o->min_p)},
        {&o->repeat_penalty, "repetition_penalty", json_real(o->repeat_penalty)},
        {&o->presence_penalty, "presence_penalty", json_real(o->presence_penalty)},
        {&o->frequency_penalty, "frequency_penalty", json_real(o->frequency_penalty)},
        {&o->seed, "seed", json_integer(o->seed)},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (whim_options_gave(o, given[i].field)) {
            json_object_set(j->params, given[i].name, given[i].value);
        }
        json_decref(given[i].value);
    }
}

whim_err joined_open(joined *j, const whim_options *options, const char *option, const char *url,
                     const char *name, whim_diag *diag)
{
    whim_str names = {0};
    j->params = json_object();
    params_from_options(j, options);
    if (!keys_read(&j->keys, options)) {
        return whim_fail(diag, WHIM_ERR_INVALID, "the key for %.200s cannot be read", url);
    }
    const server_place place = {.option = option,
                                .url = url,
                                .key = j->keys.n > 0 ? j->keys.v[0].text : NULL,
                                .ca_file = options->ca_file};
    WHIM_TRY(server_address_read(&j->address, &place, diag));
    snprintf(j->url, sizeof j->url, "%s://%.400s", server_address_scheme(&j->address),
             j->address.authority);
    whim_err err = joined_choose(j, name, &names, diag);
    whim_str_deinit(&names);
    return err;
}

void joined_close(joined *j)
{
    keys_free(&j->keys);
    json_decref(j->params);
    server_address_deinit(&j->address);
    *j = (joined){.params = NULL};
}

/* --- sampling --------------------------------------------------------------------------------- */

bool joined_set_param(joined *j, const char *name, const char *value, whim_diag *diag)
{
    whimbrel_sampling any = {.size = sizeof any, .top_p = 1, .repetition_penalty = 1};
    if (!set_param(&any, INT32_MAX, name, value, diag)) {
        return false;
    }
    bool whole = strcmp(name, "top_k") == 0 || strcmp(name, "seed") == 0;
    double number = strtod(value, NULL);
    json_object_set_new(j->params, name,
                        whole ? json_integer((json_int_t)number) : json_real(number));
    return true;
}

void joined_append_params(const joined *j, whim_str *out)
{
    const char *name;
    json_t *value;
    json_object_foreach(j->params, name, value)
    {
        whim_str_printf(out, "%s %g, ", name, json_number_value(value));
    }
    whim_str_append(out, json_object_size(j->params) > 0 ? "the rest as the server has it"
                                                         : "as the server has it");
}

/* --- a request -------------------------------------------------------------------------------- */

static void set_stops(json_t *body, const whim_options *o)
{
    json_t *stops = o->stop.n > 0 ? json_array() : NULL;
    for (int32_t i = 0; i < o->stop.n; i++) {
        json_array_append_new(stops, json_string(o->stop.v[i]));
    }
    if (stops != NULL) {
        json_object_set_new(body, "stop", stops);
    }
}

static void set_bias(json_t *body, const sampling *s)
{
    json_t *bias = s->v.n_bias > 0 ? json_object() : NULL;
    for (int32_t i = 0; i < s->v.n_bias; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", s->v.bias[i].id);
        json_object_set_new(bias, id, json_real((double)s->v.bias[i].bias));
    }
    if (bias != NULL) {
        json_object_set_new(body, "logit_bias", bias);
    }
}

/* A JSON text as the value of a field; one that was looked at when the options were read. */
static void set_text(json_t *body, const char *name, const char *text)
{
    json_t *json = NULL;
    const whim_json_limits limits = {.max_bytes = 1 << 20, .max_depth = WHIM_JSON_DEPTH};
    if (text != NULL &&
        whim_json_read(&json, text, (int64_t)strlen(text), limits, NULL) == WHIM_ERR_OK) {
        json_object_set_new(body, name, json);
    }
}

static void set_form(json_t *body, const chat *c)
{
    if (c->form.regex != NULL) {
        json_object_set_new(body, "regex", json_string(c->form.regex));
    }
    if (c->form.schema != NULL) {
        json_t *schema = json_pack("{s:s, s:b}", "name", "answer", "strict", 1);
        set_text(schema, "schema", c->form.schema);
        json_object_set_new(body, "response_format",
                            json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", schema));
    }
    set_text(body, "chat_template_kwargs", c->options->template_kwargs);
}

static void append_request(const chat *c, whim_str *out)
{
    const whim_options *o = c->options;
    whim_str text = {0};
    json_t *body = json_pack("{s:s, s:O, s:b, s:{s:b}}", "model", c->server.model.name, "messages",
                             c->conv, "stream", 1, "stream_options", "include_usage", 1);
    out->failed = out->failed || body == NULL;
    json_object_update(body, c->server.params);
    if (o->max_tokens > 0) {
        json_object_set_new(body, "max_tokens", json_integer(o->max_tokens));
    }
    if (whim_options_gave(o, &o->repetition_detection)) {
        json_object_set_new(body, "repetition_detection", json_boolean(o->repetition_detection));
    }
    set_stops(body, o);
    set_bias(body, &c->sampling);
    set_form(body, c);
    whim_json_write(&text, body);
    server_head_append(&c->server.address, "POST", "/chat/completions", text.len, out);
    whim_str_append_n(out, whim_str_text(&text), text.len);
    out->failed = out->failed || text.failed;
    whim_str_deinit(&text);
    json_decref(body);
}

/* --- its answer ------------------------------------------------------------------------------- */

typedef struct stream {
    const chat *c;
    ask_event_fn *fn;
    void *ctx;
    asked *out;
    int64_t first_ns; /* when the first piece came; 0: none yet */
} stream;

static void hand_on(stream *s, whimbrel_event_kind kind, const whim_json_scope *scope,
                    const char *key)
{
    const char *text = NULL;
    if (whim_json_get_string(scope, key, &text) == WHIM_ERR_OK && text != NULL && text[0] != '\0') {
        s->first_ns = s->first_ns > 0 ? s->first_ns : whim_clock_ns();
        s->fn(s->ctx,
              &(whimbrel_event){.kind = kind, .text = text, .n_text = (int64_t)strlen(text)});
    }
}

/* Why it ended. "length" is the context's end where nothing else set one. */
static whimbrel_end end_of(const stream *s, const whim_json_scope *scope)
{
    const char *finish = "", *more = "";
    if (whim_json_get_string(scope, "finish_reason", &finish) != WHIM_ERR_OK ||
        whim_json_get_string(scope, "stop_reason", &more) != WHIM_ERR_OK) {
        return s->out->end;
    }
    return strcmp(finish, "length") != 0     ? WHIMBREL_END_MODEL
           : strcmp(more, "repetition") == 0 ? WHIMBREL_END_REPETITION
           : s->c->options->max_tokens > 0   ? WHIMBREL_END_LENGTH
                                             : WHIMBREL_END_CONTEXT;
}

static void on_chunk(void *ctx, const whim_json *chunk)
{
    stream *s = ctx;
    const whim_json *choices = NULL, *delta = NULL;
    whim_json_scope scope = {chunk, "the answer", "", NULL};
    if (whim_json_get_array(&scope, "choices", &choices) != WHIM_ERR_OK || choices == NULL ||
        !whim_json_is_object(whim_json_at(choices, 0))) {
        return;
    }
    scope.obj = whim_json_at(choices, 0);
    if (whim_json_has(&scope, "finish_reason")) {
        s->out->end = end_of(s, &scope);
    }
    if (whim_json_get_object(&scope, "delta", &delta) == WHIM_ERR_OK && delta != NULL) {
        scope.obj = delta;
        bool has_long = whim_json_has(&scope, "reasoning_content"); /* some say both */
        hand_on(s, WHIMBREL_EVENT_REASONING, &scope, has_long ? "reasoning_content" : "reasoning");
        hand_on(s, WHIMBREL_EVENT_TEXT, &scope, "content");
    }
}

static whimbrel_status fail(const chat *c, const server_reply *a, whimbrel_error *error)
{
    static const char *const texts[] = {
#define X(NAME, name, text) text,
        SERVER_FAULTS(X)
#undef X
    };
    char status[16] = "";
    bool refused = a->fault == SERVER_FAULT_STATUS;
    if (refused) {
        snprintf(status, sizeof status, " %d", a->status);
    }
    *error = (whimbrel_error){.status = WHIMBREL_IO};
    snprintf(error->text, sizeof error->text, "%s: %s%s%s%s%s", c->server.url, texts[a->fault],
             status, a->message[0] != '\0' ? ": " : "", a->message,
             a->fault == SERVER_FAULT_CONNECT
                 ? "; does it still run? /model NAME loads a model here"
                 : "; your message was not taken, the conversation is as before");
    return error->status;
}

whimbrel_status joined_ask(const chat *c, ask_event_fn *fn, void *ctx, asked *out,
                           whimbrel_error *error)
{
    stream s = {.c = c, .fn = fn, .ctx = ctx, .out = out};
    server_link link = {.fd = -1, .wants_stream = true};
    whimbrel_status status = WHIMBREL_OK;
    *out = (asked){.stop = -1, .end = WHIMBREL_END_MODEL};
    link.reply.on_chunk = on_chunk;
    link.reply.ctx = &s;
    append_request(c, &link.out);
    server_exchange(&link, &c->server.address, silence_s, &interrupted);
    const server_reply *a = &link.reply;
    if (a->fault == SERVER_FAULT_STOPPED) {
        out->end = WHIMBREL_END_CANCELLED;
    } else if (a->fault != SERVER_FAULT_NONE && a->fault != SERVER_FAULT_EMPTY) {
        status = fail(c, a, error);
    }
    out->n_id = a->has_usage ? a->gen_tokens : a->n_time;
    out->n_context = a->has_usage && out->n_id > 0 ? a->prompt_tokens + out->n_id - 1 : 0;
    s.first_ns = s.first_ns > 0 ? s.first_ns : whim_clock_ns();
    out->prompt_s = (double)(s.first_ns - link.start_ns) / (double)WHIM_NS_PER_S;
    out->gen_s = (double)(whim_clock_ns() - s.first_ns) / (double)WHIM_NS_PER_S;
    server_link_deinit(&link);
    return status;
}
