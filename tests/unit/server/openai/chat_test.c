/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/chat/completions byte by byte: replies, the order of streams, calls, reasoning,
 * log-probabilities, failures. */
#include "library/grammar_cache.h"
#include "unit/server/server_fixture.h"

#define HEAD                                                                               \
    "\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":" \
    "\"tiny\","                                                                            \
    "\"system_fingerprint\":\"fp_0\",\"choices\":["
/* A chunk: choice, delta, logprobs, finish, what follows the choices. */
#define CHUNK_X(c, delta, logprobs, finish, tail)                                  \
    "data: {" HEAD "{\"index\":" c ",\"delta\":{" delta "},\"logprobs\":" logprobs \
    ",\"finish_reason\":" finish "}]" tail "}\n\n"
#define CHUNK(c, delta) CHUNK_X(c, delta, "null", "null", "")
#define FINISH(c, why) CHUNK_X(c, "", "null", "\"" why "\"", "")
#define ROLE(c) CHUNK(c, "\"role\":\"assistant\",\"content\":\"\"")
#define DONE "data: [DONE]\n\n"
#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOLS                                                                         \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{" \
    "\"type\":\"object\"}}}]"

static const char *chat(const char *body, const whim_job_event *events, int64_t n)
{
    return call(whim_route_chat, "/v1/chat/completions", body, events, n);
}

static void a_reply_has_all_keys(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 263, "hello"),
                                            TOKEN(0, 268, " world"), END_TOKEN(0),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    assert_string_equal(
        chat("{" HI "}", events, N_OF(events)),
        "{\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion\",\"created\":0,\"model\":\"tiny\","
        "\"system_fingerprint\":\"fp_0\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
        "\"assistant\",\"content\":\"hello world\",\"refusal\":null},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,"
        "\"total_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":2},"
        "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"proposed_tokens\":0,"
        "\"accepted_tokens\":0}}}");
    assert_int_equal(exchange.status, 200);
    assert_string_equal(last_cfg.id, "req-1");
    assert_int_equal(last_cfg.max_tokens, 0);
}

static void a_circle_is_length_with_its_reason(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"),
                                            CHOICE_END(0, WHIM_END_REPETITION)};
    (void)state;
    assert_non_null(strstr(chat("{" HI "}", events, N_OF(events)),
                           "\"finish_reason\":\"length\",\"stop_reason\":\"repetition\"}]"));
    assert_string_equal(chat("{" HI ",\"stream\":true}", events, N_OF(events)),
                        ROLE("0") CHUNK("0", "\"content\":\"a\"") CHUNK_X(
                            "0", "", "null", "\"length\",\"stop_reason\":\"repetition\"", "") DONE);
}

static void a_stream_of_three_choices_keeps_its_order(void **state)
{
    static const whim_job_event events[] = {ADMITTED,           TOKEN(2, 97, "c"),
                                            TOKEN(0, 97, "a"),  CHOICE_END(2, WHIM_END_LENGTH),
                                            TOKEN(1, 98, "b"),  CHOICE_END(0, WHIM_END_EOS),
                                            TOKEN(1, 98, "\n"), CHOICE_END(1, WHIM_END_STOP)};
    (void)state;
    assert_string_equal(chat("{" HI ",\"n\":3,\"stream\":true}", events, N_OF(events)),
                        ROLE("0") ROLE("1") ROLE("2") CHUNK("2", "\"content\":\"c\"")
                            CHUNK("0", "\"content\":\"a\"") FINISH("2", "length")
                                CHUNK("1", "\"content\":\"b\"") FINISH("0", "stop")
                                    CHUNK("1", "\"content\":\"\\n\"") FINISH("1", "stop") DONE);
    assert_int_equal(exchange.n_write, 11);                    /* one write an event */
    assert_string_equal(whim_str_text(&exchange.headers), ""); /* http.h adds a stream's own */
}

