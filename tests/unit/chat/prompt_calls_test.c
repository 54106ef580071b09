/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as templates take them, and what templates refuse or pass over. Runs in the root of the
 * repository. */
#include "unit/chat/prompt_fixture.h"

#include "base/heap/budget.h"
#include "base/json.h"

/* A template that prints turns with one call only gets one for each. */
static void turns_of_several_calls_are_split(void **state)
{
    static const char one[] =
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}"
        "{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
        "[{{ m.role }}|{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ '{\"name\": \"' + c.function.name + '\", \"parameters\": ' }}"
        "{{ c.function.arguments | tojson }}{{ '}' }}{% endfor %}]{% endfor %}";
    const wish w = {.tmpl = one, .messages = CALL_TWICE, .thinking = -1};
    expect(*state, &w,
           "[user|u][assistant|so{\"name\": \"f\", \"parameters\": {}}][tool|r1]"
           "[assistant|{\"name\": \"g\", \"parameters\": {\"a\": 1}}][tool|r2][user|v]");
    const wish lost = {.tmpl = one,
                       .messages = "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
                                   "{\"name\": \"f\"}}, {\"function\": {\"name\": \"g\"}}]}, "
                                   "{\"role\": \"tool\", \"content\": \"1\"}, {\"role\": "
                                   "\"tool\", \"content\": \"2\"}, {\"role\": \"tool\", "
                                   "\"content\": \"3\"}]",
                       .thinking = -1};
    expect(*state, &lost,
           "[assistant|{\"name\": \"f\", \"parameters\": {}}][tool|1]"
           "[assistant|{\"name\": \"g\", \"parameters\": {}}][tool|2][tool|3]");
}

/* A template that refuses the ids that clients send gets others, the same for a call and its
 * result. */
static void ids_are_as_short_as_the_template_wants(void **state)
{
    static const char nine[] =
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}"
        "{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}"
        "{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}"
        "{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": {}, \"id\": ' + c.id + '}' }}"
        "{% endfor %}]{% endif %}{% if m.role == 'tool' %}({{ m.tool_call_id }}){% endif %}"
        "{{ m.content }}{% endfor %}";
    const wish w = {.tmpl = nine, .messages = CALL_TWICE, .thinking = -1};
    whim_prompt out;
    char param[128], first[10], second[10], third[10], fourth[10];
    whim_diag diag = {{0}};
    assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_OK);
    assert_int_equal(
        sscanf(whim_str_text(&out.rendered.text),
               "u[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}, \"id\": %9[0-9a-z]}"
               "{\"name\": \"g\", \"arguments\": {}, \"id\": %9[0-9a-z]}]so(%9[0-9a-z])"
               "r2(%9[0-9a-z])r1v",
               first, second, third, fourth),
        4);
    assert_string_equal(first, fourth);
    assert_string_equal(second, third);
    assert_string_not_equal(first, second);
    whim_prompt_deinit(&out);
}

/* What templates refuse or pass over is written so that they take it. */
static void refusals_are_softened(void **state)
{
    static const wish rows[] = {
        {.tmpl = "qwen35", .messages = "[" USER ", {\"role\": \"system\", \"content\": \"s\"}]"},
        {.tmpl = "minimax", .messages = "[" USER ", {\"role\": \"system\", \"content\": \" s \"}]"},
        {.tmpl = "minimax", .messages = "[" USER ", {\"role\": \"tool\", \"content\": \"r\"}]"},
        {.tmpl = "gemma", .messages = "[" USER ", " USER "]"},
        {.tmpl = "qwen35", .messages = "[" USER ", " CALL("{\\\"a") "]"},
        {.tmpl = "minimax", .messages = "[" USER ", " CALL("[1]") "]"},
        {.tmpl = "qwen3", .messages = "[" USER ", " CALL("{\\\"a") "]"},
        {.tmpl = "qwen35", .messages = "[" USER ", " TWO_CALLS "]"},
        {.tmpl = "minimax", .messages = "[" USER ", " TWO_CALLS "]"},
        {.tmpl = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
                 "{{ messages | map(attribute='content') | join('/') }}",
         .messages = "[{\"role\": \"system\", \"content\": \"s\"}, " USER "]"},
    };
    static const char *const texts[] = {
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>user\ns<|im_end|>\n<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n",
        "]~!b[]~b]system\nYou are a helpful assistant.[e~[\n]~b]user\nq[e~[\n]~b]user\n s "
        "[e~[\n]~b]"
        "ai\n<think>\n",
        "]~!b[]~b]system\nYou are a helpful "
        "assistant.[e~[\n]~b]user\nq[e~[\n]~b]user\n<tool_response>"
        "\nr\n</tool_response>[e~[\n]~b]ai\n<think>\n",
        "<start_of_turn>user\nq\n\nq<end_of_turn><start_of_turn>model\n",
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n"
        "<function=f>\n{\"a\n</function>\n</"
        "tool_call><|im_end|>\n<|im_start|>assistant\n<think>\n\n"
        "</think>\n\n",
        "]~!b[]~b]system\nYou are a helpful assistant.[e~[\n]~b]user\nq[e~[\n]~b]ai\n<minimax:tool_"
        "call>\n<invoke name=\"f\">\n[1]\n</invoke>\n</minimax:tool_call>[e~[\n]~b]ai\n<think>\n",
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n"
        "{\"name\": \"f\", \"arguments\": {\"a}\n</tool_call><|im_end|>\n<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n",
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n"
        "<function=f>\n[1]\n</function>\n</"
        "tool_call>\n<tool_call>\n<function=g>\n<parameter=a>\nx\n"
        "</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "]~!b[]~b]system\nYou are a helpful assistant.[e~[\n]~b]user\nq[e~[\n]~b]ai\n<minimax:tool_"
        "call>\n<invoke name=\"f\">\n[1]\n</invoke>\n<invoke name=\"g\">\n<parameter name=\"a\">x"
        "</parameter>\n<parameter "
        "name=\"b\">2</parameter>\n</invoke>\n</minimax:tool_call>[e~[\n]~b]"
        "ai\n<think>\n",
        "s\n\nq",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(*state, &rows[i], texts[i]);
    }
    /* What nothing helps against is said in the template's words. */
    const wish w = {.tmpl = "{{ raise_exception('never') }}", .messages = "[" USER ", " USER "]"};
    whim_prompt out;
    char param[128];
    whim_diag diag = {{0}};
    assert_int_equal(make(*state, &w, &out, param, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "never"));
    assert_string_equal(param, "messages");
    /* Without the system turn this one would end: beyond a limit nothing is tried. */
    const wish endless = {.tmpl =
                              "{% if messages[0].role == 'system' %}{% for i in range(100000) %}"
                              "{% for k in range(100000) %}{% endfor %}{% endfor %}{% endif %}",
                          .messages = "[{\"role\": \"system\", \"content\": \"s\"}, " USER "]"};
    assert_int_equal(make(*state, &endless, &out, param, &diag), WHIM_ERR_FULL);
    assert_non_null(strstr(diag.text, "more"));
}

