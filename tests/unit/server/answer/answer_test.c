/* SPDX-License-Identifier: Apache-2.0 */
/* The core of answers with a form that writes down how it is called: order, parts, keep-alives,
 * failures. */
#include "unit/server/server_fixture.h"

#include "server/answer/run.h"
#include "server/anthropic/anthropic.h"
#include "server/openai/openai.h"
#include "server/responses/responses.h"

static whim_str calls; /* "begin admitted C0:hello end0 finish " */

static void on_begin(whim_answer *a)
{
    (void)a;
    whim_str_append(&calls, "begin ");
}
static void on_admitted(whim_answer *a)
{
    whim_str_printf(&calls, "admitted%lld ", (long long)whim_answer_usage(a).n_cached);
}
static void on_event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                     const whim_chat_event *ev)
{
    static const char kinds[] = {'R', 'C', 'B', 'A', 'E'};
    (void)a;
    whim_str_printf(&calls, "%c%d:%.*s/%lld ", kinds[ev->kind], c->index, (int)ev->n,
                    ev->n == 0 ? "" : ev->text, (long long)part->text.len);
}
static void on_choice_end(whim_answer *a, whim_answer_choice *c)
{
    (void)a;
    whim_str_printf(&calls, "end%d:%s ", c->index, whim_finish_name(whim_answer_choice_finish(c)));
}
static void on_finish(whim_answer *a)
{
    (void)a;
    whim_str_append(&calls, "finish ");
}
static void on_fail(whim_answer *a, const whim_fault *fault)
{
    (void)a;
    whim_str_printf(&calls, "fail%d ", whim_fault_status(fault, WHIM_DIALECT_OPENAI));
}
static void on_keep_alive(whim_answer *a)
{
    whim_str_append(&a->out, ".");
    whim_answer_send(a);
    whim_str_append(&calls, "alive ");
}

static const whim_answer_form form = {.id_prefix = "t-",
                                      .begin = on_begin,
                                      .admitted = on_admitted,
                                      .event = on_event,
                                      .choice_end = on_choice_end,
                                      .finish = on_finish,
                                      .fail = on_fail,
                                      .keep_alive = on_keep_alive};

/* A stream of `n_prompt` prompts; its jobs are open. */
static whim_answer *make_with(const whim_answer_form *made, int32_t n_prompt, bool chat)
{
    whim_task *task = whim_task_create(&api, json_object());
    assert_non_null(task);
    task->stream = true;
    task->n_prompt = n_prompt;
    if (chat) {
        task->messages = json_pack("[{s:s}]", "role", "user");
        task->tools = json_pack("[{s:{s:s}}]", "function", "name", "f");
        task->choice = WHIM_CHOICE_AUTO;
    } else {
        task->prompts = whim_arena_alloc_array(&task->arena, n_prompt, sizeof *task->prompts);
        for (int32_t p = 0; p < n_prompt; p++) {
            assert_int_equal(whim_ids_append(&task->prompts[p], 1), WHIM_ERR_OK);
        }
    }
    assert_true(whim_task_prepare(&api, task, &(whim_fault){0}));
    whim_str_deinit(&exchange.headers);
    whim_str_deinit(&exchange.body);
    exchange = (whim_exchange){.request = {.request_id = "r"}, .write_limit = -1};
    whim_answer *a = whim_answer_create(&api, &exchange, made, task);
    assert_non_null(a);
    whim_diag diag = {""};
    script = NULL;
    n_script = 0;
    is_held = true;
    assert_int_equal(whim_requests_start(task->requests, n_prompt, NULL, &diag), WHIM_ERR_OK);
    a->run->n_open = n_prompt;
    cancelled = WHIM_REASON_NONE;
    whim_str_clear(&calls);
    return a;
}

static whim_answer *make(int32_t n_prompt, bool chat)
{
    return make_with(&form, n_prompt, chat);
}

/* Let the job of prompt `p` have this event, and take what comes of it. */
static void take(whim_answer *a, int32_t p, whim_job_event ev)
{
    const whimbrel_event *got;
    held_event = &ev;
    while ((got = whimbrel_next(a->task->requests[p])) != NULL) {
        whim_answer_take(a, p, got);
    }
}

static void expect_calls(const char *want)
{
    assert_string_equal(whim_str_text(&calls), want);
}

