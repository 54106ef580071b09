/* SPDX-License-Identifier: Apache-2.0 */
/* No work of a template is free: whatever it asks for, the blocks of code that ran are bounded by
 * the steps that were paid (tests/support/work.h). Each filter, method, test and operator is tried on
 * large values of every kind, with large arguments; and a template that would run for hours ends
 * having paid all its steps. */
#include "base/utf8.h"
#include "jinja/eval.h"
#include "jinja/template.h"
#include "support/cmocka.h"
#include "support/work.h"

#include <stdio.h>
#include <stdlib.h>

/* What a step may cost, and what may be done for nothing: a rendering has an arena and some
 * variables, and a source is read. */
enum { BLOCKS_OF_STEP = 250, FREE_BLOCKS = 4000, BLOCKS_OF_BYTE = 400 };

static double dearest;
static char dearest_source[600];

typedef struct bill {
    int64_t blocks, steps;
} bill;

static whim_err render(const char *source, bill *out, whim_diag *diag)
{
    whim_template *tmpl;
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"hi\"}]", 0, NULL);
    whim_template_input input = {.messages = messages, .now = 1741536307};
    whim_rendered text = {.n_span = 0};
    int64_t before = whim_work_done();
    whim_err err = whim_template_compile(source, (int64_t)strlen(source), "t", &tmpl, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_template_render(tmpl, &input, &text, diag);
        whim_template_destroy(tmpl);
    }
    out->blocks = whim_work_done() - before;
    out->steps = text.steps;
    whim_rendered_deinit(&text);
    json_decref(messages);
    return err;
}

/* Whether the source costs no more than it pays, besides what is known to be in `of` it. */
static void check(const char *source, int64_t n_new, bill of)
{
    bill got;
    whim_diag diag = {{0}};
    (void)render(source, &got, &diag);
    int64_t blocks = got.blocks - of.blocks - FREE_BLOCKS - BLOCKS_OF_BYTE * n_new;
    int64_t steps = got.steps - of.steps;
    double ratio = (double)blocks / (double)(steps > 0 ? steps : 1);
    if (ratio > dearest) {
        dearest = ratio;
        snprintf(dearest_source, sizeof dearest_source, "%s", source);
    }
    if (blocks > BLOCKS_OF_STEP * steps) {
        fail_msg("%lld blocks for %lld steps: %s", (long long)blocks, (long long)steps, source);
    }
}

/* --- large values of every kind ----------------------------------------------------------------- */

static const struct {
    const char *name, *made;
} values[] = {
    {"a", "{% set a = 'a' * 1200 %}"},
    {"ab", "{% set ab = 'a' * 1200 ~ 'b' %}"},
    {"sp", "{% set sp = ' ' * 1200 %}"},
    {"ln", "{% set ln = '\n' * 1200 %}"},
    {"mix",
     "{% set mix = 'a' * 600 ~ messages[0].content ~ '\xc3\x84' * 300 %}"}, /* of two origins */
    {"md", "{% set md = '&#1<a-%>{}.,' * 100 %}"},
    {"r", "{% set r = range(1200) %}"},
    {"t", "{% set t = ('x',) * 1200 %}"},
    {"l", "{% set l = ['yy'] * 1200 %}"},
    {"d", "{% set d = {} %}{% for i in range(99) %}{% set _ = d.update({i: 'z'}) %}{% endfor %}"},
    {"e", "{% set n = namespace(x=[]) %}{% for i in range(90) %}{% set n.x = [n.x, 1] %}"
          "{% endfor %}{% set e = [n.x] * 20 %}"},
    {"f", "{% set f = [1.1] * 600 %}"},
    {"q", "{% set q = 7 %}"},
    {"safe", "{% set safe = ('<a&' * 400) | safe %}"}, /* what is added to it is escaped */
};
enum { N_VALUE = sizeof values / sizeof values[0] };

static bill of_value[N_VALUE];

static int measure_values(void **state)
{
    (void)state;
    for (int v = 0; v < N_VALUE; v++) {
        whim_diag diag = {{0}};
        if (render(values[v].made, &of_value[v], &diag) != WHIM_ERR_OK) {
            print_error("%s: %s\n", values[v].made, diag.text);
            return -1;
        }
    }
    return 0;
}

