/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of requests: what is taken, what is refused and under which name, defaults, null, numbers
 * in both forms. */
#include "sample/repetition.h"
#include "server/openai/openai.h"
#include "server/responses/responses.h"
#include "unit/server/server_fixture.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"), CHOICE_END(0, WHIM_END_EOS)};

static const char *chat(const char *fields)
{
    char body[4096];
    snprintf(body, sizeof body, "{" HI "%s%s}", fields[0] == '\0' ? "" : ",", fields);
    return call(whim_route_chat, "/v1/chat/completions", body, events, N_OF(events));
}

static void wrong_fields_are_named(void **state)
{
    static const char *const cases[][2] = {
        {"\"temperature\":-1", "temperature"},
        {"\"temperature\":\"1\"", "temperature"},
        {"\"top_p\":1.1", "top_p"},
        {"\"top_k\":-2", "top_k"},
        {"\"top_k\":1.5", "top_k"},
        {"\"min_p\":2", "min_p"},
        {"\"repetition_penalty\":0", "repetition_penalty"},
        {"\"presence_penalty\":2.1", "presence_penalty"},
        {"\"frequency_penalty\":-3", "frequency_penalty"},
        {"\"seed\":\"1\"", "seed"},
        {"\"seed\":1.5", "seed"},
        {"\"n\":0", "n"},
        {"\"n\":129", "n"},
        {"\"n\":\"2\"", "n"},
        {"\"stop\":\"\"", "stop"},
        {"\"stop\":[1]", "stop"},
        {"\"stop\":{}", "stop"},
        {"\"logit_bias\":{\"277\":1}", "logit_bias"},
        {"\"logit_bias\":{\"a\":1}", "logit_bias"},
        {"\"logit_bias\":{\"\":1}", "logit_bias"},
        {"\"logit_bias\":{\"5\":1,\"05\":1}", "logit_bias"},
        {"\"logit_bias\":{\"00\":1}", "logit_bias"},
        {"\"logit_bias\":{\"99999999999999999999\":1}", "logit_bias"},
        {"\"logit_bias\":{\"1\":101}", "logit_bias"},
        {"\"logit_bias\":{\"1\":\"x\"}", "logit_bias"},
        {"\"logit_bias\":[]", "logit_bias"},
        {"\"logprobs\":1", "logprobs"},
        {"\"top_logprobs\":1", "top_logprobs"},
        {"\"logprobs\":true,\"top_logprobs\":21", "top_logprobs"},
        {"\"max_tokens\":0", "max_tokens"},
        {"\"max_tokens\":-2", "max_tokens"},
        {"\"max_completion_tokens\":0", "max_completion_tokens"},
        {"\"max_tokens\":\"5\"", "max_tokens"},
        {"\"repetition_detection\":1", "repetition_detection"},
        {"\"stream\":\"yes\"", "stream"},
        {"\"stream_options\":[]", "stream_options"},
        {"\"stream_options\":{\"include_usage\":1}", "stream_options.include_usage"},
        {"\"tools\":{}", "tools"},
        {"\"tools\":[{}]", "tools[0]"},
        {"\"tools\":[" TOOL("") "]", "tools[0]"},
        {"\"tools\":[" TOOL("a\\u0000b") "]", "tools[0].function.name"},
        {"\"tools\":[{\"type\":\"custom\",\"function\":{\"name\":\"f\"}}]", "tools[0]"},
        {"\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":3}}]", "tools[0]"},
        {"\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":1}}]", "tools[0].function.strict"},
        {"\"tools\":[" TOOL("f") ",{\"function\":{\"name\":\"f\",\"description\":{}}}]",
         "tools[1].function.description"},
        {"\"tools\":[{\"type\":1,\"function\":{\"name\":\"f\"}}]", "tools[0]"},
        {"\"tool_choice\":\"required\"", "tool_choice"},
        {"\"tool_choice\":\"some\"", "tool_choice"},
        {"\"tools\":[" TOOL("f") "],\"tool_choice\":" TOOL("g"), "tool_choice"},
        {"\"tools\":[" TOOL("f") "],\"tool_choice\":{\"type\":\"allowed_tools\"}",
         "tool_choice.allowed_tools.mode"},
        {"\"parallel_tool_calls\":0", "parallel_tool_calls"},
        {"\"response_format\":\"json\"", "response_format"},
        {"\"response_format\":{}", "response_format.type"},
        {"\"response_format\":{\"type\":\"xml\"}", "response_format.type"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema.schema"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":1,\"schema\":{}}"
         "}",
         "response_format.json_schema.name"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"strict\":\"yes\","
         "\"schema\":"
         "{}}}",
         "response_format.json_schema.strict"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"bad\":1}}}",
         "response_format"},
        {"\"reasoning_effort\":\"huge\"", "reasoning_effort"},
        {"\"chat_template_kwargs\":[]", "chat_template_kwargs"},
        {"\"chat_template_kwargs\":{\"a\":[18446744073709551616]}", "chat_template_kwargs"},
        {"\"functions\":[]", "functions"},
        {"\"function_call\":\"auto\"", "function_call"},
        {"\"audio\":{}", "audio"},
        {"\"web_search_options\":{}", "web_search_options"},
        {"\"modalities\":[\"text\",\"audio\"]", "modalities"},
        {"\"prediction\":\"abc\"", "prediction"},
        {"\"prediction\":{\"type\":\"text\",\"content\":\"abc\"}", "prediction.type"},
        {"\"prediction\":{\"content\":3}", "prediction.content"},
        {"\"prediction\":{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"}]}",
         "prediction.content[1].type"},
        {"\"ignore_eos\":1", "ignore_eos"},
        {"\"min_tokens\":-1", "min_tokens"},
        {"\"stop_token_ids\":[277]", "stop_token_ids"},
        {"\"stop_token_ids\":5", "stop_token_ids"},
        {"\"allowed_token_ids\":[3,277]", "allowed_token_ids"},
        {"\"allowed_token_ids\":[\"a\"]", "allowed_token_ids"},
        {"\"allowed_token_ids\":[]", "allowed_token_ids"},
        {"\"allowed_token_ids\":{}", "allowed_token_ids"},
        {"\"truncate_prompt_tokens\":0", "truncate_prompt_tokens"},
        {"\"truncate_prompt_tokens\":-2", "truncate_prompt_tokens"},
        {"\"truncate_prompt_tokens\":\"1\"", "truncate_prompt_tokens"},
        {"\"truncation_side\":\"top\"", "truncation_side"},
        {"\"truncation_side\":1", "truncation_side"},
        {"\"bad_words\":\"a\"", "bad_words"},
        {"\"bad_words\":[3]", "bad_words"},
        {"\"bad_words\":[\"\"]", "bad_words"},
        {"\"dry_multiplier\":-1", "dry_multiplier"},
        {"\"dry_multiplier\":1,\"dry_base\":\"x\"", "dry_base"},
        {"\"dry_allowed_length\":-1", "dry_allowed_length"},
        {"\"dry_penalty_last_n\":-2", "dry_penalty_last_n"},
        {"\"dry_sequence_breakers\":[\"\"]", "dry_sequence_breakers"},
        {"\"skip_special_tokens\":\"no\"", "skip_special_tokens"},
        {"\"regex\":[]", "regex"},
        {"\"choice\":[]", "choice"},
        {"\"choice\":\"a\"", "choice"},
        {"\"regex\":\"a\",\"choice\":[\"a\"]", "regex"},
        {"\"priority\":2.5", "priority"},
        {"\"model\":5", "model"},
        {"\"continue_final_message\":true,\"add_generation_prompt\":true",
         "continue_final_message"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[64];
        snprintf(want, sizeof want, "\"param\":\"%s\"", cases[i][1]);
        int64_t before = n_submitted;
        const char *got = chat(cases[i][0]);
        if (exchange.status != 400 || strstr(got, want) == NULL || n_submitted != before) {
            fail_msg("%s: %d %s", cases[i][0], exchange.status, got);
        }
    }
}