static void calls_come_in_order(void **state)
{
    (void)state;
    whim_answer *a = make(2, false);
    whim_answer_begin(a);
    take(a, 0, (whim_job_event)ADMITTED);
    take(a, 1, (whim_job_event)ADMITTED);
    take(a, 1, (whim_job_event)TOKEN(0, 5, "x"));
    take(a, 0, (whim_job_event)TOKEN(0, 5, ""));
    take(a, 0, (whim_job_event){.kind = WHIM_JOB_CHOICE_END, .text = "rest", .n_text = 4});
    take(a, 0, (whim_job_event){.kind = WHIM_JOB_DONE, .n_cached = 2});
    take(a, 1, (whim_job_event)CHOICE_END(0, WHIM_END_CONTEXT));
    take(a, 1, (whim_job_event){.kind = WHIM_JOB_DONE, .n_cached = 3});
    assert_int_equal(a->run->n_open, 0);
    whim_answer_end(a);
    expect_calls("begin admitted4 C1:x/1 C0:rest/4 end0:stop end1:length finish ");
    whim_usage usage = whim_answer_usage(a);
    assert_int_equal(usage.n_made, 2);
    assert_int_equal(usage.n_cached, 5);
    assert_true(exchange.ended);
    whim_answer_destroy(a);
}

static void parts_are_kept_as_they_came(void **state)
{
    (void)state;
    whim_answer *a = make(1, true);
    whim_answer_choice *c = &a->choices[0];
    whim_answer_begin(a);
    take(a, 0, (whim_job_event)TOKEN(0, 5, "<think>hm</think>a"));
    take(a, 0, (whim_job_event)TOKEN(0, 5, "b<tool_call>{\"name\":\"f\",\"arguments\":{}}"));
    take(a, 0, (whim_job_event)TOKEN(0, 5, "</tool_call>"));
    take(a, 0, (whim_job_event)CHOICE_END(0, WHIM_END_EOS));
    assert_int_equal(c->n_part, 3);
    assert_int_equal(c->parts[0].kind, WHIM_CHAT_REASONING);
    assert_string_equal(whim_str_text(&c->parts[0].text), "hm");
    assert_string_equal(whim_str_text(&c->parts[1].text), "ab");
    assert_string_equal(whim_str_text(&c->parts[2].name), "f");
    assert_string_equal(whim_str_text(&c->parts[2].text), "{}");
    assert_int_equal(strlen(c->parts[2].id), 24);
    assert_true(c->parts[0].complete && c->parts[2].complete);
    assert_int_equal(whim_answer_choice_finish(c), WHIM_FINISH_CALLS);
    assert_non_null(strstr(whim_str_text(&calls), "end0:tool_calls "));
    whim_answer_destroy(a);
}

static void silence_is_broken_after_ten_seconds(void **state)
{
    (void)state;
    whim_answer *a = make(1, false);
    whim_answer_begin(a);
    int64_t at = a->run->last_ns;
    whim_answer_keep_alive(a, at + 10 * WHIM_NS_PER_S - 1);
    expect_calls("begin ");
    whim_answer_keep_alive(a, at + 10 * WHIM_NS_PER_S);
    expect_calls("begin alive ");
    exchange.write_limit = 0;
    whim_answer_keep_alive(a, INT64_MAX);
    assert_int_equal(cancelled, WHIM_REASON_CLIENT_GONE_OR_SLOW);
    whim_answer_keep_alive(a, INT64_MAX);
    expect_calls("begin alive alive ");
    whim_answer_destroy(a);
}

static void one_failure_ends_the_whole(void **state)
{
    (void)state;
    whim_answer *a = make(2, false);
    whim_answer_begin(a);
    take(a, 0,
         (whim_job_event){.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_CORRUPT, .message = "why"});
    assert_int_not_equal(cancelled, WHIM_REASON_NONE);
    take(a, 1, (whim_job_event)TOKEN(0, 5, "late"));
    take(a, 1, (whim_job_event)CHOICE_END(0, WHIM_END_EOS));
    take(a, 1, (whim_job_event){.kind = WHIM_JOB_DONE});
    whim_answer_end(a);
    expect_calls("begin fail500 ");
    whim_answer_destroy(a);
    a = make(1, false);
    whim_answer_begin(a);
    end_reason = WHIM_REASON_STOPPING;
    take(a, 0, (whim_job_event){.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_FULL, .message = "why"});
    end_reason = WHIM_REASON_STOP;
    whim_answer_end(a);
    expect_calls("begin fail503 ");
    whim_answer_destroy(a);
    a = make(1, false);
    whim_answer_begin(a);
    take(a, 0,
         (whim_job_event){.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_NO_MEMORY, .message = "why"});
    whim_answer_end(a);
    expect_calls("begin fail503 ");
    whim_answer_destroy(a);
}