/* Try a template that uses two of the values. */
static void try(int v, int w, const char *form, ...) WHIM_PRINTF(3, 4);
static void try(int v, int w, const char *form, ...)
{
    static char source[2048];
    bill of = of_value[v];
    va_list ap;
    int n = snprintf(source, sizeof source, "%s%s", values[v].made, w == v ? "" : values[w].made);
    if (w != v) {
        of.blocks += of_value[w].blocks;
        of.steps += of_value[w].steps;
    }
    va_start(ap, form);
    int more = vsnprintf(source + n, sizeof source - (size_t)n, form, ap);
    va_end(ap);
    assert_true(more > 0 && (size_t)(n + more) < sizeof source);
    check(source, more, of);
}

/* --- everything in the tables ------------------------------------------------------------------- */

/* Each name with nothing, with each large value in each place, and with numbers that matter. */
static void try_table(const whim_jentry *table, const char *mark)
{
    for (; table->names != NULL; table++) {
        char name[40];
        int n_param = table->params == NULL ? 2 : (int)strlen(table->params) > 0;
        snprintf(name, sizeof name, "%s%.*s", mark, (int)strcspn(table->names, " "), table->names);
        n_param += table->params != NULL && strchr(table->params, ' ') != NULL;
        for (int v = 0; v < N_VALUE; v++) {
            const char *self = values[v].name;
            try(v, v, "{%% set _ = %s%s%s %%}", self, name, mark[0] == '.' ? "()" : "");
            for (int w = 0; w < N_VALUE && n_param > 0; w++) {
                try(v, w, "{%% set _ = %s%s(%s) %%}", self, name, values[w].name);
            }
            for (int w = v % 2; w < N_VALUE && n_param > 1; w += 2) {
                try(v, w, "{%% set _ = %s%s('a', %s) %%}", self, name, values[w].name);
                try(v, w, "{%% set _ = %s%s(%s, -1000, 1000) %%}", self, name, values[w].name);
            }
        }
    }
}

static void filters_pay(void **state)
{
    (void)state;
    try_table(whim_jfilters_text, " | ");
    try_table(whim_jfilters_list, " | ");
    try_table(whim_jfilters_prose, " | ");
    for (int v = 0; v < N_VALUE; v++) {
        const char *self = values[v].name;
        try(v, v, "{%% set _ = %s | tojson(indent=9, sort_keys=true) %%}", self);
        try(v, v, "{%% set _ = %s | sort(attribute='a,b,c,d,e,f') | list %%}", self);
        try(v, v, "{%% set _ = %s | sort(attribute='a.b.c' * 300) | list %%}", self);
        try(v, v, "{%% set _ = %s | map('upper') | map('replace', 'A', 'bb') | list %%}", self);
        try(v, v, "{%% set _ = %s | select('in', %s) | list %%}", self, self);
        try(v, v, "{%% set _ = %s | join(%s, attribute='x') %%}", self, self);
        try(v, v, "{%% set _ = [1] | map(attribute='.' * 999, default=%s) | list %%}", self);
    }
}

static void tests_pay(void **state)
{
    (void)state;
    try_table(whim_jtests, " is ");
}

static void methods_pay(void **state)
{
    (void)state;
    try_table(whim_jmethods_str, ".");
    try_table(whim_jmethods_list, ".");
    try_table(whim_jmethods_dict, ".");
    try(0, 0, "{%% set x = a * 20 %%}{%% set _ = x.startswith((x[1:] ~ 'b',) * 900) %%}");
    try(0, 0, "{%% set x = a * 20 %%}{%% set _ = x.endswith(('b' ~ x[1:],) * 900) %%}");
    try(0, 0, "{%% set _ = a.rsplit('a' * 600 ~ 'b') %%}");
    try(0, 0, "{%% set _ = a.rpartition('b' ~ 'a' * 600) %%}");
    try(0, 0, "{%% set _ = a.rfind('b' ~ 'a' * 600) %%}");
    try(0, 0, "{%% set _ = a.strip('bcdefgh' * 500 ~ 'a') %%}");
    try(8, 8, "{%% for i in range(100) %%}{{ loop.changed(l) }}{%% endfor %%}");
}

static void operators_pay(void **state)
{
    static const char *const operators[] = {"==", "!=", "<", "in", "not in",
                                            "+",  "~",  "%", "*",  "and"};
    (void)state;
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++) {
        for (int v = 0; v < N_VALUE; v++) {
            for (int w = 0; w < N_VALUE; w++) {
                try(v, w, "{%% set _ = %s %s %s %%}", values[v].name, operators[k], values[w].name);
            }
        }
    }
}

