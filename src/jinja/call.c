/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: from given arguments to a function's parameters, and who is called. */
#include "base/str.h"
#include "jinja/eval.h"

#include <string.h>

enum { LOOK_UP = 8 }; /* steps: a table of some dozens of names */

const whim_jentry *whim_jentry_find(const whim_jentry *table, const whim_jstr *name)
{
    while (table->names != NULL && whim_word_place(table->names, name->s, name->n) < 0) {
        table++;
    }
    return table->names == NULL ? NULL : table;
}

const whim_jentry *whim_jfilter_find(const whim_jstr *name)
{
    const whim_jentry *entry = whim_jentry_find(whim_jfilters_text, name);
    entry = entry != NULL ? entry : whim_jentry_find(whim_jfilters_list, name);
    return entry != NULL ? entry : whim_jentry_find(whim_jfilters_prose, name);
}

whim_jval whim_jval_func(whim_jinja *j, const whim_jentry *entry, whim_jval self)
{
    whim_jfunc *func = whim_jinja_alloc(j, sizeof *func);
    *func = (whim_jfunc){.entry = entry, .self = self};
    return (whim_jval){.kind = WHIM_J_FUNC, .func = func};
}

static int param_count(const char *params)
{
    int count = *params != '\0';
    for (; *params != '\0'; params++) {
        count += *params == ' ';
    }
    return count;
}

static whim_jval invoke(whim_jinja *j, const whim_jentry *entry, whim_jval self,
                        const whim_jargs *args)
{
    whim_jcall call = {.self = self, .raw = args, .mode = entry->mode};
    if (entry->params == NULL) {
        return entry->fn(j, &call);
    }
    int max = param_count(entry->params), n_name = (int)strcspn(entry->names, " ");
    if (args->pos.n > max) {
        whim_jinja_fail(j, "%.*s takes at most %d arguments, not %lld", n_name, entry->names, max,
                        (long long)args->pos.n);
    }
    for (int64_t i = 0; i < args->pos.n; i++) {
        call.a[i] = args->pos.v[i];
    }
    for (int64_t i = 0; i < args->named.n; i++) {
        const whim_jstr *name = args->named.keys[i].str;
        int place = whim_word_place(entry->params, name->s, name->n);
        if (place < 0 || call.a[place].kind != WHIM_J_MISSING) {
            whim_jinja_fail(j, "%.*s has no argument %.*s, or it is given twice", n_name,
                            entry->names, WHIM_JSHOWN(name));
        }
        call.a[place] = args->named.vals[i];
    }
    for (int i = 0; i < entry->required; i++) {
        if (call.a[i].kind == WHIM_J_MISSING) {
            whim_jinja_fail(j, "%.*s wants %d arguments (%s)", n_name, entry->names,
                            entry->required, entry->params);
        }
    }
    return entry->fn(j, &call);
}

whim_jval whim_jinja_filter(whim_jinja *j, const whim_jstr *name, whim_jval self,
                            const whim_jargs *args)
{
    whim_jinja_pay(j, LOOK_UP);
    const whim_jentry *entry = whim_jfilter_find(name);
    if (entry == NULL) {
        whim_jinja_fail(j, "there is no filter \"%.*s\"", WHIM_JSHOWN(name));
    }
    return invoke(j, entry, self, args);
}

bool whim_jinja_test(whim_jinja *j, const whim_jstr *name, whim_jval self, const whim_jargs *args)
{
    whim_jinja_pay(j, LOOK_UP);
    const whim_jentry *entry = whim_jentry_find(whim_jtests, name);
    if (entry == NULL) {
        whim_jinja_fail(j, "there is no test \"%.*s\"", WHIM_JSHOWN(name));
    }
    return whim_jval_truth(invoke(j, entry, self, args));
}

static whim_jval call_joiner(whim_jinja *j, whim_jlist *joiner)
{
    if (joiner->start++ == 0) {
        return whim_jval_str(j, "", 0, true);
    }
    return joiner->v[0];
}

whim_jval whim_jinja_call(whim_jinja *j, whim_jval callee, const whim_jargs *args)
{
    switch (callee.kind) {
    case WHIM_J_FUNC:
        return invoke(j, callee.func->entry, callee.func->self, args);
    case WHIM_J_MACRO:
        return whim_jinja_macro(j, callee.macro, args);
    case WHIM_J_JOINER:
        return call_joiner(j, callee.list);
    case WHIM_J_LOOP:
        if (callee.loop->node->op == 0 || args->pos.n != 1) {
            whim_jinja_fail(j, "loop() wants a loop marked recursive, and one argument");
        }
        return whim_jinja_recurse(j, callee.loop, args->pos.v[0]);
    case WHIM_J_UNDEF:
        whim_jinja_fail(j, "\"%.*s\" is undefined and cannot be called", WHIM_JSHOWN(callee.str));
    default:
        whim_jinja_fail(j, "a %s cannot be called", whim_jval_type(callee));
    }
}

int64_t whim_jarg_int(whim_jinja *j, whim_jval v, int64_t missing, const char *what)
{
    if (v.kind == WHIM_J_MISSING) {
        return missing;
    }
    if (v.kind != WHIM_J_INT && v.kind != WHIM_J_BOOL) {
        whim_jinja_fail(j, "%s must be an integer, not a %s", what, whim_jval_type(v));
    }
    return v.kind == WHIM_J_INT ? v.i : (int64_t)v.b;
}

const whim_jstr *whim_jarg_str(whim_jinja *j, whim_jval v, const char *what)
{
    if (v.kind != WHIM_J_STR) {
        whim_jinja_fail(j, "%s must be a string, not a %s", what, whim_jval_type(v));
    }
    return v.str;
}

bool whim_jarg_given(whim_jval v)
{
    return v.kind != WHIM_J_MISSING && v.kind != WHIM_J_NONE;
}

whim_jval whim_jarg_or(whim_jval v, whim_jval missing)
{
    return v.kind == WHIM_J_MISSING ? missing : v;
}

const whim_jstr *whim_jarg_opt_str(whim_jinja *j, whim_jval v, const char *what)
{
    return whim_jarg_given(v) ? whim_jarg_str(j, v, what) : NULL;
}
