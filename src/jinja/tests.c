/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: what may stand after `is`. */
#include "jinja/lib.h"

#include <utf8proc.h>

/* One row per kind: a function each would say the same ten times. */
#define KIND_TEST(name, cond)                                        \
    static whim_jval test_##name(whim_jinja *j, const whim_jcall *c) \
    {                                                                \
        (void)j;                                                     \
        const whim_jval v = c->self;                                 \
        return whim_jval_bool((cond), true);                         \
    }

KIND_TEST(defined, v.kind != WHIM_J_UNDEF)
KIND_TEST(undefined, v.kind == WHIM_J_UNDEF)
KIND_TEST(none, v.kind == WHIM_J_NONE)
KIND_TEST(boolean, v.kind == WHIM_J_BOOL)
KIND_TEST(true, v.kind == WHIM_J_BOOL && v.b)
KIND_TEST(false, v.kind == WHIM_J_BOOL && !v.b)
KIND_TEST(integer, v.kind == WHIM_J_INT)
KIND_TEST(float, v.kind == WHIM_J_FLOAT)
KIND_TEST(number, whim_jval_is_number(v))
KIND_TEST(string, v.kind == WHIM_J_STR)
KIND_TEST(mapping, v.kind == WHIM_J_DICT)
KIND_TEST(iterable, whim_jval_is_iterable(v))
KIND_TEST(sequence,
          whim_jval_is_iterable(v) && (v.kind != WHIM_J_LIST || v.list->kind <= WHIM_JL_RANGE))
KIND_TEST(callable, v.kind == WHIM_J_FUNC || v.kind == WHIM_J_MACRO || v.kind == WHIM_J_UNDEF ||
                        v.kind == WHIM_J_JOINER || v.kind == WHIM_J_LOOP)
KIND_TEST(escaped, false && v.b)

#define COMPARE_TEST(name, op)                                                    \
    static whim_jval test_##name(whim_jinja *j, const whim_jcall *c)              \
    {                                                                             \
        return whim_jval_bool(whim_jinja_compare(j, op, c->self, c->a[0]), true); \
    }

COMPARE_TEST(eq, WHIM_JOP2('=', '='))
COMPARE_TEST(ne, WHIM_JOP2('!', '='))
COMPARE_TEST(lt, '<')
COMPARE_TEST(gt, '>')
COMPARE_TEST(le, WHIM_JOP2('<', '='))
COMPARE_TEST(ge, WHIM_JOP2('>', '='))
COMPARE_TEST(in, 'i')

static bool remainder_is(whim_jinja *j, whim_jval v, whim_jval by, int64_t wanted)
{
    whim_jval r = whim_jinja_binary(j, '%', v, by);
    return whim_jval_equal(j, r, whim_jval_int(wanted, true));
}

static whim_jval test_even(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(remainder_is(j, c->self, whim_jval_int(2, true), 0), true);
}

static whim_jval test_odd(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(remainder_is(j, c->self, whim_jval_int(2, true), 1), true);
}

static whim_jval test_divisibleby(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(remainder_is(j, c->self, c->a[0], 0), true);
}

/* Identity: the same object, or equal values of a kind that Python keeps once. */
static whim_jval test_sameas(whim_jinja *j, const whim_jcall *c)
{
    whim_jval a = c->self, b = c->a[0];
    if (a.kind != b.kind || a.kind == WHIM_J_UNDEF || a.kind == WHIM_J_FLOAT) {
        return whim_jval_bool(false, true);
    }
    bool scalar = a.kind <= WHIM_J_STR;
    return whim_jval_bool(scalar ? whim_jval_equal(j, a, b) : a.dict == b.dict, true);
}

/* Whether all letters are of one case, and there is one. */
static bool has_case(const whim_jstr *str, bool upper)
{
    bool any = false;
    for (int64_t at = 0; at < str->n;) {
        int32_t c = whim_jutf8_next(str->s, str->n, &at);
        if (c < 0) {
            continue;
        }
        bool is_upper = utf8proc_tolower(c) != c, is_lower = utf8proc_toupper(c) != c;
        if (upper ? is_lower : is_upper) {
            return false;
        }
        any |= is_upper || is_lower;
    }
    return any;
}

static whim_jval test_lower(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(has_case(whim_jval_to_str(j, c->self), false), true);
}

static whim_jval test_upper(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(has_case(whim_jval_to_str(j, c->self), true), true);
}

static whim_jval test_filter(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *name = whim_jarg_str(j, c->self, "the name of a filter");
    return whim_jval_bool(whim_jentry_find(whim_jfilters_text, name) != NULL ||
                              whim_jentry_find(whim_jfilters_list, name) != NULL,
                          true);
}

static whim_jval test_test(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *name = whim_jarg_str(j, c->self, "the name of a test");
    return whim_jval_bool(whim_jentry_find(whim_jtests, name) != NULL, true);
}

const whim_jentry whim_jtests[] = {
    {"defined", "", 0, test_defined},
    {"undefined", "", 0, test_undefined},
    {"none", "", 0, test_none},
    {"string", "", 0, test_string},
    {"mapping", "", 0, test_mapping},
    {"iterable", "", 0, test_iterable},
    {"sequence", "", 0, test_sequence},
    {"true", "", 0, test_true},
    {"false", "", 0, test_false},
    {"boolean", "", 0, test_boolean},
    {"number", "", 0, test_number},
    {"integer", "", 0, test_integer},
    {"float", "", 0, test_float},
    {"callable", "", 0, test_callable},
    {"escaped", "", 0, test_escaped},
    {"equalto", "other", 1, test_eq},
    {"eq", "other", 1, test_eq},
    {"==", "other", 1, test_eq},
    {"ne", "other", 1, test_ne},
    {"!=", "other", 1, test_ne},
    {"lt", "other", 1, test_lt},
    {"<", "other", 1, test_lt},
    {"lessthan", "other", 1, test_lt},
    {"gt", "other", 1, test_gt},
    {">", "other", 1, test_gt},
    {"greaterthan", "other", 1, test_gt},
    {"le", "other", 1, test_le},
    {"<=", "other", 1, test_le},
    {"ge", "other", 1, test_ge},
    {">=", "other", 1, test_ge},
    {"in", "seq", 1, test_in},
    {"even", "", 0, test_even},
    {"odd", "", 0, test_odd},
    {"divisibleby", "num", 1, test_divisibleby},
    {"sameas", "other", 1, test_sameas},
    {"lower", "", 0, test_lower},
    {"upper", "", 0, test_upper},
    {"filter", "", 0, test_filter},
    {"test", "", 0, test_test},
    {NULL, NULL, 0, NULL},
};
