/* SPDX-License-Identifier: Apache-2.0 */
/* /api/chat and /api/generate: what becomes of their fields, and their lines byte by byte but for
 * times. */
#include "unit/server/read_body.h"

#include "server/ollama/ollama.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static void messages(const char *body, const char *want)
{
    assert_messages(whim_ollama_read_chat, body, want);
}

static void takes_turns(void **state)
{
    (void)state;
    messages("{" HI "}", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    /* A role of the template's own, which only the template can refuse. */
    messages("{\"messages\":[{\"role\":\"poet\",\"content\":\"a\"},{\"role\":\"poet\","
             "\"content\":\"b\"}]}",
             "[{\"role\":\"poet\",\"content\":\"a\"},{\"role\":\"poet\",\"content\":\"b\"}]");
    /* Turns of a role stay apart; thoughts go with their turn. */
    messages("{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
             "\"content\":\"a\",\"images\":[]},{\"role\":\"user\",\"content\":\"b\"},"
             "{\"role\":\"assistant\",\"content\":\"c\",\"thinking\":\"t\"}]}",
             "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\",\"content\":\"c\","
             "\"reasoning_content\":\"t\"}]");
}

/* Calls and results have no ids here: they belong together by their order. */
static void joins_calls_and_results(void **state)
{
    (void)state;
#define CALL(name, args) "{\"function\":{\"name\":\"" name "\",\"arguments\":" args "}}"
#define ID_CALL(id, name, args)                                                    \
    "{\"id\":\"call_" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name \
    "\",\"arguments\":" args "}}"
#define RESULT(id, text) \
    "{\"role\":\"tool\",\"tool_call_id\":\"call_" id "\",\"content\":\"" text "\"}"
    messages(
        "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" CALL(
            "f", "{\"a\":1}") "," CALL("g",
                                       "null") "]},{\"role\":\"tool\",\"content\":\"5\",\"tool_"
                                               "name\":\"f\"},"
                                               "{\"role\":\"tool\",\"content\":\"6\"},"
                                               "{\"role\":\"assistant\",\"tool_calls\":[" CALL(
                                                   "h",
                                                   "{}") "]},"
                                                         "{\"role\":\"tool\",\"content\":\"7\"}]}",
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" ID_CALL("0", "f", "{\"a\":1}") "," ID_CALL(
            "1", "g",
            "{}") "]}," RESULT("0", "5") "," RESULT("1",
                                                    "6") ",{\"role\":\"assistant\","
                                                         "\"content\":\"\",\"tool_calls\":"
                                                         "[" ID_CALL("2", "h", "{}") "]}," RESULT(
                                                             "2", "7") "]");
}

/* Results that name their tool go to its call; one too many gets a number that no call has. */
static void results_name_their_tools(void **state)
{
    (void)state;
    messages(
        "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[" CALL("f", "{}") "," CALL(
            "g", "{}") "]},{\"role\":\"tool\",\"content\":\"G\",\"tool_name\":\"g\"},"
                       "{\"role\":\"tool\",\"content\":\"F\",\"tool_name\":\"f\"},"
                       "{\"role\":\"tool\",\"content\":\"more\"},"
                       "{\"role\":\"assistant\",\"tool_calls\":[" CALL("h", "{}") "]}]}",
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" ID_CALL("0", "f", "{}") "," ID_CALL(
            "1", "g",
            "{}") "]}," RESULT("1",
                               "G") "," RESULT("0",
                                               "F") "," RESULT("2",
                                                               "more") ",{\"role\":\"assistant\","
                                                                       "\"content\":\"\","
                                                                       "\"tool_calls\":[" ID_CALL(
                                                                           "3", "h", "{}") "]}]");
}

static void takes_options(void **state)
{
    (void)state;
    whim_task *task =
        read_good(whim_ollama_read_chat,
                  "{\"model\":\"any:latest\"," HI
                  ",\"think\":false,\"format\":\"json\",\"keep_alive\":\"5m\","
                  "\"options\":{\"temperature\":0.5,\"top_k\":7,\"repeat_penalty\":1.5,\"seed\":3,"
                  "\"num_predict\":9,\"stop\":[\"x\"],\"num_ctx\":4096,\"mirostat\":0}}");
    assert_true(task->stream && task->ask.json_object);
    assert_int_equal(task->ask.thinking, WHIMBREL_THINKING_OFF);
    assert_int_equal(task->sampling.top_k, 7);
    assert_int_equal(task->sampling.seed, 3);
    assert_true(task->sampling.temperature == 0.5f && task->sampling.repetition_penalty == 1.5f);
    assert_int_equal(task->ask.max_tokens, 9);
    assert_int_equal(task->ask.n_stop, 1);
    whim_task_destroy(task);
    task =
        read_good(whim_ollama_read_chat, "{" HI ",\"stream\":false,\"think\":\"high\",\"format\":"
                                         "{\"type\":\"object\"},\"options\":{\"num_predict\":-1}}");
    assert_true(!task->stream && task->schema != NULL && task->ask.max_tokens == 0);
    assert_int_equal(task->ask.thinking, WHIMBREL_THINKING_ON);
    whim_task_destroy(task);
}

