/* SPDX-License-Identifier: Apache-2.0 */
/* What comes out of a request: text taken apart, ends, log-probabilities, many answers, and those
 * that are ended early. */
#include "unit/library/library_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static const whimbrel_message hello[] = {{"user", "hello"}};

static whimbrel_request_options ask_hello(int64_t max_tokens)
{
    return (whimbrel_request_options){.size = sizeof(whimbrel_request_options),
                                      .messages = hello,
                                      .n_message = 1,
                                      .max_tokens = max_tokens};
}

static void text_is_what_the_tokens_say(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_text("abc", 30);
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.n_id, 30);
    assert_int_equal(r.end, WHIMBREL_END_LENGTH);
    assert_int_equal(r.stop, -1);
    assert_true(r.usage.n_prompt == 3 && r.usage.n_made == 30 && r.usage.made_s > 0);
    assert_string_equal(r.text, r.written);
    assert_true(strlen(r.text) > 20);
}

/* Reasoning that the prompt leaves open, then what the answer is held to. */
static void reasoning_is_taken_out(void **state)
{
    (void)state;
    static const char *const words[] = {"yes", "no"};
    whimbrel_request_options ask = ask_hello(60);
    ask.template_args = "{\"think\":true}";
    ask.think_budget = 8;
    ask.words = words;
    ask.n_word = 2;
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_false(r.failed);
    assert_int_equal(r.end, WHIMBREL_END_MODEL);
    assert_true(strcmp(r.text, "yes") == 0 || strcmp(r.text, "no") == 0);
    assert_non_null(strstr(r.written, "</think>"));
    assert_null(strstr(r.reasoning, "think>"));
    assert_true(strlen(r.reasoning) > 0 && strlen(r.reasoning) <= 8);
}

static void calls_come_whole(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_hello(200);
    ask.template_args = "{\"enable_thinking\":false}";
    ask.tools_json = "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":"
                     "{\"type\":\"object\",\"properties\":{\"at\":{\"enum\":[7]}},\"required\":"
                     "[\"at\"],\"additionalProperties\":false}}}]";
    ask.must_call = true;
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_false(r.failed);
    assert_string_equal(r.text, "");
    assert_memory_equal(r.calls, "look{\"at\":", 10);
    assert_non_null(strstr(r.written, "<tool_call>"));
}

/* A token, then what it completes; a call as it comes, then the whole of it, and no second one. */
static void pieces_of_a_call(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_hello(200);
    ask.template_args = "{\"enable_thinking\":false}";
    ask.tools_json = "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":"
                     "{\"type\":\"object\",\"properties\":{\"at\":{\"enum\":[\"abcde\"]}},"
                     "\"required\":[\"at\"],\"additionalProperties\":false}}}]";
    ask.must_call = true;
    for (int one = 0; one < 2; one++) {
        char pieces[600] = "";
        const whimbrel_event *e;
        int n_begin = 0, n_call = 0, n_token = 0;
        ask.one_call = one == 1;
        whimbrel_request *request = submit(model, &ask);
        while ((e = whimbrel_wait(request, 60000)) != NULL) {
            n_token += e->kind == WHIMBREL_EVENT_TOKEN;
            if (e->kind == WHIMBREL_EVENT_CALL_BEGIN) {
                assert_string_equal(e->text, "look");
                n_begin++;
                pieces[0] = '\0';
            } else if (e->kind == WHIMBREL_EVENT_CALL_TEXT) {
                assert_true(n_token > 0);
                add(pieces, e->text, e->n_text);
            } else if (e->kind == WHIMBREL_EVENT_CALL) {
                assert_string_equal(e->text, pieces);
                assert_string_equal(e->name, "look");
                n_call++;
            } else if (e->kind == WHIMBREL_EVENT_TOKEN && one) {
                assert_int_equal(n_call, 0);
            }
        }
        whimbrel_free(request);
        assert_true(n_begin >= 1 && n_call >= 1);
        assert_true(!one || n_call == 1);
    }
}

static void stop_ids_end_an_answer(void **state)
{
    (void)state;
    static const int32_t b = 1; /* "b" */
    whimbrel_request_options ask = ask_text("x", 60);
    reply r = {.n_id = 0};
    ask.regex = "a{5}bc*";
    ask.ignore_end = false;
    ask.stop_ids = &b;
    ask.n_stop_id = 1;
    read_all(submit(model, &ask), &r);
    assert_string_equal(r.text, "aaaaa");
    assert_int_equal(r.n_id, 6);
}

