/* SPDX-License-Identifier: Apache-2.0 */
/* Routes without sockets and without a model: an exchange that keeps what is written to it, and
 * jobs that replay a script (fake_jobs.h). The definitions here stand in place of those of http and
 * chat/prompt, so each test program includes this once. */
#ifndef WHIM_TESTS_SERVER_FIXTURE_H
#define WHIM_TESTS_SERVER_FIXTURE_H

#include "base/heap/budget.h"
#include "server/answer/answer.h"
#include "server/api.h"
#include "server/router.h"
#include "unit/server/fake_jobs.h"
#include "unit/text/text_fixture.h"

#include <ctype.h>
#include <pthread.h>
#include <strings.h>

/* --- exchanges -------------------------------------------------------------------------------- */

struct whim_exchange {
    whim_http_request request;
    whim_str headers, body; /* "Name: value\n"..., all that was written */
    int status;
    int n_write, n_put_off;
    bool streaming, ended, aborted;
    int write_limit; /* writes that succeed; -1: all */
    void (*on_close)(void *ctx, bool gone);
    void *close_ctx;
    void *user;
    char began[16], ended_by[16]; /* names of threads: of a stream's begin, of its end or a reply */
    int32_t began_share;          /* of the thread's memory for requests, at a stream's begin */
    whim_exchange_notes notes;
};

static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fake_ended = PTHREAD_COND_INITIALIZER;

const whim_http_request *whim_exchange_request(const whim_exchange *ex)
{
    return &ex->request;
}
void whim_exchange_add_header(whim_exchange *ex, const char *name, const char *value)
{
    whim_str_printf(&ex->headers, "%s: %s\n", name, value);
}
static void fake_end(whim_exchange *ex)
{
    void (*fn)(void *, bool) = ex->on_close;
    void *ctx = ex->close_ctx;
    ex->on_close = NULL;
    if (fn != NULL) {
        fn(ctx, false);
    }
    pthread_mutex_lock(&fake_lock);
    ex->ended = true;
    pthread_cond_broadcast(&fake_ended);
    pthread_mutex_unlock(&fake_lock);
}
void whim_exchange_reply(whim_exchange *ex, int status, const char *content_type, const char *body,
                         int64_t n)
{
    assert_string_equal(content_type, "application/json");
    assert_int_equal(ex->status, 0);
    ex->status = status;
    pthread_getname_np(pthread_self(), ex->ended_by, sizeof ex->ended_by);
    whim_str_append_n(&ex->body, body, n);
    fake_end(ex);
}
void whim_exchange_stream_begin(whim_exchange *ex, const char *content_type)
{
    const char *path = ex->request.path;
    bool lines = path != NULL && strncmp(path, "/api/", 5) == 0;
    assert_string_equal(content_type,
                        lines ? "application/x-ndjson" : "text/event-stream; charset=utf-8");
    assert_int_equal(ex->status, 0);
    ex->status = 200;
    ex->streaming = true;
    pthread_getname_np(pthread_self(), ex->began, sizeof ex->began);
    ex->began_share = whim_budget_share(0);
    whim_budget_share(ex->began_share);
}
bool whim_exchange_write(whim_exchange *ex, const char *bytes, int64_t n)
{
    assert_true(ex->streaming && !ex->ended);
    if (ex->write_limit >= 0 && ex->n_write >= ex->write_limit) {
        return false;
    }
    ex->n_write++;
    whim_str_append_n(&ex->body, bytes, n);
    return true;
}
void whim_exchange_stream_end(whim_exchange *ex)
{
    assert_true(ex->streaming);
    pthread_getname_np(pthread_self(), ex->ended_by, sizeof ex->ended_by);
    fake_end(ex);
}
void whim_exchange_stream_abort(whim_exchange *ex)
{
    ex->aborted = true;
    fake_end(ex);
}
void whim_exchange_on_close(whim_exchange *ex, void (*fn)(void *ctx, bool gone), void *ctx)
{
    ex->on_close = fn;
    ex->close_ctx = ctx;
}
void whim_exchange_drop_body(whim_exchange *ex)
{
    ex->request.body = "";
    ex->request.n_body = 0;
}
whim_exchange *whim_exchange_ref(whim_exchange *ex)
{
    return ex;
}
void whim_exchange_unref(whim_exchange *ex)
{
    (void)ex;
}
void whim_exchange_put_off(whim_exchange *ex)
{
    ex->n_put_off++;
}
bool whim_exchange_take_line(whim_exchange *ex)
{
    (void)ex;
    return true;
}
whim_exchange_notes *whim_exchange_get_notes(whim_exchange *ex)
{
    return &ex->notes;
}
int64_t whim_exchange_start_ns(const whim_exchange *ex)
{
    (void)ex;
    return 1;
}

/* --- prompts and grammars --------------------------------------------------------------------- */

static whim_answer_rule last_rule; /* what the grammar was asked for */
static whim_prompt_request last_request;
static int64_t fake_prompt_len = 5;
static bool fake_open_think, fake_may_reason;