static void null_is_absent_and_unknown_is_ignored(void **state)
{
    (void)state;
    chat(
        "\"temperature\":null,\"top_p\":null,\"top_k\":null,\"n\":null,\"stop\":null,\"seed\":null,"
        "\"logit_bias\":null,\"logprobs\":null,\"top_logprobs\":null,\"max_tokens\":null,"
        "\"max_completion_tokens\":null,\"stream\":null,\"stream_options\":null,\"tools\":null,"
        "\"tool_choice\":null,\"parallel_tool_calls\":null,\"response_format\":null,"
        "\"reasoning_effort\":null,\"chat_template_kwargs\":null,\"functions\":null,"
        "\"function_call\":null,\"audio\":null,\"modalities\":null,\"regex\":null,"
        "\"choice\":null,\"stop_token_ids\":null,\"user\":3,\"metadata\":[],\"chat_id\":{},"
        "\"store\":true,\"service_tier\":\"auto\",\"verbosity\":\"low\",\"prediction\":{}");
    assert_int_equal(exchange.status, 200);
    assert_int_equal(last_cfg.max_tokens, 0);
    assert_int_equal(last_cfg.n_choice, 1);
}

static void values_reach_the_job(void **state)
{
    (void)state;
    api.sampling.temperature = 0.5f;
    chat("\"top_k\":-1,\"top_p\":0,\"min_p\":0.25,\"repetition_penalty\":1.5,\"seed\":-7,"
         "\"logit_bias\":{\"5\":-100,\"6\":1.5},\"max_tokens\":100.0,\"max_completion_tokens\":7,"
         "\"min_tokens\":2,\"ignore_eos\":true,\"priority\":-3,\"skip_special_tokens\":false,"
         "\"stop\":[\"x\",\"yy\"],\"stop_token_ids\":[4,5],\"allowed_token_ids\":[9,0,276]");
    assert_int_equal(exchange.status, 200);
    assert_true(last_cfg.params.temperature == 0.5f && last_cfg.params.top_p == 0);
    assert_true(last_cfg.params.min_p == 0.25f && last_cfg.params.repetition_penalty == 1.5f);
    assert_int_equal(last_cfg.params.top_k, 0);
    assert_true((int64_t)last_cfg.params.seed == -7);
    assert_int_equal(last_cfg.params.n_bias, 2);
    assert_int_equal(last_cfg.max_tokens, 7);
    assert_int_equal(last_cfg.min_tokens, 2);
    assert_true(last_cfg.ignore_eos && last_cfg.show_special);
    assert_int_equal(last_cfg.priority, -3);
    assert_true(last_cfg.client == 77 && !last_cfg.priority_among_all);
    assert_int_equal(last_cfg.n_stop, 2);
    assert_int_equal(last_cfg.n_stop_id, 2);
    assert_int_equal(last_cfg.n_allowed, 3);
    assert_int_equal(last_cfg.n_prediction, 0);
    int64_t whole = last_cfg.n_prompt;
    int32_t last = last_prompt[whole - 1], front = last_prompt[0];
    chat("\"truncate_prompt_tokens\":3");
    assert_int_equal(last_cfg.n_prompt, 3);
    assert_int_equal(last_prompt[2], last);
    int32_t first = last_prompt[0];
    chat("\"truncate_prompt_tokens\":3,\"truncation_side\":\"right\"");
    assert_true(last_cfg.n_prompt == 3 && last_prompt[0] == front && last_prompt[0] != first);
    chat("\"truncate_prompt_tokens\":3,\"truncation_side\":\"left\"");
    assert_true(last_cfg.n_prompt == 3 && last_prompt[0] == first);
    chat("\"truncate_prompt_tokens\":-1,\"max_tokens\":3");
    assert_int_equal(last_cfg.n_prompt, whole);
    chat("\"prediction\":{\"type\":\"content\",\"content\":\"abc\"}");
    assert_int_equal(last_cfg.n_prediction, 3);
    chat("\"prediction\":{\"type\":\"content\",\"content\":[{\"type\":\"text\",\"text\":\"ab\"},"
         "{\"type\":\"text\",\"text\":\"cde\"}]}");
    assert_int_equal(last_cfg.n_prediction, 5);
    chat("\"temperature\":1e30,\"max_tokens\":64000");
    assert_true(last_cfg.params.temperature == 100);
    fake_may_pass = true; /* nobody can ask for that: it is the key's */
    chat("\"priority\":-3");
    fake_may_pass = false;
    assert_true(last_cfg.priority == -3 && last_cfg.priority_among_all);
    chat("\"max_tokens\":64000");
    assert_int_equal(last_cfg.max_tokens, 100); /* the context's end comes first */
}

