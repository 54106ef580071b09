/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of other servers: served under their own names, refused by name, or without effect; none
 * is dropped without a word. */
#include "unit/server/read_body.h"

#include "server/anthropic/anthropic.h"
#include "server/openai/openai.h"
#include "server/responses/responses.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define SCHEMA "{\"type\":\"integer\"}"
#define QUOTED "\"{\\\"type\\\":\\\"integer\\\"}\""

/* A chat request with these fields; the caller destroys the task. */
static whim_task *chat(const char *fields)
{
    char body[1024];
    snprintf(body, sizeof body, "{" HI ",%s}", fields);
    return read_good(whim_openai_read_chat, body);
}

static void chat_refuses(const char *fields, const char *param, const char *why)
{
    char body[1024];
    snprintf(body, sizeof body, "{" HI ",%s}", fields);
    assert_refused(whim_openai_read_chat, body, param, why);
}

static void schemas_are_held(void **state)
{
    static const char *const cases[][2] = {
        {"\"json_schema\":" SCHEMA, "json_schema"},
        {"\"guided_json\":" SCHEMA, "guided_json"},
        {"\"guided_json\":" QUOTED, "guided_json"},
        {"\"structured_outputs\":{\"json\":" SCHEMA "}", "structured_outputs.json"},
        {"\"structured_outputs\":{\"json\":" QUOTED ",\"regex\":null}", "structured_outputs.json"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":" SCHEMA "}",
         "response_format.schema"},
        {"\"response_format\":{\"type\":\"json_schema\",\"schema\":" SCHEMA "}",
         "response_format.schema"},
        {"\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"schema\":" SCHEMA "}}",
         "response_format.json_schema.schema"},
        {"\"response_format\":{\"type\":\"json\",\"schema\":" SCHEMA "}", "response_format.schema"},
        {"\"response_format\":{\"type\":\"json_object\",\"value\":" SCHEMA "}",
         "response_format.value"},
        {"\"response_format\":{\"type\":\"json\",\"value\":" SCHEMA "}", "response_format.value"},
        {"\"response_format\":{\"type\":\"json_schema\",\"value\":{\"schema\":" SCHEMA "}}",
         "response_format.value.schema"},
    };
    (void)state;
    for (size_t i = 0; i < N_OF(cases); i++) {
        whim_task *task = chat(cases[i][0]);
        assert_json(task->schema, SCHEMA);
        assert_string_equal(task->schema_at, cases[i][1]);
        assert_false(task->ask.json_object);
        whim_task_destroy(task);
    }
}

static void other_forms_are_held(void **state)
{
    (void)state;
    whim_task *task = chat("\"guided_regex\":\"[ab]\"");
    assert_string_equal(task->ask.regex, "[ab]");
    whim_task_destroy(task);
    task = chat("\"structured_outputs\":{\"regex\":\"c+\"}");
    assert_string_equal(task->ask.regex, "c+");
    whim_task_destroy(task);
    task = chat("\"guided_choice\":[\"yes\",\"no\"]");
    assert_int_equal(task->ask.n_word, 2);
    assert_string_equal(task->ask.words[1], "no");
    whim_task_destroy(task);
    task = chat("\"structured_outputs\":{\"choice\":[\"yes\"],\"json_object\":false}");
    assert_int_equal(task->ask.n_word, 1);
    whim_task_destroy(task);
    task = chat("\"grammar\":\"root ::= [ab]\"");
    assert_string_equal(task->ask.grammar, "root ::= [ab]");
    whim_task_destroy(task);
    task = chat("\"structured_outputs\":{\"grammar\":\"x\"}");
    assert_string_equal(task->ask.grammar, "x");
    assert_string_equal(task->form_at, "structured_outputs.grammar");
    whim_task_destroy(task);
    task = chat("\"structured_outputs\":{\"json_object\":true}");
    assert_true(task->ask.json_object);
    whim_task_destroy(task);
}

static void forms_of_the_wrong_kind_are_named(void **state)
{
    (void)state;
    chat_refuses("\"guided_json\":\"{\"", "guided_json", "must be a JSON Schema: it is not valid");
    chat_refuses("\"guided_json\":\"[]\"", "guided_json", "not an array");
    chat_refuses("\"json_schema\":5", "json_schema", "must be a JSON Schema, an object");
    chat_refuses("\"guided_regex\":{}", "guided_regex", "must be a string");
    chat_refuses("\"ebnf\":[]", "ebnf", "must be a string");
    chat_refuses("\"guided_choice\":[]", "guided_choice", "must not be empty");
    chat_refuses("\"structured_outputs\":[]", "structured_outputs", "must be an object");
    chat_refuses("\"structured_outputs\":{\"choice\":\"a\"}", "structured_outputs.choice",
                 "must be a list of strings");
    chat_refuses("\"structured_outputs\":{\"json_object\":1}", "structured_outputs.json_object",
                 "must be true or false");
    chat_refuses("\"response_format\":{\"type\":\"json_object\",\"json_schema\":{\"name\":\"n\"}}",
                 "response_format.json_schema.schema", "is missing");
    chat_refuses("\"response_format\":{\"type\":\"json\"}", "response_format.value", "is missing");
    chat_refuses("\"response_format\":{\"type\":\"regex\"}", "response_format.value", "is missing");
    chat_refuses("\"response_format\":{\"type\":\"json_object\",\"value\":\"{}\"}",
                 "response_format.value", "must be an object");
    chat_refuses("\"response_format\":{\"type\":\"json_object\",\"schema\":{},\"value\":{}}",
                 "response_format.value", "beside \"response_format.schema\"");
    chat_refuses("\"response_format\":{\"type\":\"json_object\",\"schema\":3}",
                 "response_format.schema", "must be an object");
}

