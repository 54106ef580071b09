/* SPDX-License-Identifier: Apache-2.0 */
/* Templates against Jinja2's own results (tests/data/chat, by
 * tools/golden/make_template_golden.py), and what Jinja2 cannot tell: where bytes came from,
 * limits, places of errors. Runs in the root of the repository. */
#include <stdint.h>

#include "base/alloc.h"
#include "jinja/template.h"
#include "support/cmocka.h"
#include "support/packed_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = packed_json(path, &error);
    if (json == NULL) {
        fail_msg("%s: %s", path, error.text);
    }
    return json;
}

static whim_err render(const char *source, int64_t n, const whim_template_input *input,
                       whim_rendered *out, whim_diag *diag)
{
    whim_template *tmpl;
    whim_err err = whim_template_compile(source, n, "t", &tmpl, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_template_render(tmpl, input, out, diag);
        whim_template_destroy(tmpl);
    }
    return err;
}

/* The spans cover the text and neighbours differ. */
static void check_spans(const whim_rendered *r)
{
    int64_t at = 0;
    for (int64_t i = 0; i < r->n_span; i++) {
        assert_int_equal(r->spans[i].begin, at);
        assert_true(r->spans[i].end > at);
        assert_true(i == 0 || r->spans[i].trusted != r->spans[i - 1].trusted);
        at = r->spans[i].end;
    }
    assert_int_equal(at, r->text.len);
}

/* Compare with {"out": text} or {"error": true or message}; prints and counts what differs. */
static int differs(const char *what, whim_err err, const whim_rendered *r, const whim_diag *diag,
                   const json_t *out, const json_t *error)
{
    if (out != NULL && json_is_string(out)) {
        int64_t n = (int64_t)json_string_length(out);
        if (err == WHIM_ERR_OK && r->text.len == n &&
            (n == 0 || memcmp(r->text.text, json_string_value(out), (size_t)n) == 0)) {
            check_spans(r);
            return 0;
        }
        printf("FAIL %s\n  expected: [%s]\n  got: [%s]\n", what, json_string_value(out),
               err == WHIM_ERR_OK ? whim_str_text(&r->text) : diag->text);
        return 1;
    }
    if (err == WHIM_ERR_OK) {
        printf("FAIL %s\n  expected an error, got: [%s]\n", what, whim_str_text(&r->text));
        return 1;
    }
    bool placed = strstr(diag->text, "line ") != NULL && strstr(diag->text, " column ") != NULL;
    bool same = json_is_string(error) ? strcmp(json_string_value(error), diag->text) == 0 : placed;
    if (err != WHIM_ERR_INVALID || !same) {
        printf("FAIL %s\n  the error says: %s\n", what, diag->text);
        return 1;
    }
    return 0;
}

/* How many renderings of a file differ from Jinja2's; all are counted in *n. */
static int compare_conversations(const char *path, int *n)
{
    json_t *file = load(path);
    json_t *tokens = json_object_get(file, "tokens"),
           *talks = json_object_get(file, "conversations");
    json_t *variants = json_object_get(file, "variants"), *by_talk, *results;
    const char *name, *talk;
    int bad = 0;
    json_object_foreach(json_object_get(file, "results"), name, by_talk)
    {
        json_t *source = json_object_get(json_object_get(file, "templates"), name);
        whim_template *tmpl;
        whim_diag diag = {{0}};
        if (whim_template_compile(json_string_value(source), (int64_t)json_string_length(source),
                                  name, &tmpl, &diag) != WHIM_ERR_OK) {
            printf("FAIL %s\n", diag.text);
            bad++;
            continue;
        }
        json_object_foreach(by_talk, talk, results)
        {
            for (size_t i = 0; i < json_array_size(results); i++, ++*n) {
                json_t *variant = json_array_get(variants, i), *want = json_array_get(results, i);
                json_t *tools = json_object_get(variant, "tools");
                whim_template_input input = {
                    .messages = json_object_get(talks, talk),
                    .tools = json_is_null(tools) ? NULL : tools,
                    .kwargs = json_object_get(variant, "kwargs"),
                    .add_generation_prompt =
                        json_is_true(json_object_get(variant, "add_generation_prompt")),
                    .bos_token = json_string_value(json_object_get(tokens, "bos_token")),
                    .eos_token = json_string_value(json_object_get(tokens, "eos_token")),
                    .now = json_integer_value(json_object_get(file, "now")),
                };
                whim_rendered out = {{0}};
                whim_err err = whim_template_render(tmpl, &input, &out, &diag);
                char what[200];
                snprintf(what, sizeof what, "%s, %s, variant %zu", name, talk, i);
                bad += differs(what, err, &out, &diag, json_object_get(want, "out"),
                               json_object_get(want, "error"));
                whim_rendered_deinit(&out);
            }
        }
        whim_template_destroy(tmpl);
    }
    json_decref(file);
    return bad;
}

