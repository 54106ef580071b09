/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /v1/responses byte by byte: streams, whole responses, cut ones, failures. With an
 * argument the program prints them all, for a check against the official client's types. */
#include "unit/server/read_body.h"

#include "server/responses/responses.h"

static const char *answer(const char *body, const whim_job_event *events, int64_t n)
{
    return answer_of(whim_route_responses, "/v1/responses", body, events, n);
}
#define ANSWER(body, events) answer(body, events, N_OF(events))

#define ASK                                                                                       \
    "{\"input\":\"hi\",\"max_output_tokens\":9,\"tools\":[{\"type\":\"function\",\"name\":\"f\"," \
    "\"parameters\":{\"type\":\"object\"},\"strict\":true},{\"type\":\"web_search\"}],"           \
    "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"metadata\":{\"k\":\"v\"},"          \
    "\"reasoning\":{\"effort\":\"low\"}"
#define RESPONSE(status, error, details, output, usage)                                       \
    RESPONSE_OF(status, error, details, output, usage, "{\"k\":\"v\"}",                       \
                "{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}," \
                "\"strict\":true}")
#define RESPONSE_OF(status, error, details, output, usage, metadata, tools)                       \
    "{\"id\":\"resp_ID\",\"object\":\"response\",\"created_at\":0,\"status\":\"" status           \
    "\",\"model\":\"tiny\",\"error\":" error ",\"incomplete_details\":" details                   \
    ",\"output\":[" output                                                                        \
    "],\"background\":false,\"instructions\":null,\"max_output_tokens\":9,\"metadata\":" metadata \
    ",\"parallel_tool_calls\":true,\"previous_response_id\":null,\"reasoning\":"                  \
    "{\"effort\":\"low\",\"summary\":null},\"temperature\":1,\"text\":"                           \
    "{\"format\":{\"type\":\"text\"}},\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},"    \
    "\"tools\":[" tools "],\"top_p\":1,\"truncation\":\"disabled\",\"usage\":" usage "}"
#define USAGE(made, thought, total)                                                               \
    "{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":2,\"cache_write_tokens\":0}" \
    ","                                                                                           \
    "\"output_tokens\":" made ",\"output_tokens_details\":{\"reasoning_tokens\":" thought "},"    \
    "\"total_tokens\":" total "}"
#define EVENT(name, number, fields)                              \
    "event: response." name "\ndata: {\"type\":\"response." name \
    "\",\"sequence_number\":" number fields "}\n\n"
#define LIFE(name, number, response) EVENT(name, number, ",\"response\":" response)
#define OPEN RESPONSE("in_progress", "null", "null", "", "null")
#define BRIEF RESPONSE_OF("in_progress", "null", "null", "", "null", "{}", "")
#define BEGIN LIFE("created", "0", OPEN) LIFE("in_progress", "1", OPEN)
#define ITEM(name, number, index, item) \
    EVENT("output_item." name, number, ",\"output_index\":" index ",\"item\":" item)
#define IN(id, index) ",\"item_id\":\"" id "\",\"output_index\":" index
#define MESSAGE(id, status, content)                               \
    "{\"id\":\"" id "\",\"type\":\"message\",\"status\":\"" status \
    "\",\"role\":\"assistant\",\"content\":[" content "]}"
#define TEXT(text) \
    "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"" text "\"}"
#define REASONING(status, content)                                    \
    "{\"id\":\"rs_ID_0\",\"type\":\"reasoning\",\"status\":\"" status \
    "\",\"summary\":[],\"encrypted_content\":null,\"content\":[" content "]}"
#define THOUGHT "{\"type\":\"reasoning_text\",\"text\":\"let me\"}"
#define CALL(status, name, arguments)                                   \
    "{\"id\":\"fc_ID\",\"type\":\"function_call\",\"status\":\"" status \
    "\",\"call_id\":\"call_ID\",\"name\":\"" name "\",\"arguments\":\"" arguments "\"}"

