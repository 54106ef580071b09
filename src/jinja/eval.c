/* SPDX-License-Identifier: Apache-2.0 */
/* The value of an expression. */
#include "jinja/eval.h"

static whim_jval eval_name(whim_jinja *j, const whim_jscope *scope, const whim_jstr *name)
{
    for (; scope != NULL; scope = scope->parent) {
        const whim_jval *v = whim_jdict_get(j, &scope->vars, name->s, name->n);
        if (v != NULL) {
            return *v;
        }
    }
    const whim_jentry *entry = whim_jentry_find(whim_jglobals, name);
    return entry == NULL ? whim_jval_undef(j, name->s, name->n)
                         : whim_jval_func(j, entry, whim_jval_none(false));
}

static whim_jval eval_list(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jval out = whim_jval_list(j, node->kind == WHIM_JN_TUPLE ? WHIM_JL_TUPLE : WHIM_JL_LIST);
    for (const whim_jnode *item = node->list; item != NULL; item = item->next) {
        whim_jlist_push(j, out.list, whim_jinja_eval(j, scope, item));
    }
    return out;
}

static whim_jval eval_dict(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jval out = whim_jval_dict(j, WHIM_J_DICT);
    for (const whim_jnode *pair = node->list; pair != NULL; pair = pair->next) {
        whim_jval key = whim_jinja_eval(j, scope, pair->a);
        whim_jval value = whim_jinja_eval(j, scope, pair->b);
        j->pos = pair->pos;
        whim_jdict_set(j, out.dict, key, value);
    }
    return out;
}

static whim_jval eval_concat(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jbuf buf = {0};
    for (const whim_jnode *item = node->list; item != NULL; item = item->next) {
        whim_jbuf_print(j, &buf, whim_jinja_eval(j, scope, item));
    }
    return whim_jbuf_take(j, &buf);
}

static whim_jval eval_compare(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jval left = whim_jinja_eval(j, scope, node->a);
    bool trusted = whim_jval_trusted(j, left);
    for (const whim_jnode *operand = node->list; operand != NULL; operand = operand->next) {
        whim_jval right = whim_jinja_eval(j, scope, operand->a);
        trusted = trusted && whim_jval_trusted(j, right);
        j->pos = operand->pos;
        if (!whim_jinja_compare(j, operand->op, left, right)) {
            return whim_jval_bool(false, trusted);
        }
        left = right;
    }
    return whim_jval_bool(true, trusted);
}

static void spread(whim_jinja *j, int op, whim_jval v, whim_jargs *args)
{
    if (op == 1) {
        whim_jlist_extend(j, &args->pos, whim_jval_iterate(j, v));
        return;
    }
    if (v.kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "** wants a dict, not a %s", whim_jval_type(v));
    }
    for (int64_t i = 0; i < v.dict->n; i++) {
        (void)whim_jarg_str(j, v.dict->keys[i], "the name of an argument");
    }
    whim_jdict_update(j, &args->named, v.dict);
}

void whim_jinja_eval_args(whim_jinja *j, whim_jscope *scope, const whim_jnode *list,
                          whim_jargs *args)
{
    *args = (whim_jargs){0};
    for (const whim_jnode *arg = list; arg != NULL; arg = arg->next) {
        if (arg->kind == WHIM_JN_KWARG) {
            whim_jdict_set(j, &args->named, arg->v, whim_jinja_eval(j, scope, arg->a));
        } else if (arg->kind == WHIM_JN_SPREAD) {
            spread(j, arg->op, whim_jinja_eval(j, scope, arg->a), args);
        } else {
            whim_jlist_push(j, &args->pos, whim_jinja_eval(j, scope, arg));
        }
    }
}

static whim_jval eval_slice(whim_jinja *j, whim_jscope *scope, const whim_jnode *node, whim_jval of)
{
    whim_jval parts[3] = {{0}};
    const whim_jnode *const nodes[] = {node->b->a, node->b->b, node->b->c};
    for (int i = 0; i < 3; i++) {
        if (nodes[i] != NULL) {
            parts[i] = whim_jinja_eval(j, scope, nodes[i]);
        }
    }
    j->pos = node->pos;
    return whim_jinja_slice(j, of, parts[0], parts[1], parts[2]);
}

static whim_jval eval_called(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jargs args;
    whim_jval of = whim_jinja_eval(j, scope, node->a);
    whim_jinja_eval_args(j, scope, node->list, &args);
    j->pos = node->pos;
    if (node->kind == WHIM_JN_FILTER) {
        return whim_jinja_filter(j, node->v.str, of, &args);
    }
    if (node->kind == WHIM_JN_TEST) {
        bool trusted = node->list == NULL && whim_jval_trusted(j, of);
        return whim_jval_bool(whim_jinja_test(j, node->v.str, of, &args), trusted);
    }
    return whim_jinja_call(j, of, &args);
}

static whim_jval eval_branching(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jval a = whim_jinja_eval(j, scope, node->a);
    bool truth = whim_jval_truth(a);
    if (node->kind == WHIM_JN_COND) {
        if (!truth && node->c == NULL) {
            static const char what[] = "an if without else";
            return whim_jval_undef(j, what, sizeof what - 1);
        }
        return whim_jinja_eval(j, scope, truth ? node->b : node->c);
    }
    return truth == (node->kind == WHIM_JN_OR) ? a : whim_jinja_eval(j, scope, node->b);
}

static whim_jval eval_operation(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jval a = whim_jinja_eval(j, scope, node->a);
    if (node->kind == WHIM_JN_UNARY) {
        j->pos = node->pos;
        return node->op == '!' ? whim_jval_bool(!whim_jval_truth(a), whim_jval_trusted(j, a))
                               : whim_jinja_negate(j, node->op, a);
    }
    if (node->kind == WHIM_JN_INDEX && node->b->kind == WHIM_JN_SLICE) {
        return eval_slice(j, scope, node, a);
    }
    whim_jval b = whim_jinja_eval(j, scope, node->b);
    j->pos = node->pos;
    return node->kind == WHIM_JN_INDEX ? whim_jinja_item(j, a, b)
                                       : whim_jinja_binary(j, node->op, a, b);
}

static whim_jval eval_node(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    switch (node->kind) {
    case WHIM_JN_CONST:
        return node->v;
    case WHIM_JN_NAME:
        return eval_name(j, scope, node->v.str);
    case WHIM_JN_LIST:
    case WHIM_JN_TUPLE:
        return eval_list(j, scope, node);
    case WHIM_JN_DICT:
        return eval_dict(j, scope, node);
    case WHIM_JN_CONCAT:
        return eval_concat(j, scope, node);
    case WHIM_JN_COMPARE:
        return eval_compare(j, scope, node);
    case WHIM_JN_AND:
    case WHIM_JN_OR:
    case WHIM_JN_COND:
        return eval_branching(j, scope, node);
    case WHIM_JN_FILTER:
    case WHIM_JN_TEST:
    case WHIM_JN_CALL:
        return eval_called(j, scope, node);
    case WHIM_JN_ATTR: {
        whim_jval of = whim_jinja_eval(j, scope, node->a);
        j->pos = node->pos;
        return whim_jinja_attr(j, of, node->v.str);
    }
    case WHIM_JN_UNARY:
    case WHIM_JN_BINARY:
    case WHIM_JN_INDEX:
        return eval_operation(j, scope, node);
    default:
        whim_jinja_fail(j, "a slice stands where a value is expected");
    }
}

whim_jval whim_jinja_eval(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jinja_enter(j);
    j->pos = node->pos;
    whim_jval v = eval_node(j, scope, node);
    j->depth--;
    return v;
}
