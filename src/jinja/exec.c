/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: what a template does to its output and its names. */
#include "jinja/eval.h"

static void scope_set(whim_jinja *j, whim_jscope *scope, const whim_jstr *name, whim_jval v)
{
    whim_jdict_set(j, &scope->vars, (whim_jval){.kind = WHIM_J_STR, .str = name}, v);
}

static whim_jscope *scope_open(whim_jinja *j, whim_jscope *parent)
{
    whim_jscope *scope = whim_jinja_alloc(j, sizeof *scope);
    *scope = (whim_jscope){.parent = parent};
    return scope;
}

static void assign(whim_jinja *j, whim_jscope *scope, const whim_jnode *target, whim_jval v)
{
    if (target->kind == WHIM_JN_NAME) {
        scope_set(j, scope, target->v.str, v);
        return;
    }
    if (target->kind == WHIM_JN_NSREF) {
        whim_jnode name = {.kind = WHIM_JN_NAME, .pos = target->pos, .v = target->v};
        whim_jval ns = whim_jinja_eval(j, scope, &name);
        if (ns.kind != WHIM_J_NAMESPACE) {
            whim_jinja_fail(j, "only an attribute of a namespace can be set, not of a %s",
                            whim_jval_type(ns));
        }
        whim_jdict_set(j, ns.dict, target->b->v, v);
        return;
    }
    j->pos = target->pos;
    const whim_jlist *items = whim_jval_iterate(j, v);
    int64_t i = 0;
    whim_jinja_enter(j);
    for (const whim_jnode *part = target->list; part != NULL; part = part->next, i++) {
        if (i < items->n) {
            assign(j, scope, part, items->v[i]);
        }
    }
    if (i != items->n) {
        j->pos = target->pos;
        whim_jinja_fail(j, "there are %lld values for %lld names", (long long)items->n,
                        (long long)i);
    }
    j->depth--;
}

/* The items that the condition of a loop keeps. */
static const whim_jlist *keep_items(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                                    const whim_jlist *items)
{
    if (node->c == NULL) {
        return items;
    }
    whim_jlist *kept = whim_jval_list(j, WHIM_JL_LIST).list;
    for (int64_t i = 0; i < items->n; i++) {
        whim_jscope *inner = scope_open(j, scope);
        assign(j, inner, node->a, items->v[i]);
        if (whim_jval_truth(whim_jinja_eval(j, inner, node->c))) {
            whim_jlist_push(j, kept, items->v[i]);
        }
    }
    return kept;
}

static void exec_for(whim_jinja *j, whim_jscope *scope, const whim_jnode *node, whim_jval over,
                     int64_t depth, whim_jbuf *out)
{
    static const whim_jstr loop_name = {.s = "loop", .n = 4, .trusted = true};
    const whim_jlist *items = keep_items(j, scope, node, whim_jval_iterate(j, over));
    whim_jloop *loop = whim_jinja_alloc(j, sizeof *loop);
    *loop = (whim_jloop){.items = items, .node = node, .scope = scope, .depth = depth};
    for (int64_t i = 0; i < items->n; i++) {
        whim_jscope *inner = scope_open(j, scope);
        loop->i = i;
        scope_set(j, inner, &loop_name, (whim_jval){.kind = WHIM_J_LOOP, .loop = loop});
        assign(j, inner, node->a, items->v[i]);
        if (whim_jinja_exec(j, inner, node->body, out) == WHIM_JFLOW_BREAK) {
            break;
        }
    }
    if (items->n == 0 && node->other != NULL) {
        (void)whim_jinja_exec(j, scope_open(j, scope), node->other, out);
    }
}

whim_jval whim_jinja_recurse(whim_jinja *j, const whim_jloop *loop, whim_jval items)
{
    whim_jbuf buf = {0};
    whim_jinja_enter(j);
    exec_for(j, loop->scope, loop->node, items, loop->depth + 1, &buf);
    j->depth--;
    return whim_jbuf_take(j, &buf);
}