#define NO_USAGE ",\"usage\":null"
static void usage_comes_last_when_asked_for(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"), END_TOKEN(0),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    assert_string_equal(
        chat("{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}", events,
             N_OF(events)),
        CHUNK_X("0", "\"role\":\"assistant\",\"content\":\"\"", "null", "null", NO_USAGE)
            CHUNK_X("0", "\"content\":\"a\"", "null", "null", NO_USAGE)
                CHUNK_X("0", "", "null", "\"stop\"",
                        NO_USAGE) "data: {" HEAD "],\"usage\":{\"prompt_tokens\":5,\"completion_"
                                  "tokens\":2,\"total_tokens\":7,"
                                  "\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_"
                                  "tokens_details\":{"
                                  "\"reasoning_tokens\":0,\"proposed_tokens\":0,"
                                  "\"accepted_tokens\":0}}}\n\n" DONE);
    assert_non_null(
        strstr(chat("{" HI ",\"stream_options\":{\"include_usage\":true}}", events, N_OF(events)),
               "\"param\":\"stream_options\""));
    assert_null(strstr(chat("{" HI ",\"stream_options\":{}}", events, N_OF(events)), "\"param\""));
    assert_non_null(strstr(chat("{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":"
                                "true,\"continuous_usage_stats\":true}}",
                                events, N_OF(events)),
                           "\"content\":\"a\"},\"logprobs\":null,\"finish_reason\":null}],"
                           "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1,"));
    const char *timed =
        "\"accepted_tokens\":0}},\"timings\":{\"queue_ms\":0.000,\"first_token_ms\":"
        "0.000,\"decode_ms\":0.000,\"tokens_per_second\":0.000}}";
    assert_non_null(
        strstr(chat("{" HI ",\"stream\":true,\"return_timings\":true,\"stream_options\":{"
                    "\"include_usage\":true}}",
                    events, N_OF(events)),
               timed));
    assert_non_null(strstr(chat("{" HI ",\"return_timings\":true}", events, N_OF(events)), timed));
}