static void schemas_and_stops(void **state)
{
    (void)state;
    static const char *const stops[] = {"zzz", "b"};
    whimbrel_request_options ask = ask_text("x", 60);
    ask.ignore_end = false;
    ask.schema_json = "{\"enum\":[[1,2]]}";
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.text[0], '[');
    assert_non_null(strstr(r.text, "2"));
    assert_int_equal(r.end, WHIMBREL_END_MODEL);
    ask.schema_json = NULL;
    ask.regex = "a{5}b";
    ask.stops = stops;
    ask.n_stop = 2;
    r = (reply){.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_string_equal(r.text, "aaaaa");
    assert_int_equal(r.end, WHIMBREL_END_STOP);
    assert_int_equal(r.stop, 1);
}

static void log_probabilities(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_text("abcdef", -1);
    ask.prompt_logprobs = true;
    ask.prompt_top_logprobs = 2;
    reply r = {.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.n_prompt_token, 6);
    assert_int_equal(r.n_id, 0);
    ask = ask_text("abcdef", 3);
    ask.logprobs = true;
    ask.top_logprobs = 4;
    r = (reply){.n_id = 0};
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.n_top, 4);
}

/* Eight at once, and two choices of each: what each of them is alone. */
static void together_as_alone(void **state)
{
    (void)state;
    enum { N = 8 };
    static const char *const texts[N] = {"a", "bb", "hello", "x", "a", "zz", "who", "is it"};
    static reply alone[N][2], together[N][2];
    whimbrel_sampling sampling = {
        .size = sizeof sampling, .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 7};
    whimbrel_request *requests[N];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            whimbrel_request_options ask = ask_text(texts[i], 20);
            ask.n_choice = 2;
            ask.sampling = &sampling;
            requests[i] = submit(model, &ask);
            if (round == 0) {
                read_all(requests[i], alone[i]);
            }
        }
        for (int i = 0; i < N && round == 1; i++) {
            read_all(requests[i], together[i]);
        }
    }
    for (int i = 0; i < 2 * N; i++) {
        assert_int_equal(together[i / 2][i % 2].n_end, 1);
        assert_memory_equal(alone[i / 2][i % 2].ids, together[i / 2][i % 2].ids,
                            20 * sizeof(int32_t));
    }
    assert_memory_equal(alone[0][0].ids, alone[4][0].ids, 20 * sizeof(int32_t));
    assert_memory_not_equal(alone[0][0].ids, alone[0][1].ids, 20 * sizeof(int32_t));
}

/* --- early ends ------------------------------------------------------------------------------- */

static void cancelled_with_what_was_made(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_text("abc", 400);
    whimbrel_request *request = submit(model, &ask);
    const whimbrel_event *e;
    int n_token = 0;
    whimbrel_end end = WHIMBREL_END_MODEL;
    whimbrel_event_kind last = WHIMBREL_EVENT_STARTED;
    while ((e = whimbrel_wait(request, -1)) != NULL) {
        n_token += e->kind == WHIMBREL_EVENT_TOKEN;
        end = e->kind == WHIMBREL_EVENT_END ? e->end : end;
        last = e->kind;
        if (n_token == 3) {
            whimbrel_cancel(request);
        }
    }
    assert_int_equal(end, WHIMBREL_END_CANCELLED);
    assert_int_equal(last, WHIMBREL_EVENT_DONE);
    assert_true(n_token >= 3 && n_token < 400);
    assert_null(whimbrel_next(request));
    whimbrel_free(request);
}

/* Before the other choices have begun, which wait for the first one's prompt. */
static void cancelled_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        static reply replies[4];
        whimbrel_request_options ask = ask_text("abc", 400);
        ask.n_choice = 4;
        whimbrel_request *request = submit(model, &ask);
        whimbrel_cancel(request);
        memset(replies, 0, sizeof replies);
        read_all(request, replies);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(replies[k].n_end, 1);
            assert_int_equal(replies[k].end, WHIMBREL_END_CANCELLED);
        }
    }
}

/* Before it was started. */
static void cancelled_before(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_text("abc", 400);
    whimbrel_request *request;
    reply r = {.n_id = 0};
    assert_int_equal(whimbrel_prepare(model, &ask, &request, NULL), WHIMBREL_OK);
    whimbrel_cancel(request);
    assert_int_equal(whimbrel_start(request, NULL), WHIMBREL_OK);
    read_all(request, &r);
    assert_int_equal(r.n_end, 1);
    assert_int_equal(r.end, WHIMBREL_END_CANCELLED);
    whimbrel_cancel(NULL);
}