static void the_server_bounds_an_answer(void **state)
{
    (void)state;
    api.max_tokens = 20;
    chat("\"temperature\":1");
    assert_int_equal(last_cfg.max_tokens, 20);
    chat("\"max_tokens\":64000");
    assert_int_equal(last_cfg.max_tokens, 20);
    chat("\"max_tokens\":7");
    assert_int_equal(last_cfg.max_tokens, 7);
    api.max_tokens = 64000;
    chat("\"max_tokens\":63000");
    assert_int_equal(last_cfg.max_tokens, 100); /* the context's end comes first */
    api.max_tokens = 0;
}

static void circles_end_conversations(void **state)
{
    static const struct {
        const char *fields;
        bool server;
        int64_t want;
    } cases[] = {
        {"\"n\":1", true, WHIM_REPETITION_LIMIT},
        {"\"n\":1", false, 0},
        {"\"repetition_detection\":null", true, WHIM_REPETITION_LIMIT},
        {"\"repetition_detection\":false", true, 0},
        {"\"repetition_detection\":true", false, WHIM_REPETITION_LIMIT},
        {"\"ignore_eos\":true", true, 0},
        {"\"ignore_eos\":true,\"repetition_detection\":true", true, WHIM_REPETITION_LIMIT},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", true,
         WHIM_REPETITION_LIMIT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        api.repetition_detection = cases[i].server;
        const char *got = chat(cases[i].fields);
        if (exchange.status != 200 || last_cfg.max_repeated != cases[i].want) {
            fail_msg("%s: %d, %d %s", cases[i].fields, (int)last_cfg.max_repeated, exchange.status,
                     got);
        }
    }
    api.repetition_detection = false;
}