static const whim_job_event calls[] = {
    ADMITTED,
    TOKEN(0, 97, "<tool_call>"),
    TOKEN(0, 97, "{\"name\": \"f\", \"arguments\": {\"x\""),
    TOKEN(0, 97, ": 1}}"),
    TOKEN(0, 97, "</tool_call>"),
    TOKEN(0, 97, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
    END_TOKEN(0),
    CHOICE_END(0, WHIM_END_EOS),
};

static void calls_are_streamed_as_deltas(void **state)
{
    (void)state;
    const char *got = chat("{" HI "," TOOLS ",\"stream\":true}", calls, N_OF(calls));
    assert_non_null(strstr(got, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_ID\","
                                "\"type\":\"function\",\"function\":{\"name\":\"f\","
                                "\"arguments\":\"\"}}]}"));
    assert_non_null(strstr(got, "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
                                "\"arguments\":\""));
    assert_non_null(strstr(got, "\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_ID\","));
    assert_non_null(strstr(got, FINISH("0", "tool_calls") DONE));
    assert_null(strstr(got, "tool_call>"));
    assert_int_equal(last_rule.choice, WHIM_CHOICE_AUTO);
    assert_non_null(last_request.tools);
}

static void calls_are_whole_in_a_reply(void **state)
{
    (void)state;
    const char *got = chat("{" HI "," TOOLS "}", calls, N_OF(calls));
    assert_non_null(strstr(got, "\"content\":null,\"refusal\":null,\"tool_calls\":[{\"id\":"
                                "\"call_ID\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                                "\"arguments\":\"{\\\"x\\\": 1}\"}},{\"id\":\"call_ID\","));
    assert_non_null(strstr(got, "\"finish_reason\":\"tool_calls\""));
    /* parallel_tool_calls false: one call is told, and the choice is stopped */
    got = chat("{" HI "," TOOLS ",\"parallel_tool_calls\":false}", calls, N_OF(calls));
    assert_null(strstr(strstr(got, "call_ID") + 1, "call_ID"));
    assert_int_equal(stopped_choice, 0);
    assert_true(last_rule.one_call);
    /* no tools offered: tags are text */
    got = chat("{" HI "," TOOLS ",\"tool_choice\":\"none\"}", calls, N_OF(calls));
    assert_non_null(strstr(got, "\"content\":\"<tool_call>"));
    assert_null(last_request.tools);
}

static void a_call_that_is_cut_is_length(void **state)
{
    static const whim_job_event cut[] = {
        ADMITTED, TOKEN(0, 97, "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": "),
        CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    const char *got = chat("{" HI "," TOOLS "}", cut, N_OF(cut));
    assert_non_null(strstr(got, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(got, "\"arguments\":\"{\\\"x\\\""));
}

#define F_CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
static void a_call_that_is_cut_after_another_is_length(void **state)
{
    static const struct {
        const char *after;
        whim_end end;
        const char *finish;
    } cases[] = {{"\n<tool", WHIM_END_LENGTH, "length"},
                 {"\n<tool_call>", WHIM_END_LENGTH, "length"},
                 {"\n<tool_call>\n{\"name\": \"", WHIM_END_CONTEXT, "length"},
                 {"\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"", WHIM_END_LENGTH, "length"},
                 {"\n<tool_call>\n{\"name\": \"", WHIM_END_REPETITION, "length"},
                 {"\n<tool_call>\n{\"name\": \"", WHIM_END_EOS, "tool_calls"},
                 {"\n", WHIM_END_LENGTH, "tool_calls"},
                 {"", WHIM_END_EOS, "tool_calls"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[64];
        const whim_job_event events[] = {ADMITTED,
                                         TOKEN(0, 97, F_CALL),
                                         {.kind = WHIM_JOB_TOKEN,
                                          .id = 98,
                                          .text = cases[i].after,
                                          .n_text = (int64_t)strlen(cases[i].after)},
                                         CHOICE_END(0, cases[i].end)};
        const char *got =
            chat("{" HI "," TOOLS ",\"tool_choice\":\"required\"}", events, N_OF(events));
        snprintf(want, sizeof want, "\"finish_reason\":\"%s\"", cases[i].finish);
        if (strstr(got, want) == NULL) {
            fail_msg("case %zu: %s", i, got);
        }
    }
}

static void reasoning_is_split_out_and_counted(void **state)
{
    static const whim_job_event events[] = {ADMITTED,
                                            TOKEN(0, 97, "<think>"),
                                            TOKEN(0, 97, "so"),
                                            TOKEN(0, 97, "</think>"),
                                            TOKEN(0, 97, "42"),
                                            END_TOKEN(0),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    const char *got = chat("{" HI "}", events, N_OF(events));
    assert_non_null(strstr(got, "\"content\":\"42\",\"refusal\":null,\"reasoning_content\":\"so\","
                                "\"reasoning\":\"so\"}"));
    assert_non_null(strstr(got, "\"reasoning_tokens\":2"));
    got = chat("{" HI ",\"stream\":true}", events, N_OF(events));
    assert_non_null(strstr(got, CHUNK("0", "\"reasoning_content\":\"so\",\"reasoning\":\"so\"")
                                    CHUNK("0", "\"content\":\"42\"") FINISH("0", "stop") DONE));
}

static const whim_job_logprob top[] = {{263, -0.25f}, {195, -__builtin_inff()}};
static void a_chunk_has_the_logprobs_of_its_tokens(void **state)
{
    static const whim_job_event events[] = {ADMITTED,
                                            {.kind = WHIM_JOB_TOKEN,
                                             .id = 263,
                                             .text = "",
                                             .has_logprob = true,
                                             .logprob = -0.25f,
                                             .top = top,
                                             .n_top = 2},
                                            {.kind = WHIM_JOB_TOKEN,
                                             .id = 97,
                                             .text = "hello",
                                             .n_text = 5,
                                             .has_logprob = true,
                                             .logprob = -1,
                                             .top = top,
                                             .n_top = 1},
                                            END_TOKEN(0),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    const char *got = chat("{" HI ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":2,"
                           "\"return_token_ids\":true}",
                           events, N_OF(events));
    assert_non_null(strstr(
        got, "\"content\":\"hello\"},\"logprobs\":{\"content\":[{\"token\":\"hello\",\"logprob\":"
             "-0.25,\"bytes\":[104,101,108,108,111],\"top_logprobs\":[{\"token\":\"hello\","
             "\"logprob\":-0.25,\"bytes\":[104,101,108,108,111]},{\"token\":\""));
    assert_non_null(strstr(got, "\"logprob\":-9999.0,"));
    assert_non_null(
        strstr(got, "],\"refusal\":null},\"finish_reason\":null,\"token_ids\":[263,97]}"));
    assert_non_null(strstr(got, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\","
                                "\"token_ids\":[259]}"));
    assert_int_equal(last_cfg.params.n_logprob, 2);
    assert_true(last_cfg.params.want_logprob);
    got = chat("{" HI ",\"logprobs\":true,\"top_logprobs\":1,\"return_tokens_as_token_ids\":true}",
               events, N_OF(events));
    assert_non_null(strstr(got, "[{\"token\":\"token_id:263\",\"logprob\":-0.25,\"bytes\":[104,"));
    assert_non_null(strstr(got, "\"top_logprobs\":[{\"token\":\"token_id:263\",\"logprob\":"));
    /* without top_logprobs the list is there, and empty where none came */
    got = chat("{" HI ",\"logprobs\":true}", events, N_OF(events));
    assert_non_null(strstr(got, "\"refusal\":null},\"finish_reason\":\"stop\"}"));
}

static void failures_are_told(void **state)
{
    static const whim_job_event events[] = {
        ADMITTED,
        TOKEN(0, 97, "a"),
        {.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_CORRUPT, .message = "/secret/path"}};
    (void)state;
    const char *got = chat("{" HI ",\"stream\":true}", events, N_OF(events));
    const char *error = strstr(got, "data: {\"error\":{\"message\":\"");
    assert_non_null(error);
    assert_non_null(strstr(error, "\"type\":\"server_error\",\"param\":null,\"code\":null},"
                                  "\"request_id\":\"req-1\"}\n\n" DONE));
    assert_null(strstr(got, "secret"));
    assert_null(strstr(got, "\"finish_reason\":\"stop\""));
    got = chat("{" HI "}", events, N_OF(events));
    assert_int_equal(exchange.status, 500);
    assert_non_null(strstr(whim_str_text(&exchange.headers), "x-should-retry: false"));
    static const whim_job_event unfit[] = {
        ADMITTED,
        TOKEN(0, 97, "a"),
        {.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_INVALID, .message = "cannot write it"}};
    got = chat("{" HI "}", unfit, N_OF(unfit));
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "\"message\":\"cannot write it\""));
    submit_err = WHIM_ERR_FULL;
    got = chat("{" HI ",\"stream\":true}", events, N_OF(events));
    submit_err = WHIM_ERR_OK;
    assert_int_equal(exchange.status, 429);
    assert_non_null(strstr(whim_str_text(&exchange.headers), "Retry-After: 1"));
    assert_non_null(strstr(got, "\"code\":\"rate_limit_exceeded\""));
    submit_err = WHIM_ERR_FULL;
    is_draining = true;
    got = chat("{" HI "}", events, N_OF(events));
    submit_err = WHIM_ERR_OK;
    is_draining = false;
    assert_int_equal(exchange.status, 503);
    assert_non_null(strstr(got, "\"code\":\"draining\""));
}

static void a_client_that_left_ends_the_job(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"), TOKEN(0, 97, "b"),
                                            CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    call_limited(whim_route_chat, "/v1/chat/completions", "{" HI ",\"stream\":true}", events,
                 N_OF(events), 1);
    assert_int_equal(cancelled, WHIM_REASON_CLIENT_GONE_OR_SLOW);
    assert_int_equal(exchange.n_write, 1);
}

/* Clients cut their history on the code of a full context, which helps against nothing else. */
static void only_what_does_not_fit_is_the_context(void **state)
{
    (void)state;
    submit_err = WHIM_ERR_INVALID;
    const char *got = chat("{" HI "}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    assert_null(strstr(got, "context_length_exceeded"));
    submit_err = WHIM_ERR_NO_FIT;
    got = chat("{" HI "}", NULL, 0);
    submit_err = WHIM_ERR_OK;
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "\"code\":\"context_length_exceeded\""));
}

static void a_prompt_that_does_not_fit_is_told_with_numbers(void **state)
{
    (void)state;
    fake_prompt_len = 100;
    const char *got = chat("{" HI ",\"stream\":true}", NULL, 0);
    fake_prompt_len = 5;
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "maximum context length is 100 tokens"));
    assert_non_null(strstr(got, "has 100 tokens"));
    assert_non_null(strstr(got, "\"code\":\"context_length_exceeded\""));
}

/* A grammar that is not known yet is compiled where that may take long: the request is put off,
 * once. */
static void a_new_grammar_puts_the_request_off(void **state)
{
    (void)state;
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                               "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
                               "{\"name\":\"x\",\"schema\":{\"bad\":1}}}}";
    fake_model.grammars = whim_grammar_cache_create(NULL);
    assert_non_null(fake_model.grammars);
    call_limited(whim_route_chat, "/v1/chat/completions", body, NULL, 0, 0);
    assert_int_equal(exchange.n_put_off, 1);
    assert_int_equal(exchange.status, 0);
    exchange.request.put_off_ns = whim_clock_ns() - 31 * WHIM_NS_PER_S;
    exchange.request.is_slow = true;
    whim_route_chat(&api, &exchange); /* it waited too long */
    assert_int_equal(exchange.status, 503);
    assert_non_null(strstr(exchange.headers.text, "Retry-After"));
    exchange.status = 0;
    whim_str_clear(&exchange.body);
    exchange.request.put_off_ns = whim_clock_ns();
    whim_route_chat(&api, &exchange);
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(exchange.body.text, "$.bad is not supported"));
    /* Known now, though it is a failure: at once. */
    call(whim_route_chat, "/v1/chat/completions", body, NULL, 0);
    assert_int_equal(exchange.n_put_off, 0);
    assert_int_equal(exchange.status, 400);
    whim_grammar_cache_destroy(fake_model.grammars);
    fake_model.grammars = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_all_keys),
        cmocka_unit_test(a_circle_is_length_with_its_reason),
        cmocka_unit_test(a_stream_of_three_choices_keeps_its_order),
        cmocka_unit_test(usage_comes_last_when_asked_for),
        cmocka_unit_test(calls_are_streamed_as_deltas),
        cmocka_unit_test(calls_are_whole_in_a_reply),
        cmocka_unit_test(a_call_that_is_cut_is_length),
        cmocka_unit_test(a_call_that_is_cut_after_another_is_length),
        cmocka_unit_test(reasoning_is_split_out_and_counted),
        cmocka_unit_test(a_chunk_has_the_logprobs_of_its_tokens),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(a_client_that_left_ends_the_job),
        cmocka_unit_test(only_what_does_not_fit_is_the_context),
        cmocka_unit_test(a_prompt_that_does_not_fit_is_told_with_numbers),
        cmocka_unit_test(a_new_grammar_puts_the_request_off),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