whim_err whim_prompt_make(const whim_chat_model *model, const whim_prompt_request *request,
                          whim_prompt *out, char *param, whim_diag *diag)
{
    const json_t *role = json_object_get(json_array_get(request->messages, 0), "role");
    (void)model;
    last_request = *request;
    if (!json_is_string(role)) {
        snprintf(param, 128, "messages[0].role");
        return whim_fail(diag, WHIM_ERR_INVALID, "a message needs a role");
    }
    for (int64_t i = 0; i < fake_prompt_len; i++) {
        whim_err err = whim_ids_append(&out->ids, (int32_t)(i % 250));
        assert_int_equal(err, WHIM_ERR_OK);
    }
    whim_str_append(&out->rendered.text, "<|user|>hi");
    out->open_think = fake_open_think;
    out->may_reason = fake_may_reason;
    return WHIM_ERR_OK;
}
void whim_prompt_deinit(whim_prompt *prompt)
{
    whim_ids_deinit(&prompt->ids);
    whim_str_deinit(&prompt->rendered.text);
}
bool whim_answer_is_held(const whim_answer_rule *rule)
{
    last_rule = *rule;
    return rule->schema != NULL;
}
whim_err whim_answer_grammar(const whim_answer_rule *rule, whim_grammar **out, whim_diag *diag)
{
    *out = NULL;
    if (rule->schema != NULL && json_object_get(rule->schema, "bad") != NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID, "$.bad is not supported");
    }
    return WHIM_ERR_OK;
}
whim_grammar *whim_grammar_ref(whim_grammar *g)
{
    return g;
}
void whim_grammar_unref(whim_grammar *g)
{
    assert_null(g);
}
whim_err whim_grammar_vocab_create(const whim_tokenizer *tok, const int32_t *ends, int32_t n_end,
                                   whim_grammar_vocab **out)
{
    (void)tok;
    (void)ends;
    (void)n_end;
    *out = NULL;
    return WHIM_ERR_OK;
}
const bool *whim_grammar_vocab_bytes(const whim_grammar_vocab *v)
{
    (void)v;
    return NULL;
}
void whim_grammar_vocab_destroy(whim_grammar_vocab *v)
{
    (void)v;
}

/* --- one request ------------------------------------------------------------------------------ */

static whim_api api;
static whim_exchange exchange;

static inline int api_setup(void **state)
{
    whim_diag diag = {{0}};
    (void)state;
    whim_tokenizer *tok = open_file("cat tests/data/text/tiny/llama3.json");
    api = (whim_api){.model = fake_model_open(tok),
                     .tok = tok,
                     .n_vocab = 277,
                     .name = "tiny",
                     .fingerprint = "fp_0",
                     .created = 1700000000,
                     .ctx = 100,
                     .sampling = {.size = sizeof api.sampling,
                                  .temperature = 1,
                                  .top_p = 1,
                                  .repetition_penalty = 1},
                     .version = "1",
                     .commit = "c",
                     .isa = "i"};
    fake_model.text.format = (whim_chat_format){
        .tools = whim_tool_words_usual(), .reasons = true, .thinking_switch = "enable_thinking"};
    return whim_answer_thread_open(NULL, &api.answer_thread, &diag);
}

static inline int api_teardown(void **state)
{
    (void)state;
    whim_answer_thread_close(api.answer_thread);
    fake_model_close();
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    return 0;
}

/* Every id made of 24 random characters becomes "ID", every created 0: what is left must be
 * exact. */
static inline const char *masked(void)
{
    static char out[1 << 20];
    static const char *const marks[] = {
        "\"created\":", "\"created_at\":", "chatcmpl-", "cmpl-", "call_", "toolu_",
        "msg_",         "resp_",           "rs_",       "ctc_",  "fc_",   "\"signature\":\"whim"};
    size_t n = 0;
    for (const char *at = whim_str_text(&exchange.body); *at != '\0';) {
        bool hit = false;
        for (size_t i = 0; i < sizeof marks / sizeof marks[0] && !hit; i++) {
            size_t len = strlen(marks[i]), run = 0;
            if (strncmp(at, marks[i], len) != 0) {
                continue;
            }
            while (isalnum((unsigned char)at[len + run])) {
                run++;
            }
            hit = i < 2 || run == 24;
            if (hit) {
                n += (size_t)sprintf(out + n, "%s%s", marks[i], i < 2 ? "0" : "ID");
                at += len + run;
            }
        }
        if (!hit) {
            out[n++] = *at++;
        }
        assert_true(n + 64 < sizeof out);
    }
    out[n] = '\0';
    return out;
}

static bool fake_may_pass; /* what the gate would have noted */

/* Run a route on a body with a script of job events, to its end. */
static inline const char *call_limited(whim_route_fn *route, const char *path, const char *body,
                                       const whim_job_event *events, int64_t n, int write_limit)
{
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    exchange = (whim_exchange){.request = {.method = "POST",
                                           .path = path,
                                           .raw_path = path,
                                           .query = "",
                                           .body = body,
                                           .n_body = (int64_t)strlen(body),
                                           .client = "127.0.0.1",
                                           .request_id = "req-1"},
                               .notes = {.client = 77, .may_pass = fake_may_pass},
                               .write_limit = write_limit};
    script = events;
    n_script = n;
    cancelled = WHIM_REASON_NONE;
    stopped_choice = -1;
    route(&api, &exchange);
    pthread_mutex_lock(&fake_lock);
    while (!exchange.ended && write_limit < 0) {
        pthread_cond_wait(&fake_ended, &fake_lock);
    }
    pthread_mutex_unlock(&fake_lock);
    while (whim_answer_thread_active(api.answer_thread) > 0) {
        sched_yield();
    }
    return masked();
}

static inline const char *call(whim_route_fn *route, const char *path, const char *body,
                               const whim_job_event *events, int64_t n)
{
    return call_limited(route, path, body, events, n, -1);
}

#endif