static void statements_pay(void **state)
{
    static const char *const forms[] = {
        "{%% set _ = %s[-900:900:2] %%}",
        "{%% set _ = %s[-1:] %%}",
        "{%% set _ = %s[900] %%}",
        "{%% set _ = %s[-900] %%}",
        "{{ %s }}",
        "{%% set _ = '%%%%s' %% (%s,) %%}",
        "{%% set _ = '{:>900}'.format(%s) %%}",
        "{%% set x, y = %s %%}",
        "{%% for x in %s if x == 1 %%}{%% endfor %%}",
        "{%% macro m(p) %%}{{ varargs }}{{ kwargs }}{%% endmacro %%}{{ m(*%s) }}",
        "{%% macro m(p) %%}{{ varargs }}{{ kwargs }}{%% endmacro %%}{{ m(**{'k': %s}) }}",
        "{%% set x = %s %%}{%% for i in range(99) %%}{%% set _ = x == x[:] %%}{%% endfor %%}",
        "{%% set x = %s ~ '' %%}{%% for i in range(99) %%}{%% if x == 1 %%}{%% endif %%}{%% endfor "
        "%%}",
        "{%% set x = {}.__class__ %%}{%% filter upper %%}{{ %s }}{%% endfilter %%}",
    };
    (void)state;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        for (int v = 0; v < N_VALUE; v++) {
            try(v, v, forms[k], values[v].name);
        }
    }
#pragma GCC diagnostic pop
    try(0, 0, "{{ ('%%' ~ '-' * 900 ~ 'd') %% 7 }}");
    try(0, 0, "{{ '%%.900f' %% 1e300 }}");
    try(0, 0, "{{ strftime_now('%%A' * 500) }}");
}

/* --- reading a source --------------------------------------------------------------------------- */

static void sources_cost_their_length(void **state)
{
    static const char *const parts[] = {"{% set a = 1 %}",
                                        "{{ a }}",
                                        "{# #}",
                                        "{{ 'a' 'b' }}",
                                        "x\n",
                                        "{%- if a -%}",
                                        "{{ [",
                                        "{{ (",
                                        "{% block b %}{% endblock %}",
                                        "{% macro m() %}{% endmacro %}",
                                        "{{ a | upper",
                                        "{% raw %}",
                                        "{{ 1_0 }}",
                                        "{{ a.b.c",
                                        "{{ '\\n",
                                        "\r",
                                        "{",
                                        "{{ -",
                                        "{% if a %}",
                                        "{% elif a %}"};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        enum { SIZE = 60 * 1000 };
        char *source = calloc(1, SIZE + 100);
        assert_non_null(source);
        for (size_t n = 0; n < SIZE; n += strlen(parts[i])) {
            strcpy(source + n, parts[i]);
        }
        check(source, (int64_t)strlen(source), (bill){0});
        free(source);
    }
}

/* --- the end ------------------------------------------------------------------------------------ */

/* Each would take hours or for ever. */
static void long_work_ends_in_steps(void **state)
{
    static const char *const sources[] = {
        "{% set a = 'a' * 9000000 %}{{ a.strip('b' * 9000000 ~ 'a') }}",
        "{% set a = 'a' * 9000000 %}{{ a.rfind('b' ~ 'a' * 4000000) }}",
        "{% set a = 'a' * 9000000 %}{{ a.rsplit('b' ~ 'a' * 4000000) }}",
        "{% set a = 'a' * 9000000 %}{{ a.rpartition('b' ~ 'a' * 4000000) }}",
        "{% set a = ('a' * 30000000) %}{% for i in range(9999) %}{{ a.startswith((a ~ 'b', a[1:]) "
        "* 999) }}"
        "{% endfor %}",
        "{% set a = [1] * 2000000 %}{% set b = [1] * 2000000 %}{% for i in range(99999) %}{{ a == "
        "b }}"
        "{% endfor %}",
        "{% set a = [1] * 2000000 %}{% set b = [1] * 2000000 %}{% for i in range(99999) %}{{ a < b "
        "}}"
        "{% endfor %}",
        "{% set a = 'a' * 30000000 %}{% for i in range(99999) %}{{ a.isalpha() }}{{ a.islower() }}"
        "{% endfor %}",
        "{% set a = ' ' * 30000000 %}{% for i in range(99999) %}{{ a | int }}{% endfor %}",
        "{% set a = 'a' * 30000000 ~ messages[0].content %}{% for i in range(99999) %}"
        "{% if a == 1 %}{% endif %}{% endfor %}",
        "{% set a = 'a' * 30000000 %}{% for i in range(99999) %}{{ a.count('') }}{{ a[-2] }}{% "
        "endfor %}",
        "{% set a = '.' * 30000000 %}{{ [1] | map(attribute=a, default=1) | list }}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        bill got;
        whim_diag diag = {{0}};
        whim_err err = render(sources[i], &got, &diag);
        if (err != WHIM_ERR_FULL || strstr(diag.text, "more work than is allowed") == NULL) {
            fail_msg("%s: %s, %s", sources[i], whim_err_name(err), diag.text);
        }
        assert_true(got.blocks / got.steps < BLOCKS_OF_STEP);
    }
}