/* What is wrong with a form is said of the field where it stands. */
static void forms_keep_their_place(void **state)
{
    (void)state;
    whim_task *task = read_good(whim_ollama_read_chat,
                                "{" HI ",\"options\":{\"grammar\":\"root ::= \\\"a\\\"\"}}");
    assert_string_equal(task->form_at, "options.grammar");
    whim_task_destroy(task);
    task = read_good(whim_ollama_read_chat,
                     "{" HI ",\"options\":{\"structured_outputs\":{\"json\":{}}}}");
    assert_string_equal(task->schema_at, "options.structured_outputs.json");
    whim_task_destroy(task);
}

static void takes_a_prompt(void **state)
{
    (void)state;
    assert_messages(whim_ollama_read_generate, "{\"prompt\":\"hi\",\"system\":\"s\"}",
                    "[{\"role\":\"system\",\"content\":\"s\"},"
                    "{\"role\":\"user\",\"content\":\"hi\"}]");
    whim_task *task = read_good(whim_ollama_read_generate, "{\"prompt\":\"hi\",\"raw\":true}");
    assert_true(task->messages == NULL && task->n_prompt == 1 && task->prompts[0].n > 0);
    whim_task_destroy(task);
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    static const struct {
        const char *body, *param, *why;
    } rows[] = {
        {"{" HI ",\"options\":{\"mirostat\":2}}", "options.mirostat", "is not supported"},
        {"{" HI ",\"options\":{\"top_p\":2}}", "options.top_p", "must be"},
        {"{" HI ",\"options\":{\"num_predict\":-3}}", "options.num_predict", "must be"},
        {"{" HI ",\"format\":\"xml\"}", "format", "must be"},
        {"{" HI ",\"think\":3}", "think", "must be"},
        {"{" HI ",\"template\":\"x\"}", "template", "is not supported"},
        {"{\"messages\":[{\"role\":\"user\",\"images\":[\"aGk=\"]}]}", "messages[0].images",
         "reads text only"},
        {"{\"messages\":[{\"content\":\"x\"}]}", "messages[0].role", "must be"},
        {"{\"messages\":[{\"role\":\"\",\"content\":\"x\"}]}", "messages[0].role", "must be"},
        {"{\"messages\":[{\"role\":7,\"content\":\"x\"}]}", "messages[0].role", "must be"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
         "\"arguments\":\"{}\"}}]}]}",
         "messages[0].tool_calls", "an object of arguments"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_refused(whim_ollama_read_chat, rows[i].body, rows[i].param, rows[i].why);
    }
    assert_refused(whim_ollama_read_generate, "{\"prompt\":\"a\",\"raw\":true,\"system\":\"s\"}",
                   "system", "write it into the prompt");
    assert_refused(whim_ollama_read_chat, "{" HI ",\"logprobs\":true}", "logprobs",
                   "/v1/chat/completions");
    assert_refused(whim_ollama_read_generate, "{\"prompt\":\"a\",\"context\":[1]}", "context",
                   "/api/chat");
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The answer with every time as 0. */
static const char *answer(whim_route_fn *route, const char *body, const whim_job_event *events,
                          int64_t n)
{
    static char text[8192];
    const char *at = call(route, route == whim_route_ollama_chat ? "/api/chat" : "/api/generate",
                          body, events, n);
    char *out = text;
    while (*at != '\0') {
        static const char ns[] = "_duration\":", when[] = "\"created_at\":0\""; /* 0: masked() */
        size_t n_mark = strncmp(at, ns, sizeof ns - 1) == 0       ? sizeof ns - 1
                        : strncmp(at, when, sizeof when - 1) == 0 ? sizeof when - 1
                                                                  : 0;
        if (n_mark == 0) {
            *out++ = *at++;
            continue;
        }
        out += sprintf(out, "%s0", n_mark == sizeof ns - 1 ? ns : "\"created_at\":\"");
        at += n_mark;
        at += strspn(at, "0123456789-:.TZ");
    }
    *out = '\0';
    return text;
}

static const whim_job_event everything[] = {
    ADMITTED,
    TOKEN(0, 1, "<think>let "),
    TOKEN(0, 1, "me</think>"),
    TOKEN(0, 1, "\"well\""),
    TOKEN(0, 1, "<tool_call>{\"name\":\"f\",\"arguments\":{"),
    TOKEN(0, 1, "\n\"a\":1\r\n}}</tool_call>"),
    END_TOKEN(0),
    CHOICE_END(0, WHIM_END_EOS)};

#define TOOLS ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define HEAD "{\"model\":\"tiny\",\"created_at\":\"0\","
#define SAID(text) "\"message\":{\"role\":\"assistant\",\"content\":" text
#define COUNTS(reason, made)                                                                 \
    "\"done\":true,\"done_reason\":\"" reason "\",\"total_duration\":0,\"load_duration\":0," \
    "\"prompt_eval_count\":5,\"prompt_eval_duration\":0,\"eval_count\":" made                \
    ",\"eval_duration\":0}"
#define F_CALLED ",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{ \"a\":1  }}}]"

static void chat_is_told_in_lines(void **state)
{
    (void)state;
    assert_string_equal(
        answer(whim_route_ollama_chat, "{" HI TOOLS "}", everything, N_OF(everything)),
        HEAD SAID("\"\",\"thinking\":\"let \"}") ",\"done\":false}\n" HEAD SAID(
            "\"\",\"thinking\":\"me\"}") ",\"done\":false}\n" HEAD
            SAID("\"\\\"well\\\"\"}") ",\"done\":false}\n" HEAD SAID(
                "\"\"" F_CALLED
                "}") ",\"done\":false}\n" HEAD SAID("\"\"}") "," COUNTS("stop", "6") "\n");
    assert_string_equal(
        answer(whim_route_ollama_chat, "{\"stream\":false," HI TOOLS "}", everything,
               N_OF(everything)),
        HEAD SAID("\"\\\"well\\\"\",\"thinking\":\"let me\"" F_CALLED "}") "," COUNTS("stop", "6"));
}

static void prompts_are_told_in_lines(void **state)
{
    (void)state;
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 1, "a"), TOKEN(0, 1, "b"),
                                            CHOICE_END(0, WHIM_END_LENGTH)};
    assert_string_equal(
        answer(whim_route_ollama_generate, "{\"prompt\":\"x\"}", events, N_OF(events)),
        HEAD "\"response\":\"a\",\"done\":false}\n" HEAD "\"response\":\"b\",\"done\":false}\n" HEAD
             "\"response\":\"\"," COUNTS("length", "2") "\n");
    assert_string_equal(answer(whim_route_ollama_generate, "{\"prompt\":\"x\",\"stream\":false}",
                               events, N_OF(events)),
                        HEAD "\"response\":\"ab\"," COUNTS("length", "2"));
}