static void conversations_equal_jinja(void **state)
{
    (void)state;
    int n = 0;
    assert_int_equal(compare_conversations("tests/data/chat/conversations.json.xz", &n), 0);
    assert_true(n > 1500);
}

static void snippets_equal_jinja(void **state)
{
    (void)state;
    json_t *file = load("tests/data/chat/snippets.json"), *rows = json_object_get(file, "rows");
    json_t *empty = json_array();
    int bad = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *source = json_array_get(row, 0);
        whim_template_input input = {
            .messages = empty,
            .kwargs = json_object_get(file, "vars"),
            .bos_token = "<|begin|>",
            .eos_token = "<|end|>",
            .now = json_integer_value(json_object_get(file, "now")),
        };
        whim_rendered out = {{0}};
        whim_diag diag = {{0}};
        whim_err err = render(json_string_value(source), (int64_t)json_string_length(source),
                              &input, &out, &diag);
        bad += differs(json_string_value(source), err, &out, &diag, json_array_get(row, 1),
                       json_array_get(row, 2));
        whim_rendered_deinit(&out);
    }
    printf("%zu snippets\n", json_array_size(rows));
    assert_true(json_array_size(rows) > 400);
    json_decref(empty);
    json_decref(file);
    assert_int_equal(bad, 0);
}

/* --- provenance --- */

/* Render with messages and kwargs given as JSON; then write U for each untrusted byte and the
 * trusted bytes as they are. */
static char *trusted_part(const char *source, const char *messages, const char *kwargs)
{
    json_t *list = json_loads(messages, 0, NULL), *vars = json_loads(kwargs, 0, NULL);
    assert_non_null(list);
    assert_non_null(vars);
    whim_template_input input = {.messages = list, .kwargs = vars, .bos_token = "<s>"};
    whim_rendered out = {{0}};
    whim_diag diag = {{0}};
    if (render(source, (int64_t)strlen(source), &input, &out, &diag) != WHIM_ERR_OK) {
        fail_msg("%s: %s", source, diag.text);
    }
    check_spans(&out);
    char *text = strdup(whim_str_text(&out.text));
    for (int64_t i = 0; i < out.n_span; i++) {
        if (!out.spans[i].trusted) {
            memset(text + out.spans[i].begin, 'U', (size_t)(out.spans[i].end - out.spans[i].begin));
        }
    }
    whim_rendered_deinit(&out);
    json_decref(list);
    json_decref(vars);
    return text;
}