static void our_penalty_leaves_greedy_requests_alone(void **state)
{
    (void)state;
    whimbrel_sampling before = api.sampling;
    api.sampling.temperature = 0.8f;
    api.sampling.repetition_penalty = 1.1f;
    api.is_penalty_ours = true;
    chat("\"n\":1");
    assert_true(last_cfg.params.repetition_penalty == 1.1f);
    chat("\"temperature\":0.5");
    assert_true(last_cfg.params.repetition_penalty == 1.1f);
    chat("\"temperature\":0");
    assert_true(last_cfg.params.repetition_penalty == 1);
    chat("\"temperature\":0,\"repetition_penalty\":1.3");
    assert_true(last_cfg.params.repetition_penalty == 1.3f);
    api.is_penalty_ours = false; /* a model's own wish */
    chat("\"temperature\":0");
    assert_true(last_cfg.params.repetition_penalty == 1.1f);
    api.sampling = before;
}

/* {head, then n times "entry" with its number in it, then tail}. */
static const char *chat_with_list(const char *head, const char *entry, int n, const char *tail)
{
    whim_str body = {0};
    whim_str_printf(&body, "{" HI ",%s", head);
    for (int i = 0; i < n; i++) {
        whim_str_append(&body, i == 0 ? "" : ",");
        for (const char *c = entry; *c != '\0'; c++) {
            if (*c == '#') {
                whim_str_printf(&body, "%d", i);
            } else {
                whim_str_append_char(&body, *c);
            }
        }
    }
    whim_str_append(&body, tail);
    const char *got =
        call(whim_route_chat, "/v1/chat/completions", body.text, events, N_OF(events));
    whim_str_deinit(&body);
    return got;
}