/* Nothing to answer: the model is there. */
static void loading_is_told(void **state)
{
    (void)state;
    assert_string_equal(answer(whim_route_ollama_chat, "{\"model\":\"m\"}", NULL, 0),
                        HEAD SAID("\"\"}") ",\"done\":true,\"done_reason\":\"load\"}");
    assert_string_equal(answer(whim_route_ollama_generate, "{\"prompt\":\"\"}", NULL, 0),
                        HEAD "\"response\":\"\",\"done\":true,\"done_reason\":\"load\"}");
    static char large[(1 << 20) + 64]; /* the length of a body says nothing */
    memset(large, ' ', sizeof large - 1);
    memcpy(large + sizeof large - 17, "{\"messages\": []}", 16);
    assert_string_equal(answer(whim_route_ollama_chat, large, NULL, 0),
                        HEAD SAID("\"\"}") ",\"done\":true,\"done_reason\":\"load\"}");
    api.strict_model = true;
    answer(whim_route_ollama_chat, "{\"model\":\"other\"}", NULL, 0);
    assert_int_equal(exchange.status, 404);
    answer(whim_route_ollama_chat, "{\"model\":\"tiny:latest\"}", NULL, 0);
    assert_int_equal(exchange.status, 200);
    api.strict_model = false;
}

static void faults_have_their_form(void **state)
{
    (void)state;
    answer(whim_route_ollama_chat, "{" HI ",\"think\":3}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    assert_string_equal(
        whim_str_text(&exchange.body),
        "{\"error\":\"\\\"think\\\" must be true, false, or how much: low, medium or high\"}");
    assert_int_equal(whim_dialect_of("/api/chat"), WHIM_DIALECT_OLLAMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_turns),
        cmocka_unit_test(joins_calls_and_results),
        cmocka_unit_test(results_name_their_tools),
        cmocka_unit_test(takes_options),
        cmocka_unit_test(forms_keep_their_place),
        cmocka_unit_test(takes_a_prompt),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(chat_is_told_in_lines),
        cmocka_unit_test(prompts_are_told_in_lines),
        cmocka_unit_test(loading_is_told),
        cmocka_unit_test(faults_have_their_form),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