static void trust_follows_bytes(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"<x>{{ u }}</x>", "<x>UUU</x>"},
        {"{{ '<' + u + '>' }}", "<UUU>"},
        {"{{ '<' ~ u ~ '>' }}", "<UUU>"},
        {"{{ bos_token ~ u }}", "<s>UUU"},
        {"{{ ('<a>' + u + '<b>')[2:7] }}", ">UUU<"},
        {"{{ ('<' + u + '>')[::-1] }}", ">UUU<"},
        {"{{ (' ' + u + ' ')|trim }}", "UUU"},
        {"{{ ('<' + u + '>')|upper }}", "<UUU>"},
        {"{{ ('<' + u + '>').title() }}", "<UUU>"},
        {"{{ 'a-b'|replace('-', u) }}", "aUUUb"},
        {"{{ u|replace('b', '<|x|>') }}", "U<|x|>U"},
        {"{{ [u, '<', u]|join('|') }}", "UUU|<|UUU"},
        {"{{ '|'.join([u, u]) }}", "UUU|UUU"},
        {"{{ ('<' + u + '>').split('b')[0] }}", "<U"},
        {"{{ '<%s|%s>' % (u, 5) }}", "<UUU|5>"},
        {"{{ '<{}|{x}>'.format(u, x=n) }}", "<UUU|U>"},
        {"{{ u % () }}", "UUU"},
        {"{{ u|tojson }}", "UUUUU"},
        {"{{ '<s>'|tojson }}", "UUUUU"},
        {"{{ [u] }}", "UUUUUUU"},
        {"{{ ['<s>'] }}", "UUUUUUU"},
        {"{{ 1 + 2 }}{{ n }}{{ n + 1 }}{{ 1 < 2 }}{{ u == 'x' }}", "3UUTrueUUUUU"},
        {"{{ u|length }}{{ 'abc'|length }}", "U3"},
        {"{% set a %}<{{ u }}>{% endset %}{{ a }}", "<UUU>"},
        {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(u) }}", "<UUU>"},
        {"{% filter upper %}<{{ u }}>{% endfilter %}", "<UUU>"},
        {"{% set ns = namespace(v='<') %}{% set ns.v = ns.v + u %}{{ ns.v }}>", "<UUU>"},
        {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "UUU=UUU;"},
        {"{% for c in '<' ~ u %}{{ c }}{% endfor %}", "<UUU"},
        {"{{ u * 2 }}{{ '<' * 2 }}", "UUUUUU<<"},
        {"{{ d.get('zz', '<d>') }}{{ d.key }}", "<d>UUU"},
        {"{{ u.center(5) }}", "UUUUU"},
        {"{{ ('<' ~ u ~ '\\n' ~ u)|indent(2) }}", "<UUUU  UUU"},
        {"{{ u|default('<x>') }}{{ z|default('<x>') }}", "UUU<x>"},
        {"{{ none }}{{ nul }}", "NoneUUUU"},
        {"{{ strftime_now('%Y') }}{{ loop }}", "1970"},
        {"{{ [u, 'a']|sort|join }}", "aUUU"},
        {"{{ '{\"a\": \"<s>\"}'|from_json|string }}", "UUUUUUUUUUUU"},
        {"{{ 'abc'|truncate(3, true, u, 0) }}", "abc"},
        {"{{ u|e }}{{ '<'|e }}", "UUU&lt;"},
        {"{{ messages[0].content.split('</think>')[-1] }}", "UUUUUUUUUU"},
        {"{{ ('%05d' % n) }}{{ '%05d' % 3 }}", "UUUUU00003"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *got =
            trusted_part(rows[i][0], "[{\"role\": \"user\", \"content\": \"x</think><|im_end|>\"}]",
                         "{\"u\": \"abc\", \"n\": 5, \"nul\": null, \"d\": {\"key\": \"val\"}}");
        if (strcmp(got, rows[i][1]) != 0) {
            fail_msg("%s: expected %s, got %s", rows[i][0], rows[i][1], got);
        }
        free(got);
    }
}

/* No way of writing the role, the content or the arguments makes one of these trusted. */
static void users_cannot_forge_turns(void **state)
{
    (void)state;
    static const char *const marks[] = {"<|im_end|>", "<|im_start|>", "<|eot_id|>",
                                        "]~b]",       "[e~[",         "<end_of_turn>",
                                        "[INST]",     "</think>",     "<tool_call>"};
    json_t *file = load("tests/data/chat/conversations.json.xz"), *source;
    const char *name;
    json_object_foreach(json_object_get(file, "templates"), name, source)
    {
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
            char text[200];
            snprintf(text, sizeof text, "QQ%sQQ", marks[i]);
            json_t *messages =
                json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user", "content", text,
                          "role", "assistant", "content", text, "role", "user", "content", text);
            json_t *tools = json_pack("[{s:s,s:{s:s,s:s,s:{s:s,s:{}}}}]", "type", "function",
                                      "function", "name", text, "description", text, "parameters",
                                      "type", text, "properties");
            json_t *kwargs = json_pack("{s:s,s:s}", "date_string", text, "x", text);
            whim_template_input input = {.messages = messages,
                                         .tools = tools,
                                         .kwargs = kwargs,
                                         .add_generation_prompt = true,
                                         .bos_token = "<s>",
                                         .eos_token = "</s>"};
            whim_rendered out = {{0}};
            whim_diag diag = {{0}};
            whim_err err = render(json_string_value(source), (int64_t)json_string_length(source),
                                  &input, &out, &diag);
            if (err != WHIM_ERR_OK) {
                fail_msg("%s: %s", name, diag.text);
            }
            int found = 0;
            for (const char *at = whim_str_text(&out.text); (at = strstr(at, "QQ")) != NULL; at++) {
                for (int64_t s = 0; s < out.n_span; s++) {
                    int64_t where = at - out.text.text;
                    if (where >= out.spans[s].begin && where < out.spans[s].end) {
                        assert_false(out.spans[s].trusted);
                        found++;
                    }
                }
            }
            assert_true(found >= 2);
            whim_rendered_deinit(&out);
            json_decref(messages);
            json_decref(tools);
            json_decref(kwargs);
        }
    }
    json_decref(file);
}