static const whim_job_event everything[] = {
    ADMITTED,
    TOKEN(0, 1, "<think>let "),
    TOKEN(0, 1, "me</think>"),
    TOKEN(0, 1, "ok"),
    TOKEN(0, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{"),
    TOKEN(0, 1, "\"a\":1}}</tool_call>"),
    TOKEN(0, 1, "<tool_call>{\"name\":\"f\"}</tool_call>"),
    END_TOKEN(0),
    CHOICE_END(0, WHIM_END_EOS)};

#define ALL_ITEMS                                              \
    REASONING("completed", THOUGHT)                            \
    "," MESSAGE("msg_ID_1", "completed", TEXT("ok")) "," CALL( \
        "completed", "f", "{\\\"a\\\":1}") "," CALL("completed", "f", "{}")

/* clang-format off */
static void streams_all_kinds_of_items(void **state)
{
    (void)state;
    static const char want[] =
        BEGIN
        ITEM("added", "2", "0", REASONING("in_progress", ""))
        EVENT("reasoning_text.delta", "3", IN("rs_ID_0", "0") ",\"content_index\":0,\"delta\":\"let \"")
        EVENT("reasoning_text.delta", "4", IN("rs_ID_0", "0") ",\"content_index\":0,\"delta\":\"me\"")
        EVENT("reasoning_text.done", "5", IN("rs_ID_0", "0") ",\"content_index\":0,\"text\":\"let me\"")
        ITEM("done", "6", "0", REASONING("completed", THOUGHT))
        ITEM("added", "7", "1", MESSAGE("msg_ID_1", "in_progress", ""))
        EVENT("content_part.added", "8", IN("msg_ID_1", "1") ",\"content_index\":0,\"part\":" TEXT(""))
        EVENT("output_text.delta", "9",
              IN("msg_ID_1", "1") ",\"content_index\":0,\"logprobs\":[],\"delta\":\"ok\"")
        EVENT("output_text.done", "10",
              IN("msg_ID_1", "1") ",\"content_index\":0,\"logprobs\":[],\"text\":\"ok\"")
        EVENT("content_part.done", "11", IN("msg_ID_1", "1") ",\"content_index\":0,\"part\":" TEXT("ok"))
        ITEM("done", "12", "1", MESSAGE("msg_ID_1", "completed", TEXT("ok")))
        ITEM("added", "13", "2", CALL("in_progress", "f", ""))
        EVENT("function_call_arguments.delta", "14", IN("fc_ID", "2") ",\"delta\":\"{\"")
        EVENT("function_call_arguments.delta", "15", IN("fc_ID", "2") ",\"delta\":\"\\\"a\\\":1}\"")
        EVENT("function_call_arguments.done", "16", IN("fc_ID", "2") ",\"arguments\":\"{\\\"a\\\":1}\"")
        ITEM("done", "17", "2", CALL("completed", "f", "{\\\"a\\\":1}"))
        ITEM("added", "18", "3", CALL("in_progress", "f", ""))
        EVENT("function_call_arguments.delta", "19", IN("fc_ID", "3") ",\"delta\":\"{}\"")
        EVENT("function_call_arguments.done", "20", IN("fc_ID", "3") ",\"arguments\":\"{}\"")
        ITEM("done", "21", "3", CALL("completed", "f", "{}"))
        LIFE("completed", "22",
             RESPONSE("completed", "null", "null", ALL_ITEMS, USAGE("7", "1", "12")));
    assert_string_equal(ANSWER(ASK ",\"stream\":true}", everything), want);
}
/* clang-format on */

static void tells_all_kinds_of_items(void **state)
{
    (void)state;
    assert_string_equal(ANSWER(ASK "}", everything),
                        RESPONSE("completed", "null", "null", ALL_ITEMS, USAGE("7", "1", "12")));
}

#define TEXT_CALL(status, input)                                            \
    "{\"id\":\"ctc_ID\",\"type\":\"custom_tool_call\",\"status\":\"" status \
    "\",\"call_id\":\"call_ID\",\"name\":\"p\",\"input\":\"" input "\"}"

/* A call of a tool that takes plain text: the text is told, not the argument that holds it. */
static void tells_plain_texts(void **state)
{
    (void)state;
    static const whim_job_event calls[] = {
        ADMITTED, TOKEN(0, 1, "<tool_call>{\"name\":\"p\",\"arguments\":{\"input\": \"a"),
        TOKEN(0, 1, "\\n\\\"b\\\"\"}}</tool_call>"), CHOICE_END(0, WHIM_END_EOS)};
    static const whim_job_event cut[] = {
        ADMITTED, TOKEN(0, 1, "<tool_call>{\"name\":\"p\",\"arguments\":{\"input\": \"a"),
        CHOICE_END(0, WHIM_END_LENGTH)};
#define TEXT_TOOLS "{\"input\":\"hi\",\"tools\":[{\"type\":\"custom\",\"name\":\"p\"}]"
    const char *told = ANSWER(TEXT_TOOLS ",\"stream\":true}", calls);
    static const char *const order[] = {
        ITEM("added", "2", "0", TEXT_CALL("in_progress", "")),
        EVENT("custom_tool_call_input.delta", "3",
              IN("ctc_ID", "0") ",\"delta\":\"a\\n\\\"b\\\"\""),
        EVENT("custom_tool_call_input.done", "4", IN("ctc_ID", "0") ",\"input\":\"a\\n\\\"b\\\"\""),
        ITEM("done", "5", "0", TEXT_CALL("completed", "a\\n\\\"b\\\"")),
    };
    for (size_t i = 0; i < N_OF(order); i++) {
        told = strstr(told, order[i]);
        assert_non_null(told);
        told += strlen(order[i]);
    }
    assert_non_null(strstr(ANSWER(TEXT_TOOLS "}", calls), TEXT_CALL("completed", "a\\n\\\"b\\\"")));
    assert_non_null(
        strstr(ANSWER(TEXT_TOOLS "}", calls), "\"tools\":[{\"type\":\"custom\",\"name\":\"p\"}]"));
    assert_non_null(strstr(ANSWER(TEXT_TOOLS "}", cut), "\"type\":\"custom_tool_call\",\"status\":"
                                                        "\"incomplete\""));
}

/* The model knows a tool of a namespace by one name, the client by two. */
static void tells_a_calls_namespace(void **state)
{
    static const whim_job_event calls[] = {
        ADMITTED, TOKEN(0, 1, "<tool_call>{\"name\":\"a__b__f\",\"arguments\":{}}</tool_call>"),
        END_TOKEN(0), CHOICE_END(0, WHIM_END_EOS)};
#define FUNCTION(name) "{\"type\":\"function\",\"name\":\"" name "\"}"
#define SPACE(name, tool) \
    "{\"type\":\"namespace\",\"name\":\"" name "\",\"tools\":[" FUNCTION(tool) "]}"
#define WITH(tools) "{\"input\":\"hi\",\"tools\":[" tools "]"
    static const struct {
        const char *body, *want;
    } cases[] = {
        {WITH(SPACE("a__b", "f")) "}", "\"name\":\"f\",\"namespace\":\"a__b\",\"arg"},
        {WITH(SPACE("a__b", "f")) ",\"stream\":true}",
         "\"name\":\"f\",\"namespace\":\"a__b\",\"arg"},
        {WITH(SPACE("a", "g") "," SPACE("a", "b__f")) "}",
         "\"name\":\"b__f\",\"namespace\":\"a\",\"arg"},
        {WITH(SPACE("a__b", "f") "," FUNCTION("a__b__f")) "}", "\"name\":\"a__b__f\",\"arg"},
        {WITH(SPACE("a__b", "g") "," SPACE("a__b__f", "f")) "}", "\"name\":\"a__b__f\",\"arg"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = ANSWER(cases[i].body, calls);
        if (strstr(text, cases[i].want) == NULL) {
            fail_msg("%s: %s", cases[i].body, text);
        }
    }
    /* The answer repeats the namespace among the tools. */
    assert_non_null(
        strstr(ANSWER(WITH(SPACE("a", "g")) "}", calls), "\"tools\":[" SPACE("a", "g") "]"));
}

static void says_that_it_was_cut(void **state)
{
    static const whim_job_event text[] = {ADMITTED, TOKEN(0, 1, "hello"),
                                          CHOICE_END(0, WHIM_END_LENGTH)};
    static const whim_job_event cut_call[] = {
        ADMITTED, TOKEN(0, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":"),
        CHOICE_END(0, WHIM_END_CONTEXT)};
    static const whim_job_event circle[] = {ADMITTED, TOKEN(0, 1, "hello"),
                                            CHOICE_END(0, WHIM_END_REPETITION)};
#define CUT "{\"reason\":\"max_output_tokens\"}"
#define CUT_CALL CALL("incomplete", "f", "{\\\"a\\\":")
    (void)state;
    assert_string_equal(ANSWER(ASK "}", text),
                        RESPONSE("incomplete", "null", CUT,
                                 MESSAGE("msg_ID_0", "incomplete", TEXT("hello")),
                                 USAGE("1", "0", "6")));
    assert_string_equal(ANSWER(ASK "}", circle),
                        RESPONSE("incomplete", "null", CUT,
                                 MESSAGE("msg_ID_0", "incomplete", TEXT("hello")),
                                 USAGE("1", "0", "6")));
    assert_string_equal(ANSWER(ASK "}", cut_call),
                        RESPONSE("incomplete", "null", CUT, CUT_CALL, USAGE("1", "0", "6")));
    assert_non_null(
        strstr(ANSWER(ASK ",\"stream\":true}", cut_call),
               ITEM("done", "5", "0", CUT_CALL)
                   LIFE("incomplete", "6",
                        RESPONSE("incomplete", "null", CUT, CUT_CALL, USAGE("1", "0", "6")))));
}

static void is_never_empty(void **state)
{
    static const whim_job_event events[] = {ADMITTED, END_TOKEN(0), CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    const char *wire = ANSWER(ASK ",\"stream\":true}", events);
    assert_non_null(strstr(wire, ITEM("added", "2", "0", MESSAGE("msg_ID_0", "in_progress", ""))));
    assert_non_null(strstr(
        wire, LIFE("completed", "7",
                   RESPONSE("completed", "null", "null", MESSAGE("msg_ID_0", "completed", TEXT("")),
                            USAGE("1", "0", "6")))));
}

static void fails_in_the_stream(void **state)
{
    static const whim_job_event events[] = {
        ADMITTED, TOKEN(0, 1, "hello"), {.kind = WHIM_JOB_FAILED, .err = WHIM_ERR_DEVICE}};
    (void)state;
    const char *wire = ANSWER(ASK ",\"stream\":true}", events);
    assert_non_null(strstr(wire, "event: response.failed\ndata: {\"type\":\"response.failed\","
                                 "\"sequence_number\":5,"));
    assert_non_null(strstr(wire, "\"status\":\"failed\",\"model\":\"tiny\",\"error\":{\"code\":"
                                 "\"server_error\",\"message\":\""));
    assert_non_null(
        strstr(wire, "\"output\":[" MESSAGE("msg_ID_0", "incomplete", TEXT("hello")) "]"));
    assert_null(strstr(wire, "response.completed"));
}

/* Without tools and metadata, which may be long. */
static void keeps_a_silent_stream_alive(void **state)
{
    (void)state;
    whim_task *task = read_good(whim_responses_read, ASK ",\"stream\":true}");
    assert_string_equal(silence_of(&whim_responses_form, task),
                        BEGIN LIFE("in_progress", "2", BRIEF));
}

/* Codex compacts its history on this, and on nothing else. */
static void tells_an_overflow_as_a_stream(void **state)
{
    static const whim_job_event none[] = {ADMITTED};
    (void)state;
    fake_prompt_len = 200;
    const char *wire =
        call(whim_route_responses, "/v1/responses", ASK ",\"stream\":true}", none, 1);
    assert_int_equal(exchange.status, 200);
    assert_true(exchange.ended && !exchange.aborted);
    assert_memory_equal(wire, LIFE("created", "0", OPEN) "event: response.failed\n",
                        sizeof(LIFE("created", "0", OPEN)) + 22);
    assert_non_null(strstr(wire, "\"sequence_number\":1,\"response\":{\"id\":\"resp_ID\""));
    assert_non_null(strstr(wire, "\"error\":{\"code\":\"context_length_exceeded\",\"message\":"
                                 "\"This model's maximum context length is 100 tokens"));
    call(whim_route_responses, "/v1/responses", ASK "}", none, 1);
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(whim_str_text(&exchange.body), "\"code\":\"context_length_exceeded\""));
    fake_prompt_len = 5;
}

static void refuses_in_its_own_words(void **state)
{
    static const whim_job_event none[] = {ADMITTED};
    (void)state;
    assert_non_null(
        strstr(ANSWER("{\"input\":\"hi\",\"text\":{\"format\":{\"type\":\"json_schema\","
                      "\"name\":\"n\",\"schema\":{\"bad\":1}}}}",
                      none),
               "\"param\":\"text.format\""));
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(ANSWER("{}", none), "\"param\":\"input\""));
    submit_err = WHIM_ERR_FULL;
    assert_non_null(strstr(ANSWER(ASK ",\"stream\":true}", none), "rate_limit_exceeded"));
    assert_int_equal(exchange.status, 429);
    submit_err = WHIM_ERR_OK;
}

int main(int argc, char **argv)
{
    (void)argv;
    print_answers = argc > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_all_kinds_of_items),
        cmocka_unit_test(tells_all_kinds_of_items),
        cmocka_unit_test(tells_a_calls_namespace),
        cmocka_unit_test(tells_plain_texts),
        cmocka_unit_test(says_that_it_was_cut),
        cmocka_unit_test(is_never_empty),
        cmocka_unit_test(fails_in_the_stream),
        cmocka_unit_test(keeps_a_silent_stream_alive),
        cmocka_unit_test(tells_an_overflow_as_a_stream),
        cmocka_unit_test(refuses_in_its_own_words),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
