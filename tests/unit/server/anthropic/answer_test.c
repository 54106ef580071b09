/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /v1/messages byte by byte: streams, whole messages, stop reasons, failures. With an
 * argument the program prints them all, for a check against the official client's types. */
#include "unit/server/read_body.h"

#include "server/anthropic/anthropic.h"

static const char *answer(const char *body, const whim_job_event *events, int64_t n)
{
    return answer_of(whim_route_messages, "/v1/messages", body, events, n);
}
#define ANSWER(body, events) answer(body, events, N_OF(events))

#define TOOLS "\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}},{\"name\":\"g\"}]"
#define ASK "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," TOOLS
#define START                                                                                    \
    "event: message_start\ndata: "                                                               \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_ID\",\"type\":"                       \
    "\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":[],\"stop_reason\":null," \
    "\"stop_sequence\":null,\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":0,"    \
    "\"cache_read_input_tokens\":2,\"output_tokens\":0}}}\n\n" PING
#define PING "event: ping\ndata: {\"type\":\"ping\"}\n\n"
#define BLOCK(index, block)                                                                \
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":" index \
    ",\"content_block\":" block "}\n\n"
#define DELTA(index, delta)                                                                \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" index \
    ",\"delta\":" delta "}\n\n"
#define STOP(index) \
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":" index "}\n\n"
#define END(reason, sequence, made)                                                                \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason \
    "\",\"stop_sequence\":" sequence "},\"usage\":{\"input_tokens\":3,"                            \
    "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":2,\"output_tokens\":" made      \
    "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
#define WHOLE(content, reason, sequence, made)                                             \
    "{\"id\":\"msg_ID\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\","   \
    "\"content\":[" content "],\"stop_reason\":\"" reason "\",\"stop_sequence\":" sequence \
    ",\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":0,"                    \
    "\"cache_read_input_tokens\":2,\"output_tokens\":" made "}}"

static const whim_job_event everything[] = {
    ADMITTED,
    TOKEN(0, 1, "<think>let "),
    TOKEN(0, 1, "me</think>"),
    TOKEN(0, 1, "\"well\""),
    TOKEN(0, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{"),
    TOKEN(0, 1, "\"a\":"),
    TOKEN(0, 1, "1}}</tool_call>"),
    TOKEN(0, 1, "<tool_call>{\"name\":\"g\"}</tool_call>"),
    END_TOKEN(0),
    CHOICE_END(0, WHIM_END_EOS)};

#define THOUGHT(made, n) made ",\"output_tokens_details\":{\"thinking_tokens\":" n "}"

/* clang-format off */
static void streams_all_kinds_of_blocks(void **state)
{
    (void)state;
    static const char want[] =
        START
        BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
        DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"let \"}")
        DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"me\"}")
        DELTA("0", "{\"type\":\"signature_delta\",\"signature\":\"whimID\"}")
        STOP("0")
        BLOCK("1", "{\"type\":\"text\",\"text\":\"\"}")
        DELTA("1", "{\"type\":\"text_delta\",\"text\":\"\\\"well\\\"\"}")
        STOP("1")
        BLOCK("2", "{\"type\":\"tool_use\",\"id\":\"toolu_ID\",\"name\":\"f\",\"input\":{}}")
        DELTA("2", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}")
        DELTA("2", "{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"a\\\":\"}")
        DELTA("2", "{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}")
        STOP("2")
        BLOCK("3", "{\"type\":\"tool_use\",\"id\":\"toolu_ID\",\"name\":\"g\",\"input\":{}}")
        DELTA("3", "{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}")
        STOP("3")
        END("tool_use", "null", THOUGHT("8", "1"));
    assert_string_equal(ANSWER(ASK ",\"stream\":true}", everything), want);
    assert_string_equal(whim_str_text(&exchange.headers), ""); /* http.h adds a stream's own */
}