static void long_lists_are_refused(void **state)
{
    const char *allowed =
        "\"tools\":[" TOOL("f") "],\"tool_choice\":{\"type\":\"allowed_tools\","
                                "\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[";
    (void)state;
    chat_with_list("\"logit_bias\":{", "\"#\":1", 277, "}}");
    assert_int_equal(exchange.status, 200);
    assert_int_equal(last_cfg.params.n_bias, 277);
    const char *got = chat_with_list("\"logit_bias\":{", "\"#\":1", 278, "}}");
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "has 278 entries"));
    chat_with_list(allowed, TOOL("f"), WHIM_MAX_TOOLS, "]}}}");
    assert_int_equal(exchange.status, 200);
    got = chat_with_list(allowed, TOOL("f"), WHIM_MAX_TOOLS + 1, "]}}}");
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "\"param\":\"tool_choice.allowed_tools.tools\""));
}

static void large_schemas_of_tools_are_refused(void **state)
{
    static const struct {
        const char *head, *tail;
        int status;
    } cases[] = {
        {"\"tools\":[" TOOL("a") ",{\"function\":{\"name\":\"f\",\"parameters\":{\"x-\":[",
         "]}}}]}", 200},
        {"\"tools\":[" TOOL("a") ",{\"function\":{\"name\":\"f\",\"parameters\":{\"x-\":[",
         "]},\"strict\":true}}]}", 400},
        {"\"tools\":[" TOOL("a") ",{\"function\":{\"name\":\"f\",\"parameters\":{\"x-\":[",
         "]}}}],\"tool_choice\":\"required\"}", 400},
    };
    (void)state;
    for (size_t i = 0; i < N_OF(cases); i++) {
        const char *got =
            chat_with_list(cases[i].head, "\"fifty bytes: more than twenty thousand of them\"",
                           1 + (1 << 20) / 48, cases[i].tail);
        assert_int_equal(exchange.status, cases[i].status);
        assert_true((strstr(got, "\"param\":\"tools[1].function.parameters\"") != NULL) ==
                    (cases[i].status == 400));
    }
}

static void a_priority_cannot_starve_the_others(void **state)
{
    static const struct {
        const char *fields;
        int want;
    } cases[] = {{"\"priority\":-2147483648", -4},
                 {"\"priority\":9000000000000", 4},
                 {"\"priority\":-5", -4},
                 {"\"priority\":4", 4}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        chat(cases[i].fields);
        assert_int_equal(exchange.status, 200);
        assert_int_equal(last_cfg.priority, cases[i].want);
    }
}

static void rules_reach_the_grammar(void **state)
{
    (void)state;
    chat("\"tools\":[" TOOL("f") "," TOOL("g") "],\"tool_choice\":" TOOL("g"));
    assert_int_equal(exchange.status, 200);
    assert_int_equal(last_rule.choice, WHIM_CHOICE_REQUIRED);
    chat("\"tools\":[" TOOL("f") "," TOOL(
        "g") "],\"tool_choice\":{\"type\":\"allowed_tools\","
             "\"allowed_tools\":{\"mode\":\"required\",\"tools\":[" TOOL("g") "]}}");
    assert_int_equal(exchange.status, 200);
    assert_int_equal(last_rule.choice, WHIM_CHOICE_REQUIRED);
    chat("\"tools\":[{\"type\":null,\"function\":{\"name\":\"f\",\"description\":null,\"strict\":"
         "null}}]");
    assert_int_equal(exchange.status, 200);
    fake_may_reason = true;
    chat("\"tools\":[],\"response_format\":{\"type\":\"json_object\"}");
    fake_may_reason = false;
    assert_int_equal(exchange.status, 200);
    assert_true(last_rule.json_object && last_rule.tools == NULL && last_rule.may_reason);
    chat("\"reasoning_effort\":\"none\",\"regex\":\"a+\"");
    assert_int_equal(last_request.thinking, 0);
    assert_false(last_rule.may_reason);
    chat("\"reasoning_effort\":\"high\"");
    assert_int_equal(last_request.thinking, 1);
    chat("");
    assert_int_equal(last_request.thinking, -1);
    assert_false(last_request.new_turn);
    chat("\"add_generation_prompt\":true");
    assert_true(last_request.new_turn);
}