/* Bind the arguments of a macro to its parameters in a new scope. */
static void bind_params(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                        const whim_jargs *args, whim_jdict *rest)
{
    int64_t i = 0, used = 0;
    for (const whim_jnode *param = node->list; param != NULL; param = param->next, i++) {
        const whim_jstr *name = param->v.str;
        const whim_jval *named = whim_jdict_get(j, &args->named, name->s, name->n);
        used += named != NULL;
        if (named != NULL && i < args->pos.n) {
            whim_jinja_fail(j, "the argument %.*s is given twice", (int)name->n, name->s);
        }
        whim_jval v = i < args->pos.n    ? args->pos.v[i]
                      : named != NULL    ? *named
                      : param->a != NULL ? whim_jinja_eval(j, scope, param->a)
                                         : whim_jval_undef(j, name->s, name->n);
        scope_set(j, scope, name, v);
    }
    for (int64_t k = 0; used < args->named.n && k < args->named.n; k++) {
        const whim_jstr *name = args->named.keys[k].str;
        if (whim_jdict_get(j, &scope->vars, name->s, name->n) == NULL) {
            whim_jdict_set(j, rest, args->named.keys[k], args->named.vals[k]);
        }
    }
}

whim_jval whim_jinja_macro(whim_jinja *j, const whim_jmacro *macro, const whim_jargs *args)
{
    static const whim_jstr caller_name = {.s = "caller", .n = 6, .trusted = true};
    static const whim_jstr varargs_name = {.s = "varargs", .n = 7, .trusted = true};
    static const whim_jstr kwargs_name = {.s = "kwargs", .n = 6, .trusted = true};
    const whim_jnode *node = macro->node;
    whim_jinja_enter(j);
    whim_jscope *scope = scope_open(j, macro->scope);
    whim_jval rest = whim_jval_dict(j, WHIM_J_DICT), extra = whim_jval_list(j, WHIM_JL_TUPLE);
    bind_params(j, scope, node, args, rest.dict);
    int64_t n_param = 0;
    for (const whim_jnode *param = node->list; param != NULL; param = param->next) {
        n_param++;
    }
    for (int64_t i = n_param; i < args->pos.n; i++) {
        whim_jlist_push(j, extra.list, args->pos.v[i]);
    }
    if ((node->op & WHIM_JUSE_CALLER) != 0) {
        const whim_jval *caller = whim_jdict_get(j, rest.dict, "caller", 6);
        scope_set(j, scope, &caller_name,
                  caller != NULL ? *caller : whim_jval_undef(j, "caller", 6));
        if (caller != NULL) {
            whim_jdict_remove(j, rest.dict, caller - rest.dict->vals);
        }
    }
    if ((node->op & WHIM_JUSE_VARARGS) != 0) {
        scope_set(j, scope, &varargs_name, extra);
    } else if (extra.list->n > 0) {
        whim_jinja_fail(j, "the macro %.*s takes at most %lld arguments", (int)node->v.str->n,
                        node->v.str->s, (long long)n_param);
    }
    if ((node->op & WHIM_JUSE_KWARGS) != 0) {
        scope_set(j, scope, &kwargs_name, rest);
    } else if (rest.dict->n > 0) {
        const whim_jstr *name = rest.dict->keys[0].str;
        whim_jinja_fail(j, "the macro %.*s has no argument %.*s", (int)node->v.str->n,
                        node->v.str->s, WHIM_JSHOWN(name));
    }
    whim_jbuf buf = {0};
    (void)whim_jinja_exec(j, scope, node->body, &buf);
    j->depth--;
    return whim_jbuf_take(j, &buf);
}

static whim_jval make_macro(whim_jinja *j, whim_jscope *scope, const whim_jnode *node)
{
    whim_jmacro *macro = whim_jinja_alloc(j, sizeof *macro);
    *macro = (whim_jmacro){.node = node, .scope = scope};
    return (whim_jval){.kind = WHIM_J_MACRO, .macro = macro};
}

void whim_jinja_set_blocks(whim_jinja *j, whim_jscope *scope, const whim_jnode *blocks)
{
    static const whim_jstr self_name = {.s = "self", .n = 4, .trusted = true};
    whim_jval self = whim_jval_dict(j, WHIM_J_DICT);
    for (; blocks != NULL; blocks = blocks->other) {
        whim_jdict_set(j, self.dict, blocks->v, make_macro(j, scope, blocks));
    }
    scope_set(j, scope, &self_name, self);
}

static void exec_block(whim_jinja *j, whim_jscope *scope, const whim_jnode *node, whim_jbuf *out)
{
    if ((node->op & WHIM_JBLOCK_REFUSED) != 0) {
        whim_jinja_fail(j, "the required block %.*s is not filled by any template",
                        WHIM_JSHOWN(node->v.str));
    }
    scope = (node->op & WHIM_JBLOCK_SCOPED) != 0 ? scope : j->top;
    (void)whim_jinja_exec(j, scope_open(j, scope), node->body, out);
}