/* --- limits and errors --- */

static void expect_error(const char *source, const char *needle)
{
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"hi\"}]", 0, NULL);
    whim_template_input input = {.messages = messages};
    whim_rendered out = {{0}};
    whim_diag diag = {{0}};
    whim_err err = render(source, (int64_t)strlen(source), &input, &out, &diag);
    if ((err != WHIM_ERR_INVALID && err != WHIM_ERR_FULL) || strstr(diag.text, needle) == NULL) {
        fail_msg("%.80s: expected \"%s\", got %s: %s", source, needle, whim_err_name(err),
                 diag.text);
    }
    whim_rendered_deinit(&out);
    json_decref(messages);
}

/* What is wrong with a file is told with its path; what clients see has its name only. */
static void clients_see_no_folders(void **state)
{
    (void)state;
    whim_template *tmpl;
    whim_diag diag = {{0}};
    whim_rendered out = {{0}};
    whim_template_input input = {.now = 0};
    assert_int_equal(whim_template_compile("{{ (", 4, "/srv/models/x.jinja", &tmpl, &diag),
                     WHIM_ERR_INVALID);
    assert_ptr_equal(strstr(diag.text, "/srv/models/x.jinja: line 1"), diag.text);
    assert_int_equal(
        whim_template_compile("{{ 1 / 0 }}", 11, "/srv/models/x.gguf: chat template", &tmpl, &diag),
        WHIM_ERR_OK);
    assert_int_equal(whim_template_render(tmpl, &input, &out, &diag), WHIM_ERR_INVALID);
    assert_ptr_equal(strstr(diag.text, "x.gguf: chat template: line 1"), diag.text);
    whim_rendered_deinit(&out);
    whim_template_destroy(tmpl);
}

