/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a request: what becomes of them, what is refused and how it is named. Runs in the root
 * of the repository. */
#include "unit/chat/prompt_fixture.h"

static void messages_are_normalised(void **state)
{
    static const struct {
        const char *messages, *text;
    } rows[] = {
        {"[{\"role\": \"user\", \"content\": \"hi\", \"name\": \"Bo\"}]", "[user|hi|name=Bo]>"},
        {"[{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": \"system\", \"content\": "
         "\"b\"}, {\"role\": \"user\", \"content\": null}]",
         "[system|a\n\nb][user|]>"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
         "\"text\", \"text\": \"b\"}]}]",
         "[user|a\nb]>"},
        {"[{\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", \"refusal\": "
         "\"no\"}], \"reasoning\": \"w\"}, {\"role\": \"user\"}, {\"role\": \"user\", "
         "\"content\": \"x\"}]",
         "[assistant|no|why=w][user|][user|x]>"},
        {"[{\"role\": \"assistant\", \"content\": null, \"refusal\": \"no\", \"audio\": null, "
         "\"function_call\": {}}, {\"role\": \"assistant\", \"content\": \"a\", \"refusal\": "
         "\"no\"}, {\"role\": \"user\", \"content\": \"x\"}]",
         "[assistant|no][assistant|a][user|x]>"},
        {"[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"developer\", \"content\": "
         "\"b\"}]",
         "[user|a][system|b]>"},
        /* without a form for tools: calls and results are text */
        {"[{\"role\": \"assistant\", \"content\": \"so\", \"reasoning_content\": \"y\", "
         "\"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
         "\"arguments\": \"{\\\"a\\\":  1.50}\"}}, {\"function\": {\"name\": \"g\", "
         "\"arguments\": \"{\\\"cut\"}}, {\"function\": {\"name\": \"h\", \"arguments\": \"\"}}]}, "
         "{\"role\": \"tool\", \"content\": \"r1\", \"tool_call_id\": \"1\"}, {\"role\": \"tool\", "
         "\"content\": [{\"type\": \"image_url\"}]}, {\"role\": \"user\", \"content\": \"u\"}]",
         "[assistant|so\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
         "1.5}}\n</tool_call>\n"
         "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"cut}\n</tool_call>\n<tool_call>\n{"
         "\"name\": \"h\", \"arguments\": {}}\n</tool_call>|why=y][user|<tool_response>\nr1\n"
         "</tool_response>\n<tool_response>\n[image left out: this model reads text only]\n"
         "</tool_response>][user|u]>"},
        {"[{\"role\": \"tool\", \"content\": \"alone\"}]",
         "[user|<tool_response>\nalone\n</tool_response>]>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const wish w = {.tmpl = PLAIN, .messages = rows[i].messages, .thinking = -1};
        expect(*state, &w, rows[i].text);
    }
}

static void wrong_fields_are_named(void **state)
{
    static const struct {
        const char *messages, *param;
    } rows[] = {
        {"[]", "messages"},
        {"{}", "messages"},
        {"[5]", "messages[0]"},
        {"[{\"content\": \"x\"}]", "messages[0].role"},
        {"[{\"role\": \"user\"}, {\"role\": \"\"}]", "messages[1].role"},
        {"[{\"role\": 5}]", "messages[0].role"},
        {"[{\"role\": \"user\", \"content\": 5}]", "messages[0].content"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"\"}, {\"type\": "
         "\"image_url\"}]}]",
         "messages[0].content[1]"},
        {"[{\"role\": \"user\", \"content\": [\"x\"]}]", "messages[0].content[0]"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", "messages[0].content[0]"},
        {"[{\"role\": \"user\", \"name\": []}]", "messages[0].name"},
        {"[{\"role\": \"assistant\", \"tool_calls\": {}}]", "messages[0].tool_calls"},
        {"[{\"role\": \"assistant\", \"function_call\": {\"name\": \"f\"}}]",
         "messages[0].function_call"},
        {"[{\"role\": \"assistant\", \"audio\": {\"id\": \"a\"}}]", "messages[0].audio"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{}]}]",
         "messages[0].tool_calls[0].function.name"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
         "\"arguments\": 5}}]}]",
         "messages[0].tool_calls[0].function.arguments"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
         "\"arguments\": {\"a\": [1.7976931348623155e308]}}}]}]", /* as NaN is held */
         "messages[0].tool_calls[0].function.arguments"},
    };
    for (size_t i = 0; i <= sizeof rows / sizeof rows[0]; i++) {
        bool none = i == sizeof rows / sizeof rows[0];
        const wish w = {.tmpl = none ? NULL : PLAIN,
                        .messages = none ? "[{\"role\": \"user\"}]" : rows[i].messages};
        whim_prompt out;
        char param[128];
        whim_diag diag = {{0}};
        assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_INVALID);
        assert_string_equal(param, none ? "messages" : rows[i].param);
        assert_true(diag.text[0] != '\0');
        assert_true(!none || strstr(diag.text, "/v1/completions") != NULL);
        assert_null(out.ids.ids);
    }
}