static void exec_call_block(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                            whim_jbuf *out)
{
    whim_jargs args;
    whim_jval callee = whim_jinja_eval(j, scope, node->a->a);
    whim_jinja_eval_args(j, scope, node->a->list, &args);
    whim_jdict_set(j, &args.named, node->b->v, make_macro(j, scope, node->b));
    j->pos = node->pos;
    whim_jbuf_print(j, out, whim_jinja_call(j, callee, &args));
}

/* A text through the filters of a block; the innermost has no operand of its own. */
static whim_jval filter_text(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                             whim_jval text)
{
    if (node == NULL) {
        return text;
    }
    if (node->kind != WHIM_JN_FILTER) {
        j->pos = node->pos;
        whim_jinja_fail(j, "only filters can follow here");
    }
    whim_jinja_enter(j);
    whim_jargs args;
    text = filter_text(j, scope, node->a, text);
    whim_jinja_eval_args(j, scope, node->list, &args);
    j->pos = node->pos;
    text = whim_jinja_filter(j, node->v.str, text, &args);
    j->depth--;
    return text;
}

static whim_jval capture(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                         const whim_jnode *filter)
{
    whim_jbuf buf = {0};
    whim_jscope *inner = scope_open(j, scope);
    (void)whim_jinja_exec(j, inner, node->body, &buf);
    return filter_text(j, inner, filter, whim_jbuf_take(j, &buf));
}

static whim_jflow exec_with(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                            whim_jbuf *out)
{
    whim_jscope *inner = scope_open(j, scope);
    for (const whim_jnode *set = node->list; set != NULL; set = set->next) {
        assign(j, inner, set->a, whim_jinja_eval(j, scope, set->b));
    }
    return whim_jinja_exec(j, inner, node->body, out);
}

static whim_jflow exec_node(whim_jinja *j, whim_jscope *scope, const whim_jnode *node,
                            whim_jbuf *out)
{
    switch (node->kind) {
    case WHIM_JN_DATA:
        whim_jbuf_add_str(j, out, node->v.str);
        break;
    case WHIM_JN_PRINT:
        whim_jbuf_print(j, out, whim_jinja_eval(j, scope, node->a));
        break;
    case WHIM_JN_IF:
        return whim_jinja_exec(
            j, scope,
            whim_jval_truth(whim_jinja_eval(j, scope, node->a)) ? node->body : node->other, out);
    case WHIM_JN_FOR:
        exec_for(j, scope, node, whim_jinja_eval(j, scope, node->b), 0, out);
        break;
    case WHIM_JN_SET:
        assign(j, scope, node->a, whim_jinja_eval(j, scope, node->b));
        break;
    case WHIM_JN_SET_BLOCK:
        assign(j, scope, node->a, capture(j, scope, node, node->b));
        break;
    case WHIM_JN_FILTER_BLOCK:
        whim_jbuf_print(j, out, capture(j, scope, node, node->a));
        break;
    case WHIM_JN_MACRO:
        scope_set(j, scope, node->v.str, make_macro(j, scope, node));
        break;
    case WHIM_JN_CALL_BLOCK:
        exec_call_block(j, scope, node, out);
        break;
    case WHIM_JN_WITH:
        return exec_with(j, scope, node, out);
    case WHIM_JN_SCOPE:
        (void)whim_jinja_exec(j, scope_open(j, scope), node->body, out);
        break;
    case WHIM_JN_BLOCK:
        exec_block(j, scope, node, out);
        break;
    case WHIM_JN_BREAK:
        return WHIM_JFLOW_BREAK;
    case WHIM_JN_CONTINUE:
        return WHIM_JFLOW_CONTINUE;
    default:
        whim_jinja_fail(j, "this is not a statement");
    }
    return WHIM_JFLOW_ON;
}

whim_jflow whim_jinja_exec(whim_jinja *j, whim_jscope *scope, const whim_jnode *body,
                           whim_jbuf *out)
{
    whim_jinja_enter(j);
    whim_jflow now = WHIM_JFLOW_ON;
    for (; body != NULL && now == WHIM_JFLOW_ON; body = body->next) {
        whim_jinja_pay(j, 1);
        j->pos = body->pos;
        now = exec_node(j, scope, body, out);
    }
    j->depth--;
    return now;
}