/* Nothing above would fail if nothing were counted: blocks of code, and bytes that the C library
 * is given. */
static void work_is_counted(void **state)
{
    static const char *const sources[] = {
        "{% for i in range(1000) %}{% endfor %}",
        "{% for i in range(2000) %}{% endfor %}",
        "{% set _ = 'a' * 16 %}",
        "{% set _ = 'a' * 160000 %}",
    };
    enum { N = sizeof sources / sizeof sources[0], TIMES = 1000, CHUNKS = 160000 / 16 };
    bill got[N];
    whim_diag diag = {{0}};
    (void)state;
    for (int i = 0; i < N; i++) {
        assert_int_equal(render(sources[i], &got[i], &diag), WHIM_ERR_OK);
    }
    assert_true(got[0].blocks > TIMES && got[1].blocks - got[0].blocks > TIMES);
    assert_true(got[3].blocks - got[2].blocks >= CHUNKS);
    const int64_t before = whim_work_done();
    assert_int_equal(whim_utf8_valid_prefix("grüße", 7),
                     7); /* of src/base, which is counted, too */
    assert_true(whim_work_done() - before > 1);
}

/* What is found soon costs little, however much text is behind it: a long document fits. */
static void many_short_finds_fit(void **state)
{
    static const char *const sources[] = {
        "{% set a = 'eightby\n' * 100000 %}{% set _ = a | replace('\n', '<n>') %}",
        "{% set a = 'word ' * 100000 %}{% set _ = a.split(' ') %}",
        "{% set a = 'word ' * 100000 %}{% set _ = a.count(' ') %}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        bill got;
        whim_diag diag = {{0}};
        if (render(sources[i], &got, &diag) != WHIM_ERR_OK) {
            fail_msg("%s: %s", sources[i], diag.text);
        }
        assert_true(got.steps < 2000 * 1000);
    }
}

static void time_is_the_last_line(void **state)
{
    (void)state;
    whim_template *tmpl;
    whim_diag diag = {{0}};
    whim_rendered out = {.n_span = 0};
    const char *source = "{% for i in range(9000) %}{% endfor %}";
    whim_template_input input = {.until = 1}; /* long ago */
    assert_int_equal(whim_template_compile(source, (int64_t)strlen(source), "t", &tmpl, &diag),
                     WHIM_ERR_OK);
    assert_int_equal(whim_template_render(tmpl, &input, &out, &diag), WHIM_ERR_FULL);
    assert_non_null(strstr(diag.text, "takes longer than is allowed"));
    input.until = 0;
    assert_int_equal(whim_template_render(tmpl, &input, &out, &diag), WHIM_ERR_OK);
    whim_rendered_deinit(&out);
    whim_template_destroy(tmpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_pay),
        cmocka_unit_test(tests_pay),
        cmocka_unit_test(methods_pay),
        cmocka_unit_test(operators_pay),
        cmocka_unit_test(statements_pay),
        cmocka_unit_test(sources_cost_their_length),
        cmocka_unit_test(long_work_ends_in_steps),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(many_short_finds_fit),
        cmocka_unit_test(time_is_the_last_line),
    };
    int failed = cmocka_run_group_tests(tests, measure_values, NULL);
    printf("the dearest steps took %.0f blocks each: %s\n", dearest, dearest_source);
    return failed;
}
