/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: what may stand after `is`. */
#include "jinja/eval.h"

enum {
    CALLABLE = 1 << WHIM_J_FUNC | 1 << WHIM_J_MACRO | 1 << WHIM_J_UNDEF | 1 << WHIM_J_JOINER |
               1 << WHIM_J_LOOP
};

static whim_jval yes_if(bool cond)
{
    return whim_jval_bool(cond, true);
}

/* Whether it is of one of the kinds, each a bit of `mode`. */
static whim_jval test_kind(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return yes_if((c->mode & 1 << c->self.kind) != 0);
}

static whim_jval test_truth(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return yes_if(c->self.kind == WHIM_J_BOOL && c->self.b == (c->mode != 0));
}

static whim_jval test_escaped(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return yes_if(c->self.kind == WHIM_J_STR && c->self.str->safe);
}

/* Lists up to the kind `mode`, and all else that can be gone through. */
static whim_jval test_iterable(whim_jinja *j, const whim_jcall *c)
{
    const whim_jval v = c->self;
    (void)j;
    return yes_if(whim_jval_is_iterable(v) &&
                  (v.kind != WHIM_J_LIST || (int)v.list->kind <= c->mode));
}

static whim_jval test_compare(whim_jinja *j, const whim_jcall *c)
{
    return yes_if(whim_jinja_compare(j, c->mode, c->self, c->a[0]));
}

/* Whether a division by the argument (by 2 without one) leaves `mode`. */
static whim_jval test_remainder(whim_jinja *j, const whim_jcall *c)
{
    whim_jval by = c->a[0].kind == WHIM_J_MISSING ? whim_jval_int(2, true) : c->a[0];
    whim_jval r = whim_jinja_binary(j, '%', c->self, by);
    return yes_if(whim_jval_equal(j, r, whim_jval_int(c->mode, true)));
}

/* Identity: the same object, or equal values of a kind that Python keeps once. */
static whim_jval test_sameas(whim_jinja *j, const whim_jcall *c)
{
    whim_jval a = c->self, b = c->a[0];
    if (a.kind != b.kind || a.kind == WHIM_J_UNDEF || a.kind == WHIM_J_FLOAT) {
        return yes_if(false);
    }
    bool scalar = a.kind <= WHIM_J_STR;
    return yes_if(scalar ? whim_jval_equal(j, a, b) : a.dict == b.dict);
}

static whim_jval test_case(whim_jinja *j, const whim_jcall *c)
{
    return yes_if(whim_jstr_has_case(j, whim_jval_to_str(j, c->self), c->mode == 'u'));
}

static whim_jval test_filter(whim_jinja *j, const whim_jcall *c)
{
    return yes_if(whim_jfilter_find(whim_jarg_str(j, c->self, "the name of a filter")) != NULL);
}

static whim_jval test_test(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *name = whim_jarg_str(j, c->self, "the name of a test");
    return yes_if(whim_jentry_find(whim_jtests, name) != NULL);
}

const whim_jentry whim_jtests[] = {
    {"defined", "", 0, test_kind, ~(1 << WHIM_J_UNDEF)},
    {"undefined", "", 0, test_kind, 1 << WHIM_J_UNDEF},
    {"none", "", 0, test_kind, 1 << WHIM_J_NONE},
    {"string", "", 0, test_kind, 1 << WHIM_J_STR},
    {"mapping", "", 0, test_kind, 1 << WHIM_J_DICT},
    {"iterable", "", 0, test_iterable, WHIM_JL_STREAM},
    {"sequence", "", 0, test_iterable, WHIM_JL_RANGE},
    {"true", "", 0, test_truth, true},
    {"false", "", 0, test_truth, false},
    {"boolean", "", 0, test_kind, 1 << WHIM_J_BOOL},
    {"number", "", 0, test_kind, 1 << WHIM_J_INT | 1 << WHIM_J_FLOAT | 1 << WHIM_J_BOOL},
    {"integer", "", 0, test_kind, 1 << WHIM_J_INT},
    {"float", "", 0, test_kind, 1 << WHIM_J_FLOAT},
    {"callable", "", 0, test_kind, CALLABLE},
    {"escaped", "", 0, test_escaped, 0},
    {"equalto eq ==", "other", 1, test_compare, WHIM_JOP2('=', '=')},
    {"ne !=", "other", 1, test_compare, WHIM_JOP2('!', '=')},
    {"lt < lessthan", "other", 1, test_compare, '<'},
    {"gt > greaterthan", "other", 1, test_compare, '>'},
    {"le <=", "other", 1, test_compare, WHIM_JOP2('<', '=')},
    {"ge >=", "other", 1, test_compare, WHIM_JOP2('>', '=')},
    {"in", "seq", 1, test_compare, 'i'},
    {"even", "", 0, test_remainder, 0},
    {"odd", "", 0, test_remainder, 1},
    {"divisibleby", "num", 1, test_remainder, 0},
    {"sameas", "other", 1, test_sameas, 0},
    {"lower", "", 0, test_case, 'l'},
    {"upper", "", 0, test_case, 'u'},
    {"filter", "", 0, test_filter, 0},
    {"test", "", 0, test_test, 0},
    {NULL, NULL, 0, NULL, 0},
};