static void hostile_templates_end(void **state)
{
    (void)state;
    expect_error("{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", "deeper");
    expect_error("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro "
                 "%}{{ m(60) }}",
                 "t: line 1 column ");
    expect_error("{{ 'a' * 1000000000 }}", "more than 64 MiB");
    expect_error("{{ ('a' * 1000000) * 1000000 }}", "line 1 column");
    expect_error("{% for i in range(100000) %}{% for k in range(100000) %}{% endfor %}{% endfor %}",
                 "line 1 column");
    expect_error("{% for i in range(1000000000) %}{% endfor %}", "range");
    expect_error("{% set ns = namespace(a='x') %}{% for i in range(100) %}{% set ns.a = ns.a + "
                 "ns.a %}{% endfor %}",
                 "line 1 column");
    expect_error("{% set ns = namespace(a=[1]) %}{% for i in range(100) %}{% set ns.a = [ns.a, "
                 "ns.a] %}{% endfor %}{{ ns.a }}",
                 "line 1 column");
    expect_error("{% set ns = namespace(a=[1]) %}{% for i in range(100) %}{% set ns.a = ns.a + "
                 "ns.a %}{% endfor %}",
                 "line 1 column");
    expect_error("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "deeper");
    expect_error("{% set l = [] %}{{ l.append(l) }}{{ l|tojson }}", "deeper");
    expect_error("{% set l = [] %}{{ l.append(l) }}{% set m = [] %}{{ m.append(m) }}{{ l == m }}",
                 "deeper");
    expect_error("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deeper");
    expect_error("{{ 2 ** 1000000 }}", "64 bits");
    expect_error("{{ '%2000000000d' % 1 }}", "over 1000");
    expect_error("{{ 'a'.center(100000000000) }}", "line 1 column");
    expect_error("{{ 'aaaa'|indent(1000000000) }}", "64 MiB");
    expect_error(
        "{% set x = 'ab' * 1000000 %}{% for i in range(100000) %}{{ x.find('zz') }}{% endfor %}",
        "more work");
    expect_error("{% set x = 'ab' * 1000000 %}{% for i in range(100000) %}{% set y = x.upper() "
                 "%}{% endfor %}",
                 "line 1 column");
    expect_error("{% set x = range(100000)|list %}{% for i in x %}{{ -1 in x }}{% endfor %}",
                 "more work");
    expect_error("{% set x = range(100000)|list %}{{ x|unique|list|length }}", "more work");
    /* no squares of lengths: these would take minutes */
    expect_error("{% set x = ('-' * 500000)|wordwrap %}{{ raise_exception('its end') }}",
                 "its end");
    expect_error("{% set x = (' ' * 500000)|wordwrap(1) %}{{ raise_exception('its end') }}",
                 "its end");
    whim_str blocks = {0};
    for (int i = 0; i < 2000; i++) {
        whim_str_printf(&blocks, "{%% block b%d %%}{%% endblock %%}", i);
    }
    expect_error(whim_str_text(&blocks), "a template may have 1000");
    whim_str_deinit(&blocks);
}

static void deep_sources_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } rows[] = {{"(", "1", ")"},   {"[", "", "]"},    {"-", "1", ""},
                {"not ", "1", ""}, {"{1:", "1", "}"}, {"1 if 1 else ", "1", ""},
                {"a[", "1", "]"},  {"f(", "1", ")"}};
    enum { DEEP = 5000 };
    char *text = malloc(200000);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *at = text + sprintf(text, "{{ ");
        for (int k = 0; k < DEEP; k++) {
            at += sprintf(at, "%s", rows[i].open);
        }
        at += sprintf(at, "%s", rows[i].middle);
        for (int k = 0; k < DEEP; k++) {
            at += sprintf(at, "%s", rows[i].close);
        }
        sprintf(at, " }}");
        expect_error(text, "deeper than");
    }
    char *at = text;
    for (int k = 0; k < DEEP; k++) {
        at += sprintf(at, "{%% if 1 %%}");
    }
    expect_error(text, "deeper than");
    at = text + sprintf(text, "{{ 1");
    for (int k = 0; k < DEEP; k++) {
        at += sprintf(at, "+1");
    }
    sprintf(at, " }}");
    expect_error(text, "deeper than");
    free(text);
}

static void errors_say_where(void **state)
{
    (void)state;
    expect_error("{{ 1 +", "t: line 1 column 7: expected an expression, found the end");
    expect_error("a\nb {{ x y }}", "line 2 column 8: expected \"}}\", found \"y\"");
    expect_error("é日 {{ @ }}", "line 1 column 7: unexpected character \"@\"");
    expect_error("{% if x %}\n\n", "expected {% elif %}");
    expect_error("\n\n  {% frobnicate %}", "line 3 column 6: expected a statement");
    expect_error("{% for x of y %}", "line 1 column 10: expected \"in\", found \"of\"");
    expect_error("{{ (1 }}", "line 1 column 7: found '}', expected ')'");
    expect_error("x\n{# never", "line 2 column 1: the comment");
    expect_error("{{ 'abc }}", "line 1 column 4: the string");
    expect_error("line\n{{ messages[0].nothing.more }}",
                 "line 2 column 23: \"nothing\" is undefined");
    expect_error("{{ 1 }}\n  {{ 'a' + 1 }}",
                 "line 2 column 10: \"+\" has no meaning between a string and a int");
    expect_error("{{ messages|nofilter }}", "line 1 column 13: there is no filter \"nofilter\"");
    expect_error("{% set x = 1 %}\n{% set x.y = 2 %}", "line 2 column 8: only an attribute");
    expect_error("{{ missing() }}", "line 1 column 11: \"missing\" is undefined");
    expect_error("{% break %}", "line 1 column 4");
    json_t *messages = json_array();
    whim_template_input input = {.messages = messages};
    whim_rendered out = {{0}};
    whim_diag diag = {{0}};
    static const char raise[] = "{{ raise_exception('Roles: ' ~ 5) }}";
    assert_int_equal(render(raise, sizeof raise - 1, &input, &out, &diag), WHIM_ERR_INVALID);
    assert_string_equal(diag.text, "Roles: 5");
    assert_int_equal(render("\xff", 1, &input, &out, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "not UTF-8 at byte 0"));
    whim_rendered_deinit(&out);
    json_decref(messages);
}