/* Arguments are JSON inside a text of the body: what they hold is counted too, in all calls
 * together. */
static void arguments_of_many_values_are_refused(void **state)
{
    enum { GROUPS = WHIM_JSON_VALUES / WHIM_JSON_GROUP / 2 };
    static const char head[] = "[" USER ", ", tail[] = "]}\"}}]}";
    char *messages = malloc(2 * (4 * GROUPS + 400));
    assert_non_null(messages);
    char *at = stpcpy(messages, head);
    for (int call = 0; call < 2; call++) {
        at = stpcpy(at, call == 0 ? "" : ", ");
        at = stpcpy(at, "{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": "
                        "\"f\", \"arguments\": \"{\\\"a\\\": [{}");
        for (int i = 0; i < GROUPS; i++) {
            at = stpcpy(at, ",{}");
        }
        at = stpcpy(at, tail);
    }
    strcpy(at, "]");
    const wish w = {.tmpl = PLAIN, .messages = messages};
    whim_prompt out;
    char param[128];
    whim_diag diag = {{0}};
    assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_INVALID);
    assert_string_equal(param, "messages[2].tool_calls[0].function.arguments");
    assert_non_null(strstr(diag.text, "more than 2097152 values"));
    whim_prompt_deinit(&out);
    free(messages);
}

/* As the servers that read arguments by Python's json: what it takes is an object for the
 * template. */
static void arguments_are_read_as_python_does(void **state)
{
    static const struct {
        const char *messages, *text;
    } rows[] = {
        {"[" CALL("{\\\"a\\\": 1, \\\"a\\\": 18446744073709551616}") "]",
         "\"arguments\": {\"a\": 1, \"a\": 18446744073709551616}}"}, /* as it was written */
        {"[" CALL("{\\\"id\\\": 123456789012345678901234, \\\"x\\\": NaN}") "]",
         "\"arguments\": {\"id\": 123456789012345678901234, \"x\": NaN}}"},
        {"[" CALL("{\\\"a\\\": 1, \\\"a\\\": 6.5e23}") "]", "\"arguments\": {\"a\": 6.5e+23}}"},
        {"[" CALL("{\\\"a\\\": 0.2}") "]", "{\"a\": 0.2}"},
        {"[" CALL("{\\\"a\\\": \\\"\\\\ud83e\\\"}") "]", "{\"a\": \"\xEF\xBF\xBD\"}"},
        {"[" CALL("{\\\"a\\\": 1e}") "]", "\"arguments\": {\"a\": 1e}}"}, /* no JSON: a text */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const wish w = {.tmpl = "qwen3", .messages = rows[i].messages, .new_turn = true};
        whim_prompt out;
        char param[128];
        whim_diag diag = {{0}};
        assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_OK);
        if (strstr(whim_str_text(&out.rendered.text), rows[i].text) == NULL) {
            fail_msg("%s gave\n%s", rows[i].messages, whim_str_text(&out.rendered.text));
        }
        whim_prompt_deinit(&out);
    }
}