static void tells_all_kinds_of_blocks(void **state)
{
    (void)state;
    assert_string_equal(ANSWER(ASK "}", everything),
        WHOLE("{\"type\":\"thinking\",\"thinking\":\"let me\",\"signature\":\"whimID\"},"
              "{\"type\":\"text\",\"text\":\"\\\"well\\\"\"},"
              "{\"type\":\"tool_use\",\"id\":\"toolu_ID\",\"name\":\"f\",\"input\":{\"a\":1}},"
              "{\"type\":\"tool_use\",\"id\":\"toolu_ID\",\"name\":\"g\",\"input\":{}}",
              "tool_use", "null", THOUGHT("8", "1")));
}

static void hides_thinking(void **state)
{
    (void)state;
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 1, "<think>secret</think>"),
                                            TOKEN(0, 1, "h"), CHOICE_END(0, WHIM_END_EOS)};
#define OMIT ",\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}"
    assert_string_equal(ANSWER(ASK OMIT ",\"stream\":true}", events),
        START
        BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
        DELTA("0", "{\"type\":\"signature_delta\",\"signature\":\"whimID\"}")
        STOP("0")
        BLOCK("1", "{\"type\":\"text\",\"text\":\"\"}")
        DELTA("1", "{\"type\":\"text_delta\",\"text\":\"h\"}")
        STOP("1")
        END("end_turn", "null", "2"));
    assert_string_equal(ANSWER(ASK OMIT "}", events),
        WHOLE("{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"whimID\"},"
              "{\"type\":\"text\",\"text\":\"h\"}", "end_turn", "null", "2"));
}
/* clang-format on */

#define HELLO "{\"type\":\"text\",\"text\":\"hello\"}"

static const char *ends_with(const char *body, whim_end end, int32_t stop)
{
    const whim_job_event events[] = {
        ADMITTED,
        TOKEN(0, 1, "hel"),
        TOKEN(0, 1, "lo"),
        {.kind = WHIM_JOB_CHOICE_END, .end = end, .stop = stop, .text = ""}};
    return ANSWER(body, events);
}

static void says_why_it_stopped(void **state)
{
    static const char ask[] = ASK ",\"stop_sequences\":[\"x\",\"a\\\"b\"]}";
    (void)state;
    assert_string_equal(ends_with(ask, WHIM_END_STOP, 1),
                        WHOLE(HELLO, "stop_sequence", "\"a\\\"b\"", "2"));
    assert_string_equal(ends_with(ask, WHIM_END_EOS, -1), WHOLE(HELLO, "end_turn", "null", "2"));
    assert_string_equal(ends_with(ask, WHIM_END_LENGTH, -1),
                        WHOLE(HELLO, "max_tokens", "null", "2"));
    assert_string_equal(ends_with(ask, WHIM_END_REPETITION, -1),
                        WHOLE(HELLO, "max_tokens", "null", "2"));
    assert_string_equal(ends_with(ask, WHIM_END_CONTEXT, -1),
                        WHOLE(HELLO, "model_context_window_exceeded", "null", "2"));
    assert_string_equal(ends_with(ask, WHIM_END_KV, -1),
                        WHOLE(HELLO, "model_context_window_exceeded", "null", "2"));
    assert_non_null(
        strstr(ends_with(ASK ",\"stop_sequences\":[\"x\"],\"stream\":true}", WHIM_END_STOP, 0),
               END("stop_sequence", "\"x\"", "2")));
}

static void is_never_empty(void **state)
{
    static const whim_job_event events[] = {ADMITTED, CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    assert_string_equal(ANSWER(ASK ",\"stream\":true}", events),
                        START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}") STOP("0")
                            END("max_tokens", "null", "0"));
    assert_int_equal(last_cfg.max_tokens, 9);
    /* 0: fill the cache and no more. */
    assert_string_equal(
        ANSWER("{\"max_tokens\":0,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", events),
        WHOLE("{\"type\":\"text\",\"text\":\"\"}", "max_tokens", "null", "0"));
    assert_int_equal(last_cfg.max_tokens, -1);
}