/* What goes beyond transformers: changing lists and dicts, and from_json. */
static void additions_work(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}", "[1, 2]"},
        {"{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "31[2]"},
        {"{% set l = [1] %}{% set _ = l.extend([2, 3]) %}{{ l|length }}", "3"},
        {"{% set l = [1, 2] %}{% for i in l %}{% set _ = l.append(i) %}{% endfor %}{{ l }}",
         "[1, 2, 1, 2]"},
        {"{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{{ d }}{{ d.pop('a') }}{{ d }}",
         "{'a': 1, 'b': 2}1{'b': 2}"},
        {"{{ {}.setdefault('a', 4) }}", "4"},
        {"{{ ('{\"a\": [1, 2.5, null, true]}'|from_json).a|tojson }}", "[1, 2.5, null, true]"},
    };
    json_t *messages = json_array();
    whim_template_input input = {.messages = messages};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_rendered out = {{0}};
        whim_diag diag = {{0}};
        if (render(rows[i][0], (int64_t)strlen(rows[i][0]), &input, &out, &diag) != WHIM_ERR_OK) {
            fail_msg("%s: %s", rows[i][0], diag.text);
        }
        assert_string_equal(whim_str_text(&out.text), rows[i][1]);
        whim_rendered_deinit(&out);
    }
    expect_error("{{ '[1'|from_json }}", "line 1 column 9: from_json");
    expect_error("{{ '[18446744073709551616]'|from_json }}", "beyond 64 bits");
    json_decref(messages);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    static const char source[] =
        "{% for i in range(3000) %}{{ messages }}{{ i ~ ('x' * 50) }}{% endfor %}";
    json_t *messages = json_pack("[{s:s}]", "role", "user");
    whim_template_input input = {.messages = messages};
    int64_t n = 0;
    whim_err err;
    do {
        whim_rendered out = {{0}};
        whim_diag diag = {{0}};
        whim_alloc_fail_after(n++);
        err = render(source, sizeof source - 1, &input, &out, &diag);
        whim_alloc_fail_after(-1);
        assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_NO_MEMORY);
        assert_true(err == WHIM_ERR_OK || strstr(diag.text, "out of memory") != NULL);
        whim_rendered_deinit(&out);
    } while (err != WHIM_ERR_OK && n < 5000);
    assert_int_equal(err, WHIM_ERR_OK);
    assert_true(n > 10);
    json_decref(messages);
}

/* No statement and no name leads to a file, another template or the process. */
static void templates_reach_no_files(void **state)
{
    (void)state;
    static const char *const statements[] = {"include 'x'", "import 'x' as x", "from 'x' import y",
                                             "extends 'x'"};
    char source[64];
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        snprintf(source, sizeof source, "{%% %s %%}", statements[i]);
        expect_error(source, "a statement (if, for, set");
    }
    expect_error("{{ open('/etc/passwd') }}", "open");
    expect_error("{{ messages.__class__.__mro__ }}", "");
    expect_error("{{ cycler.__init__.__globals__.os }}", "");
}

/* With the name of a file: its renderings are compared, and how many differ is told. */
int main(int argc, char **argv)
{
    if (argc > 1) {
        int n = 0, bad = compare_conversations(argv[1], &n);
        printf("%d of %d renderings differ\n", bad, n);
        return bad > 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_equal_jinja), cmocka_unit_test(snippets_equal_jinja),
        cmocka_unit_test(trust_follows_bytes),       cmocka_unit_test(users_cannot_forge_turns),
        cmocka_unit_test(hostile_templates_end),     cmocka_unit_test(templates_reach_no_files),
        cmocka_unit_test(clients_see_no_folders),    cmocka_unit_test(deep_sources_are_refused),
        cmocka_unit_test(errors_say_where),          cmocka_unit_test(additions_work),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