static void *read_to_the_end(void *request)
{
    int64_t n_token = 0;
    const whimbrel_event *e;
    while ((e = whimbrel_wait(request, -1)) != NULL) {
        n_token += e->kind == WHIMBREL_EVENT_TOKEN;
    }
    return (void *)(intptr_t)n_token;
}

/* Each by a thread of its own, which hears of its own request. */
static void many_wait(void **state)
{
    (void)state;
    enum { N = 6 };
    pthread_t threads[N];
    whimbrel_request *requests[N];
    for (int i = 0; i < N; i++) {
        whimbrel_request_options ask = ask_text("abc", 10 + i);
        requests[i] = submit(model, &ask);
        assert_int_equal(pthread_create(&threads[i], NULL, read_to_the_end, requests[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *n_token;
        assert_int_equal(pthread_join(threads[i], &n_token), 0);
        assert_int_equal((intptr_t)n_token, 10 + i);
        whimbrel_free(requests[i]);
    }
}

static void *cancel_it(void *request)
{
    whimbrel_cancel(request);
    return NULL;
}

/* By another thread while it starts: never lost, and no race. */
static void cancelled_meanwhile(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        whimbrel_request_options ask = ask_text("abc", 400);
        whimbrel_request *request;
        pthread_t thread;
        reply r = {.n_id = 0};
        assert_int_equal(whimbrel_prepare(model, &ask, &request, NULL), WHIMBREL_OK);
        assert_int_equal(pthread_create(&thread, NULL, cancel_it, request), 0);
        assert_int_equal(whimbrel_start(request, NULL), WHIMBREL_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        read_all(request, &r);
        assert_int_equal(r.n_end, 1);
        assert_true(r.end == WHIMBREL_END_CANCELLED || r.n_id == 400);
    }
}

/* Given back before the end: dropped, and the model goes on. */
static void dropped(void **state)
{
    (void)state;
    reply r = {.n_id = 0};
    whimbrel_request_options ask = ask_text("abc", 400);
    whimbrel_request *request;
    whimbrel_free(submit(model, &ask));
    assert_int_equal(whimbrel_prepare(model, &ask, &request, NULL), WHIMBREL_OK);
    whimbrel_cancel(request);
    whimbrel_free(request);
    ask.max_tokens = 2;
    read_all(submit(model, &ask), &r);
    assert_int_equal(r.n_id, 2);
}

static void on_wake(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* A loop of one's own: told that there is something, and never told when nothing more can come. */
static void woken(void **state)
{
    (void)state;
    atomic_int n = 0;
    whimbrel_model_options options = options_of(folder);
    options.wake = on_wake;
    options.wake_ctx = &n;
    options.max_parallel = 1;
    whimbrel_model *m = open_loaded(&options);
    whimbrel_request_options ask = ask_text("abc", 10);
    whimbrel_request *request = submit(m, &ask);
    const whimbrel_event *e = NULL;
    bool done = false;
    for (int seen = 0; !done;) {
        while (atomic_load(&n) == seen) {
            usleep(100);
        }
        seen = atomic_load(&n);
        while ((e = whimbrel_next(request)) != NULL) {
            done = e->kind == WHIMBREL_EVENT_DONE;
        }
    }
    assert_null(whimbrel_wait(request, -1));
    whimbrel_free(request);
    /* Where the one place is taken nothing comes for a while. */
    ask.max_tokens = 400;
    whimbrel_request *first = submit(m, &ask), *second = submit(m, &ask);
    assert_null(whimbrel_wait(second, 1));
    whimbrel_free(first);
    whimbrel_free(second);
    whimbrel_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_what_the_tokens_say),
        cmocka_unit_test(reasoning_is_taken_out),
        cmocka_unit_test(calls_come_whole),
        cmocka_unit_test(pieces_of_a_call),
        cmocka_unit_test(many_wait),
        cmocka_unit_test(stop_ids_end_an_answer),
        cmocka_unit_test(schemas_and_stops),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(together_as_alone),
        cmocka_unit_test(cancelled_with_what_was_made),
        cmocka_unit_test(cancelled_at_once),
        cmocka_unit_test(cancelled_before),
        cmocka_unit_test(cancelled_meanwhile),
        cmocka_unit_test(dropped),
        cmocka_unit_test(woken),
    };
    return cmocka_run_group_tests_name("library events", tests, open_tiny, close_tiny);
}