static void two_forms_are_refused(void **state)
{
    (void)state;
    chat_refuses("\"regex\":\"a\",\"guided_regex\":\"a\"", "guided_regex", "beside \"regex\"");
    chat_refuses("\"guided_json\":{},\"json_schema\":{}", "guided_json", "\"json_schema\"");
    chat_refuses("\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}",
                 "structured_outputs.choice", "beside \"structured_outputs.regex\"");
    chat_refuses("\"guided_json\":{},\"response_format\":{\"type\":\"json_object\"}",
                 "response_format", "beside \"guided_json\"");
    whim_task_destroy(chat("\"guided_json\":{},\"response_format\":{\"type\":\"text\"}"));
}

static void what_is_not_done_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"\"structured_outputs\":{\"structural_tag\":\"x\"}", "structured_outputs.structural_tag"},
        {"\"guided_whitespace_pattern\":\" *\"", "guided_whitespace_pattern"},
        {"\"logits_processors\":[\"a\"]", "logits_processors"},
        {"\"prompt_logprobs\":0", "prompt_logprobs"},
        {"\"use_beam_search\":true", "use_beam_search"},
        {"\"mirostat\":2", "mirostat"},
        {"\"mirostat_mode\":1", "mirostat_mode"},
        {"\"typical_p\":0.9", "typical_p"},
        {"\"top_n_sigma\":1", "top_n_sigma"},
        {"\"include_stop_str_in_output\":true", "include_stop_str_in_output"},
    };
    (void)state;
    for (size_t i = 0; i < N_OF(cases); i++) {
        chat_refuses(cases[i][0], cases[i][1], "is not supported");
    }
}

static void what_changes_nothing_is_taken(void **state)
{
    (void)state;
    whim_task *task =
        chat("\"structured_outputs\":null,\"guided_json\":null,\"logits_processors\":[],"
             "\"prompt_logprobs\":null,\"use_beam_search\":false,\"dry_multiplier\":0,"
             "\"dry_base\":1.75,\"xtc_probability\":0.0,\"xtc_threshold\":0.1,\"mirostat\":0,"
             "\"mirostat_tau\":5,\"typical_p\":1,\"tfs_z\":1.0,\"top_n_sigma\":-1,"
             "\"structured_outputs\":{},\"guided_decoding_backend\":\"auto\"");
    assert_null(task->form_at);
    whim_task_destroy(task);
}

static void every_dialect_has_them(void **state)
{
    (void)state;
    whim_task *task = read_good(whim_openai_read_completion,
                                "{\"prompt\":\"a\",\"max_tokens\":-1,\"guided_regex\":\"a\"}");
    assert_string_equal(task->ask.regex, "a");
    assert_int_equal(task->ask.max_tokens, 0); /* no limit */
    whim_task_destroy(task);
    task = read_good(whim_responses_read, "{\"input\":\"hi\",\"guided_choice\":[\"a\"]}");
    assert_int_equal(task->ask.n_word, 1);
    whim_task_destroy(task);
    assert_refused(whim_responses_read,
                   "{\"input\":\"hi\",\"guided_choice\":[\"a\"],\"text\":{\"format\":{\"type\":"
                   "\"json_object\"}}}",
                   "text.format", "beside \"guided_choice\"");
    assert_refused(whim_responses_read, "{\"input\":\"hi\",\"mirostat\":1}", "mirostat",
                   "is not supported");
    assert_refused(whim_anthropic_read_whole, "{" HI ",\"max_tokens\":5,\"mirostat\":1}",
                   "mirostat", "is not supported");
    task = read_good(whim_anthropic_read_whole, "{" HI ",\"max_tokens\":5,\"guided_json\":{}}");
    assert_json(task->schema, "{}");
    whim_task_destroy(task);
    assert_refused(whim_anthropic_read_whole,
                   "{" HI ",\"max_tokens\":5,\"guided_json\":{},\"output_format\":{\"type\":"
                   "\"json_schema\",\"schema\":{}}}",
                   "output_format", "beside \"guided_json\"");
    task = chat("\"max_tokens\":-1");
    assert_int_equal(task->ask.max_tokens, 0);
    whim_task_destroy(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_are_held),
        cmocka_unit_test(other_forms_are_held),
        cmocka_unit_test(forms_of_the_wrong_kind_are_named),
        cmocka_unit_test(two_forms_are_refused),
        cmocka_unit_test(what_is_not_done_is_refused),
        cmocka_unit_test(what_changes_nothing_is_taken),
        cmocka_unit_test(every_dialect_has_them),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