static void another_model_is_refused_where_strict(void **state)
{
    (void)state;
    chat("\"model\":\"gpt\"");
    assert_int_equal(exchange.status, 200);
    api.strict_model = true;
    const char *got = chat("\"model\":\"gpt\"");
    assert_int_equal(exchange.status, 404);
    assert_non_null(strstr(got, "\"code\":\"model_not_found\""));
    chat("\"model\":\"tiny\"");
    assert_int_equal(exchange.status, 200);
    api.strict_model = false;
}

static void messages_are_needed(void **state)
{
    static const char *const bodies[] = {"{}", "{\"messages\":[]}", "{\"messages\":{}}",
                                         "{\"messages\":[{}]}"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *got = call(whim_route_chat, "/v1/chat/completions", bodies[i], NULL, 0);
        assert_int_equal(exchange.status, 400);
        assert_non_null(strstr(got, "\"param\":\"messages"));
    }
}

/* Which fields of a body are left when its requests are made. */
static void assert_left(whim_task_reader *read, const char *body, const char *want)
{
    whim_fault fault = {0};
    whim_task *task = whim_task_create(&api, whim_body_parse(body, (int64_t)strlen(body), &fault));
    assert_non_null(task);
    const whim_fields fields = {.obj = task->body, .fault = &fault};
    if (!read(&api, &fields, task)) {
        fail_msg("%s", fault.message);
    }
    whim_task_trim(task);
    whim_str left = {0};
    const char *key;
    json_t *value;
    json_object_foreach(task->body, key, value)
    {
        whim_str_printf(&left, "%s ", key);
    }
    assert_string_equal(whim_str_text(&left), want);
    assert_int_equal(json_array_size(task->messages), 0);
    whim_str_deinit(&left);
    whim_task_destroy(task);
}

static void bodies_are_dropped(void **state)
{
    (void)state;
    assert_left(whim_openai_read_chat,
                "{" HI ",\"nobody_reads\":[\"\",\"\"],\"metadata\":{\"a\":\"b\"},\"thinking\":1}",
                "");
    assert_left(whim_openai_read_completion, "{\"prompt\":\"a\",\"stop\":[\"c\"]}", "");
    assert_left(whim_openai_read_completion,
                "{\"prompt\":\"a\",\"echo\":true,\"suffix\":\"\",\"user\":\"c\"}",
                "prompt echo suffix ");
    assert_left(whim_responses_read, "{\"input\":\"a\",\"metadata\":{},\"tools\":[],\"x\":1}",
                "metadata tools ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(null_is_absent_and_unknown_is_ignored),
        cmocka_unit_test(values_reach_the_job),
        cmocka_unit_test(the_server_bounds_an_answer),
        cmocka_unit_test(circles_end_conversations),
        cmocka_unit_test(our_penalty_leaves_greedy_requests_alone),
        cmocka_unit_test(long_lists_are_refused),
        cmocka_unit_test(large_schemas_of_tools_are_refused),
        cmocka_unit_test(a_priority_cannot_starve_the_others),
        cmocka_unit_test(rules_reach_the_grammar),
        cmocka_unit_test(another_model_is_refused_where_strict),
        cmocka_unit_test(messages_are_needed),
        cmocka_unit_test(bodies_are_dropped),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