#define PARTS(a, b) \
    "[{\"type\": \"text\", \"text\": \"" a "\"}, {\"type\": \"text\", \"text\": \"" b "\"}]"
#define IF_TEXT                                                                                  \
    "{% for m in messages %}[{{ m.role }}|{% if m.content is string %}{{ m.content }}{% elif "   \
    "m.role == 'user' or m.role == 'assistant' %}{% for p in m.content %}{{ p.text }}{{ ';' if " \
    "not loop.last }}{% endfor %}{% else %}{{ raise_exception('text') }}{% endif %}]{% endfor "  \
    "%}"

/* Parts are the template's to join where it walks over them, and ours where it wants a text. */
static void parts_go_where_they_are_taken(void **state)
{
    static const struct {
        const char *tmpl, *messages, *text;
    } rows[] = {
        {IF_TEXT,
         "[{\"role\": \"system\", \"content\": " PARTS(
             "a", "b") "}, {\"role\": \"user\", "
                       "\"content\": " PARTS(
                           "c", "") "}, {\"role\": \"assistant\", \"content\": \"d\"}, "
                                    "{\"role\": \"user\", \"content\": " PARTS("",
                                                                               "<|im_end|>") "}]",
         "[system|a\nb][user|c;][assistant|d][user|;<|im_end|>]"},
        /* a turn that goes on */
        {IF_TEXT, "[" USER ", {\"role\": \"assistant\", \"content\": " PARTS("c", "d") "}]",
         "[user|q][assistant|c;d"},
        /* taken by themselves, but not behind another turn */
        {"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% elif loop.index > 2 "
         "%}{{ raise_exception('text') }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor "
         "%}{% endif %}/{% endfor %}",
         "[" USER ", " USER ", {\"role\": \"user\", \"content\": " PARTS("c", "d") "}]",
         "q/q/c\nd/"},
        {"qwen35", "[{\"role\": \"user\", \"content\": " PARTS("c ", "d") "}]",
         "<|im_start|>user\nc d<|im_end|>\n<|im_start|>assistant\n<think>\n"},
        {"qwen3", "[{\"role\": \"user\", \"content\": " PARTS("c", "d") "}]",
         "<|im_start|>user\nc\nd<|im_end|>\n<|im_start|>assistant\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(*state, &(wish){.tmpl = rows[i].tmpl, .messages = rows[i].messages, .thinking = -1},
               rows[i].text);
    }
}

/* A role that is not the API's reaches the template, which takes it, refuses it or, worst of all,
 * passes over it. */
static void other_roles_are_the_templates(void **state)
{
    static const char judged[] =
        "[" USER ", {\"role\": \"critic\", \"content\": \" <|im_end|>so \", \"name\": \"Bo\"}]";
    static const struct {
        const char *tmpl, *said;
    } refused[] = {
        {"{% for m in messages %}{% if m.role not in ['user', 'system'] %}"
         "{{ raise_exception('no ' ~ m.role ~ ' here') }}{% endif %}{{ m.content }}{% endfor %}",
         "no critic here"},
        {"{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
         "prints no message of the role \"critic\""},
    };
    expect(*state, &(wish){.tmpl = PLAIN, .messages = judged, .thinking = -1},
           "[user|q][critic| <|im_end|>so |name=Bo]>");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        whim_prompt out;
        char param[128];
        whim_diag diag = {{0}};
        const wish w = {.tmpl = refused[i].tmpl, .messages = judged};
        assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, refused[i].said));
        assert_string_equal(param, "messages");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_normalised),
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(arguments_of_many_values_are_refused),
        cmocka_unit_test(arguments_are_read_as_python_does),
        cmocka_unit_test(parts_go_where_they_are_taken),
        cmocka_unit_test(other_roles_are_the_templates),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
