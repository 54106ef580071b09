/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked for, and what is refused by the name of its field. */
#include "unit/library/library_fixture.h"

#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"

static whimbrel_request_options ask_messages(void)
{
    static const whimbrel_message messages[] = {{"system", "be brief"}, {"user", "hello"}};
    return (whimbrel_request_options){.size = sizeof(whimbrel_request_options),
                                      .messages = messages,
                                      .n_message = 2,
                                      .max_tokens = 4};
}

static void refused(const whimbrel_request_options *ask, const char *field, const char *text)
{
    whimbrel_error error;
    whimbrel_request *request = (whimbrel_request *)&error;
    assert_int_equal(whimbrel_prepare(model, ask, &request, &error), WHIMBREL_INVALID);
    assert_null(request);
    assert_string_equal(error.field, field);
    if (strstr(error.text, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, error.text);
    }
}

/* The prompt as the characters of its tokens. */
static void has_prompt(const whimbrel_request_options *ask, const char *wanted)
{
    whimbrel_request *request;
    whimbrel_error error;
    int64_t n;
    if (whimbrel_prepare(model, ask, &request, &error) != WHIMBREL_OK) {
        fail_msg("%s: %s", error.field, error.text);
    }
    const int32_t *ids = whimbrel_prompt_ids(request, &n);
    assert_int_equal(n, strlen(wanted));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(letters[ids[i]], wanted[i]);
    }
    whimbrel_free(request);
}

static void prompts_of_every_kind(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2};
    whimbrel_request_options ask = ask_messages();
    has_prompt(&ask, "system:be brief\nuser:hello\n");
    ask.template_args = "{\"more\":\"now\"}";
    has_prompt(&ask, "system:be brief\nuser:hello\nnow");
    ask.tools_json = TOOLS;
    ask.template_args = NULL;
    has_prompt(&ask, "fsystem:be brief\nuser:hello\n");
    ask = ask_messages();
    ask.messages = NULL;
    ask.messages_json = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]";
    has_prompt(&ask, "user:hi\n");
    ask = ask_text("plain text", 1);
    has_prompt(&ask, "plain text");
    ask.text = NULL;
    ask.ids = ids;
    ask.n_id = 3;
    has_prompt(&ask, "abc");
}

static void prompts_that_are_none(void **state)
{
    (void)state;
    static const whimbrel_message nobody[] = {{"user", NULL}}, other[] = {{"", "x"}};
    whimbrel_request_options ask = {.size = sizeof ask};
    refused(&ask, "messages", "one of");
    ask = ask_messages();
    ask.text = "and text";
    refused(&ask, "messages", "one of");
    ask = ask_messages();
    ask.messages = nobody;
    ask.n_message = 1;
    refused(&ask, "messages[0]", "content");
    ask.messages = other;
    refused(&ask, "messages[0].role", "empty");
    ask.messages = NULL;
    ask.messages_json = "[{";
    refused(&ask, "messages_json", "JSON");
    ask = ask_text("\xff", 1);
    refused(&ask, "text", "UTF-8");
    ask = ask_text("a", 1);
    ask.size = 3;
    refused(&ask, "", "size");
}

static void forms_that_are_none(void **state)
{
    (void)state;
    whimbrel_request_options ask = ask_messages();
    ask.regex = "(a";
    refused(&ask, "regex", "missing");
    ask.schema_json = "{}";
    refused(&ask, "regex", "one of");
    ask = ask_messages();
    ask.schema_json = "[]";
    refused(&ask, "schema_json", "object");
    ask.schema_json = "{\"type\":\"whale\"}";
    refused(&ask, "schema_json", "type");
    ask = ask_messages();
    ask.tools_json = "[{\"name\":\"f\"}]";
    refused(&ask, "tools_json", "tool 1");
    ask.tools_json = "[]";
    refused(&ask, "tools_json", "at least one");
    ask = ask_text("a", 1);
    ask.tools_json = TOOLS;
    refused(&ask, "tools_json", "chat template");
    ask = ask_messages();
    ask.must_call = true;
    refused(&ask, "must_call", "no tools");
    ask.tools_json = TOOLS;
    ask.tool_name = "g";
    refused(&ask, "tool_name", "no tool of this name");
    ask = ask_messages();
    ask.template_args = "7";
    refused(&ask, "template_args", "JSON object");
}

static void numbers_out_of_range(void **state)
{
    (void)state;
    static const char *const empty[] = {"a", ""};
    whimbrel_sampling sampling = {.size = sizeof sampling, .top_p = 1, .repetition_penalty = 1};
    whimbrel_request_options ask = ask_text("a", 1);
    ask.sampling = &sampling;
    sampling.temperature = -1;
    refused(&ask, "sampling", "temperature");
    sampling.size = 0;
    refused(&ask, "sampling", "size");
    ask.sampling = NULL;
    ask.top_logprobs = 101;
    refused(&ask, "sampling", "101");
    ask = ask_text("a", 1);
    ask.thinking = (whimbrel_thinking)3;
    refused(&ask, "thinking", "not know");
    ask = ask_text("a", 1);
    ask.n_choice = 1025;
    refused(&ask, "n_choice", "1024");
    ask.n_choice = -1;
    refused(&ask, "n_choice", "0 or more");
    ask = ask_text("a", -2);
    refused(&ask, "max_tokens", "-1 or more");
    ask = ask_text("a", 1);
    ask.min_tokens = -1;
    refused(&ask, "min_tokens", "0 or more");
    ask.min_tokens = 0;
    ask.think_budget = -1;
    refused(&ask, "think_budget", "0 or more");
    ask = ask_text("a", 1);
    ask.n_stop_id = -1;
    refused(&ask, "n_stop_id", "0 or more");
    ask.n_stop_id = 1;
    refused(&ask, "stop_ids", "NULL");
    ask = ask_text("a", 1);
    ask.stops = empty;
    ask.n_stop = 2;
    refused(&ask, "stops", "empty");
    ask = ask_text("a", 1);
    ask.prompt_logprobs = true;
    ask.prompt_top_logprobs = 101;
    refused(&ask, "prompt_top_logprobs", "100");
}