static void write_text(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                       const whim_chat_event *ev)
{
    (void)c;
    (void)part;
    whim_str_append_n(&a->out, ev->text, ev->n);
    whim_answer_send(a);
}
static void write_end(whim_answer *a, whim_answer_choice *c)
{
    (void)c;
    whim_str_append(&a->out, "an end");
    whim_answer_send(a);
}
static const whim_answer_form openai_form = {.id_prefix = "t-",
                                             .begin = whim_openai_keep_alive,
                                             .event = write_text,
                                             .choice_end = write_end,
                                             .finish = on_finish,
                                             .fail = whim_openai_fail};

/* Stream a short and a long text; `n_alloc` allocations succeed after the short one. `last`: then
 * none does. */
static const char *stream_without_memory(const whim_answer_form *made, int64_t n_alloc, bool last)
{
    static char text[40000];
    whim_answer *a = make_with(made, 1, true);
    memset(text, 'x', sizeof text);
    whim_str_append_n(&exchange.body, text, sizeof text); /* the client's memory is another one's */
    whim_str_append_n(&exchange.body, text, sizeof text);
    whim_str_clear(&exchange.body);
    whim_answer_begin(a);
    take(a, 0, (whim_job_event)ADMITTED);
    take(a, 0, (whim_job_event)TOKEN(0, 5, "short"));
    whim_alloc_fail_after(n_alloc);
    take(a, 0,
         (whim_job_event){
             .kind = WHIM_JOB_TOKEN, .id = 5, .text = text, .n_text = (int32_t)sizeof text});
    assert_true(a->run->failed && !exchange.aborted);
    assert_int_not_equal(cancelled, WHIM_REASON_NONE);
    whim_alloc_fail_after(last ? 0 : -1);
    take(a, 0, (whim_job_event)TOKEN(0, 5, "late"));
    take(a, 0, (whim_job_event)CHOICE_END(0, WHIM_END_EOS));
    take(a, 0, (whim_job_event){.kind = WHIM_JOB_DONE});
    whim_answer_end(a);
    whim_alloc_fail_after(-1);
    whim_answer_destroy(a);
    const char *got = whim_str_text(&exchange.body);
    assert_true(exchange.ended && !exchange.aborted);
    assert_non_null(strstr(got, "short"));
    assert_null(strstr(got, "late"));
    assert_null(strstr(got, "an end"));
    return got;
}

/* The part's text finds memory, the event does not. */
static void a_stream_tells_that_memory_ran_out(void **state)
{
    (void)state;
    const char *got = stream_without_memory(&openai_form, 1, false);
    const char *error = strstr(got, "data: {\"error\":{\"message\":\"out of memory\"");
    assert_non_null(error);
    assert_non_null(strstr(error, "\"code\":\"overloaded\""));
    assert_non_null(strstr(error, "\n\ndata: [DONE]\n\n"));
    got = stream_without_memory(&whim_anthropic_form, 1, false);
    error = strstr(got, "event: error\ndata: {\"type\":\"error\",\"error\":{");
    assert_non_null(error);
    assert_non_null(strstr(error, "\"message\":\"out of memory\""));
    assert_null(strstr(got, "message_stop"));
    for (int last = 0; last < 2; last++) { /* also where the whole answer finds no memory again */
        got = stream_without_memory(&whim_responses_form, 1, last == 1);
        error = strstr(got, "event: response.failed\ndata: {");
        assert_non_null(error);
        assert_non_null(strstr(error, "\"code\":\"server_error\""));
        assert_null(strstr(got, "response.completed"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_in_order),
        cmocka_unit_test(parts_are_kept_as_they_came),
        cmocka_unit_test(silence_is_broken_after_ten_seconds),
        cmocka_unit_test(one_failure_ends_the_whole),
        cmocka_unit_test(a_stream_tells_that_memory_ran_out),
    };
    int failed = cmocka_run_group_tests(tests, api_setup, api_teardown);
    whim_str_deinit(&calls);
    return failed;
}