static void shows_a_cut_call_only_in_streams(void **state)
{
    static const whim_job_event events[] = {
        ADMITTED, TOKEN(0, 1, "ok"),
        TOKEN(0, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":"),
        CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    assert_string_equal(ANSWER(ASK "}", events),
                        WHOLE("{\"type\":\"text\",\"text\":\"ok\"}", "max_tokens", "null", "2"));
    assert_non_null(
        strstr(ANSWER(ASK ",\"stream\":true}", events),
               DELTA("1", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}")
                   STOP("1") END("max_tokens", "null", "2")));
}

static void fails_in_the_stream(void **state)
{
    static const whim_job_event late[] = {
        ADMITTED, TOKEN(0, 1, "hel"), {.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_DEVICE}};
    static const whim_job_event early[] = {{.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_DEVICE}};
    static const char before[] = START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}")
        DELTA("0", "{\"type\":\"text_delta\",\"text\":\"hel\"}") "event: error\ndata: {\"type\":"
                                                                 "\"error\",\"error\":{\"type\":"
                                                                 "\"api_error\",\"message\":\"";
    (void)state;
    const char *wire = ANSWER(ASK ",\"stream\":true}", late);
    assert_memory_equal(wire, before, sizeof before - 1);
    assert_non_null(strstr(wire, "\"},\"request_id\":\"req-1\"}\n\n"));
    assert_null(strstr(wire, "message_stop"));
    assert_memory_equal(ANSWER(ASK ",\"stream\":true}", early), "event: error\n", 13);
    assert_memory_equal(ANSWER(ASK "}", early), "{\"type\":\"error\",\"error\":{", 25);
    assert_int_equal(exchange.status, 500);
}

static void keeps_a_silent_stream_alive(void **state)
{
    (void)state;
    whim_task *task = read_good(whim_anthropic_read, ASK ",\"stream\":true}");
    assert_string_equal(silence_of(&whim_anthropic_form, task), PING);
}

static void refuses(const char *body, int status, const char *type, const char *message)
{
    static const whim_job_event none[] = {ADMITTED};
    char want[512];
    snprintf(want, sizeof want, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"%s",
             type, message);
    assert_memory_equal(ANSWER(body, none), want, strlen(want));
    assert_int_equal(exchange.status, status);
}

static void refuses_in_its_own_words(void **state)
{
    static const char invalid[] = "invalid_request_error";
    (void)state;
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", 400, invalid,
            "\\\"max_tokens\\\" is required");
    refuses("{\"max_tokens\":-1,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", 400,
            invalid, "\\\"max_tokens\\\" is -1");
    refuses("{\"max_tokens\":1}", 400, invalid, "\\\"messages\\\" must");
    refuses("{", 400, invalid, "");
    fake_prompt_len = 100;
    refuses(ASK ",\"stream\":true}", 400, invalid, "prompt is too long: 100 tokens > 99 maximum");
    fake_prompt_len = 5;
    submit_err = WHIM_ERR_FULL;
    refuses(ASK ",\"stream\":true}", 529, "overloaded_error", "");
    submit_err = WHIM_ERR_OK;
}

/* What /v1/messages reports in total, whatever the context can hold, and with no job. */
static void counts_tokens(void **state)
{
    (void)state;
    int64_t before = n_submitted;
    fake_prompt_len = 1234;
    assert_string_equal(answer_of(whim_route_count_tokens, "/v1/messages/count_tokens",
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", NULL,
                                  0),
                        "{\"input_tokens\":1234}");
    fake_prompt_len = 5;
    assert_string_equal(answer_of(whim_route_count_tokens, "/v1/messages/count_tokens",
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", NULL,
                                  0),
                        "{\"input_tokens\":5}");
    assert_int_equal(n_submitted, before);
    answer_of(whim_route_count_tokens, "/v1/messages/count_tokens", "{}", NULL, 0);
    assert_int_equal(exchange.status, 400);
}

int main(int argc, char **argv)
{
    (void)argv;
    print_answers = argc > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_all_kinds_of_blocks),
        cmocka_unit_test(tells_all_kinds_of_blocks),
        cmocka_unit_test(hides_thinking),
        cmocka_unit_test(says_why_it_stopped),
        cmocka_unit_test(is_never_empty),
        cmocka_unit_test(shows_a_cut_call_only_in_streams),
        cmocka_unit_test(fails_in_the_stream),
        cmocka_unit_test(keeps_a_silent_stream_alive),
        cmocka_unit_test(refuses_in_its_own_words),
        cmocka_unit_test(counts_tokens),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