/* A template that prints either the calls of a turn or its text gets both, in two turns, unless it
 * refuses them when the conversation goes on. */
static void texts_beside_calls_are_kept(void **state)
{
#define EITHER(refusal)                                                                           \
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}" refusal  \
    "{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{{ {'name': c.function.name, "    \
    "'arguments': c.function.arguments} | tojson }}</tool_call>{% endfor %}{% else %}[{{ m.role " \
    "}}|{{ m.content }}]{% endif %}{% endfor %}"
#define BOTH_CALLS                                                        \
    "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"         \
    "<tool_call>{\"name\": \"g\", \"arguments\": {\"a\": 1}}</tool_call>" \
    "[tool|r2][tool|r1][user|v]"
    static const char *const rows[][2] = {
        {EITHER(""), "[user|u][assistant|so]" BOTH_CALLS},
        {EITHER("{% if loop.index0 > 2 and m.role == 'assistant' and messages[1].role == "
                "'assistant' and not messages[1].tool_calls and not m.tool_calls %}{{ "
                "raise_exception('twice') }}{% endif %}"),
         "[user|u]" BOTH_CALLS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect(*state, &(wish){.tmpl = rows[i][0], .messages = CALL_TWICE, .thinking = -1},
               rows[i][1]);
    }
    /* with one call in a turn, too */
#define HEAD(who) "<|start_header_id|>" who "<|end_header_id|>\n\n"
    static const char text[] = HEAD("system") "Today: D\n\n<|eot_id|>" /* clang-format off */
        HEAD("user") "u<|eot_id|>"
        HEAD("assistant") "so<|eot_id|>"
        HEAD("assistant") "{\"name\": \"f\", \"parameters\": {}}<|eot_id|>"
        HEAD("ipython") "\"r1\"<|eot_id|>"
        HEAD("assistant") "{\"name\": \"g\", \"parameters\": {\"a\": 1}}<|eot_id|>"
        HEAD("ipython") "\"r2\"<|eot_id|>"
        HEAD("user") "v<|eot_id|>"
        HEAD("assistant"); /* clang-format on */
    const wish llama = {
        .tmpl = "llama3", .messages = CALL_TWICE, .kwargs = "{\"date_string\": \"D\"}"};
    expect(*state, &llama, text);
}

/* Where answers are messages with headers, the template has its own word for thoughts. */
static void thoughts_go_before_calls(void **state)
{
    static const char tmpl[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.tool_calls %}"
        "({{ m.thinking }})<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}"
        "<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}"
        "<|call|>{% else %}[{{ m.role }}:{{ m.content }}{{ m.thinking }}]{% endif %}{% endfor %}";
    static const char messages[] =
        "[" USER ", {\"role\": \"assistant\", \"reasoning\": \"why\", \"tool_calls\": "
        "[{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"i\\\": 1}\"}}, "
        "{\"function\": {\"name\": \"g\"}}]}, {\"role\": \"tool\", \"content\": \"r\"}, "
        "{\"role\": \"assistant\", \"content\": \"so\", \"reasoning\": \"old\"}, " USER "]";
    expect(*state, &(wish){.tmpl = tmpl, .messages = messages},
           "[user:q](why)<|start|>assistant to=functions.f<|channel|>commentary json<|message|>"
           "{\"i\": 1}<|call|>[tool:r]()<|start|>assistant to=functions.g<|channel|>commentary "
           "json<|message|>{}<|call|>[assistant:so][user:q]");
}

/* Calls that are written here say what their values are where the model's own do. */
static void written_values_say_what_they_are(void **state)
{
    static const char tmpl[] =
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.tool_calls %}"
        "{% for c in m.tool_calls %}<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"{{ "
        "c.function.name }}\">\n{% for k, v in c.function.arguments.items() %}<｜DSML｜parameter "
        "name=\"{{ k }}\" string=\"true\">{{ v }}{% endfor %}{% endfor %}{% else %}[{{ m.content "
        "}}]{% endif %}{% endfor %}";
    expect(*state, &(wish){.tmpl = tmpl, .messages = "[" USER ", " TWO_CALLS "]"},
           "[q][<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n[1]\n</｜DSML｜invoke>\n"
           "<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x"
           "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">2"
           "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>]");
}

/* A template that joins arguments to a text gets them as a text, and answers begin with a name. */
static void arguments_are_texts_where_the_template_wants_them(void **state)
{
    static const char joins[] =
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}"
        "[{{ m.role }}|{{ '>>>all\n' + m.content if m.content }}{% for c in m.tool_calls or [] %}"
        "{{ '>>>' + c.function.name + '\n' + c.function.arguments }}{% endfor %}]{% endfor %}"
        "{{ '>>>' if add_generation_prompt }}";
    wish w = {.tmpl = joins, .messages = CALL_TWICE, .thinking = -1};
    expect(*state, &w,
           "[user|>>>all\nu][assistant|>>>all\nso>>>f\n{}>>>g\n{\"a\": 1}]"
           "[tool|>>>all\nr2][tool|>>>all\nr1][user|>>>all\nv]>>>");
    whim_prompt out;
    char param[128];
    assert_int_equal(make(*state, &w, &out, param, NULL), WHIM_ERR_OK);
    assert_true(out.open_name);
    whim_prompt_deinit(&out);
    w.messages = "[" USER ", " SAID("x>>>") "]"; /* a turn that goes on ends as it was written */
    assert_int_equal(make(*state, &w, &out, param, NULL), WHIM_ERR_OK);
    assert_false(out.open_name);
    whim_prompt_deinit(&out);
    /* as tojson writes them: spaces behind what separates, the fewest digits that tell a number */
    w.messages =
        "[" USER
        ", " CALL("{\\\"a\\\":[0.1,-2.5e-7,{\\\"b\\\":null}],\\\"c\\\":\\\"d:\\\\\\\",e\\\"}") "]";
    expect(*state, &w,
           "[user|>>>all\nq][assistant|>>>f\n{\"a\": [0.1, -2.5e-07, {\"b\": null}], "
           "\"c\": \"d:\\\",e\"}]>>>");
    /* Python's text of an object is no JSON either */
    static const char python[] =
        "{{ tools }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' ~ c.function.arguments ~ '}' "
        "}}"
        "{% endfor %}{% endfor %}";
    const wish p = {.tmpl = python,
                    .messages = "[" USER ", " CALL("{\\\"a\\\": \\\"b\\\"}") "]",
                    .thinking = -1,
                    .is_closed = true};
    expect(*state, &p, "q{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}");
}

/* Nothing of it stays in the account of memory. */
static void arguments_as_texts_are_given_back(void **state)
{
    static const char joins[] = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or "
                                "[] %}{{ '>>>' + c.function.name + '\n' + c.function.arguments }}"
                                "{% endfor %}{% endfor %}{{ tools }}{{ '>>>' }}";
    const wish w = {.tmpl = joins, .messages = CALL_TWICE, .thinking = -1};
    int64_t taken = 0;
    for (int i = 0; i < 2; i++) { /* what is made once and kept is there after the first */
        whim_prompt out;
        char param[128];
        taken = whim_budget_taken_here();
        assert_int_equal(make(*state, &w, &out, param, NULL), WHIM_ERR_OK);
        assert_true(whim_budget_taken_here() > taken);
        whim_prompt_deinit(&out);
    }
    assert_int_equal(whim_budget_taken_here(), taken);
}

int main(void)
{
    whim_json_count_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_of_several_calls_are_split),
        cmocka_unit_test(ids_are_as_short_as_the_template_wants),
        cmocka_unit_test(refusals_are_softened),
        cmocka_unit_test(texts_beside_calls_are_kept),
        cmocka_unit_test(thoughts_go_before_calls),
        cmocka_unit_test(written_values_say_what_they_are),
        cmocka_unit_test(arguments_are_texts_where_the_template_wants_them),
        cmocka_unit_test(arguments_as_texts_are_given_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