/* A number of things, and no things. */
static void counts_without_a_list(void **state)
{
    (void)state;
    static const char *const holes[] = {"a", NULL};
    static const int32_t id = 1;
    whimbrel_sampling sampling = {.size = sizeof sampling};
    whimbrel_error error;
    whimbrel_request *request;
    whimbrel_get_sampling(model, &sampling);
    whimbrel_request_options ask = ask_text("a", 1);
    ask.n_stop = 1;
    refused(&ask, "stops", "NULL");
    ask.n_stop = -1;
    refused(&ask, "stops", "negative");
    ask.stops = holes;
    ask.n_stop = 2;
    refused(&ask, "stops[1]", "NULL");
    ask = ask_text("a", 1);
    ask.n_word = 1;
    refused(&ask, "words", "NULL");
    ask.words = holes;
    ask.n_word = 2;
    refused(&ask, "words[1]", "NULL");
    ask = ask_text("a", 1);
    ask.sampling = &sampling;
    sampling.n_bias = 1;
    refused(&ask, "sampling", "logit_bias");
    ask = (whimbrel_request_options){.size = sizeof ask, .ids = &id, .n_id = -1};
    refused(&ask, "n_id", "0 or more");
    ask = ask_messages();
    ask.n_message = -1;
    refused(&ask, "n_message", "0 or more");
    assert_int_equal(whimbrel_submit(model, NULL, &request, &error), WHIMBREL_INVALID);
    assert_non_null(strstr(error.text, "NULL"));
}

/* Told before there are weights. */
static void prompts_too_long(void **state)
{
    (void)state;
    static int32_t many[600];
    whimbrel_error error;
    whimbrel_request *request;
    whimbrel_request_options ask = {.size = sizeof ask, .ids = many, .n_id = 600};
    assert_int_equal(whimbrel_prepare(model, &ask, &request, &error), WHIMBREL_NO_FIT);
    assert_non_null(strstr(error.text, "600"));
    assert_string_equal(error.field, "ids");
    assert_null(request);
    many[1] = 83;
    ask.n_id = 2;
    refused(&ask, "ids", "id 83 (number 2");
    ask.n_id = 0;
    refused(&ask, "ids", "empty");
    ask = ask_text("", 1);
    refused(&ask, "text", "empty");
    /* The context is what the memory for keys and values holds, also when that is less. */
    whimbrel_model_options options = options_of(folder);
    whimbrel_model *m;
    options.kv_bytes = 16 << 10;
    assert_int_equal(whimbrel_open(&options, &m, NULL), WHIMBREL_OK);
    int64_t context = whimbrel_get_info(m)->context;
    assert_in_range(context, 1, 511);
    many[1] = 0;
    ask = (whimbrel_request_options){.size = sizeof ask, .ids = many, .n_id = context};
    assert_int_equal(whimbrel_prepare(m, &ask, &request, &error), WHIMBREL_OK);
    assert_int_equal(whimbrel_load(m, &error), WHIMBREL_OK);
    assert_int_equal(whimbrel_start(request, &error), WHIMBREL_OK);
    whimbrel_free(request);
    ask.n_id = context + 1;
    assert_int_equal(whimbrel_prepare(m, &ask, &request, &error), WHIMBREL_NO_FIT);
    whimbrel_close(m);
}

/* Without a tokenizer there are ids, and nothing that needs text. */
static void ids_only(void **state)
{
    (void)state;
    whimbrel_model *with_text = model;
    whimbrel_model_options options = options_of("tests/data/golden/llama-bf16");
    static const int32_t ids[] = {0, 1, 2};
    static const char *const stop = "a";
    options.ids_only = true;
    model = open_loaded(&options);
    whimbrel_request_options ask = ask_text("a", 1);
    refused(&ask, "text", "ids only");
    ask = (whimbrel_request_options){.size = sizeof ask, .ids = ids, .n_id = 3, .regex = "a"};
    refused(&ask, "regex", "tokenizer");
    ask.regex = NULL;
    ask.stops = &stop;
    ask.n_stop = 1;
    refused(&ask, "stops", "tokenizer");
    ask.n_stop = 0;
    ask.think_budget = 8;
    refused(&ask, "think_budget", "tokenizer");
    whimbrel_close(model);
    model = with_text;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_every_kind),
        cmocka_unit_test(prompts_that_are_none),
        cmocka_unit_test(forms_that_are_none),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(counts_without_a_list),
        cmocka_unit_test(prompts_too_long),
        cmocka_unit_test(ids_only),
    };
    return cmocka_run_group_tests_name("library request", tests, open_tiny, close_tiny);
}
