/* SPDX-License-Identifier: Apache-2.0 */
/* What binds tightest in an expression: constants, names, brackets, . [] (), filters and tests. */
#include "jinja/ast.h"

#include <stdio.h>
#include <string.h>

whim_jnode *whim_jparse_new(whim_jparser *p, whim_jnode_kind kind)
{
    whim_jnode *node = whim_jinja_alloc(p->j, sizeof *node);
    *node = (whim_jnode){.kind = kind, .pos = p->tok->pos};
    return node;
}

void whim_jinja_op_name(char out[3], int op)
{
    out[0] = (char)(op > 255 ? op / 256 : op);
    out[1] = (char)(op > 255 ? op % 256 : 0);
    out[2] = '\0';
}

void whim_jparse_enter(whim_jparser *p)
{
    if (++p->j->depth > WHIM_JINJA_PARSE_DEPTH) {
        p->j->pos = p->tok->pos;
        whim_jinja_fail(p->j, "the template nests deeper than %d levels",
                        (int)WHIM_JINJA_PARSE_DEPTH);
    }
}

_Noreturn void whim_jparse_fail(whim_jparser *p, const char *expected)
{
    static const char *const kinds[] = {
        [WHIM_JT_EOF] = "the end of the template",
        [WHIM_JT_DATA] = "text",
        [WHIM_JT_BLOCK_BEGIN] = "\"{%\"",
        [WHIM_JT_BLOCK_END] = "\"%}\"",
        [WHIM_JT_PRINT_BEGIN] = "\"{{\"",
        [WHIM_JT_PRINT_END] = "\"}}\"",
        [WHIM_JT_STRING] = "a string",
        [WHIM_JT_NUMBER] = "a number",
    };
    const whim_jtok *tok = p->tok;
    p->j->pos = tok->pos;
    if (tok->kind == WHIM_JT_NAME) {
        int n = tok->v.str->n > 60 ? 60 : (int)tok->v.str->n;
        whim_jinja_fail(p->j, "expected %s, found \"%.*s\"", expected, n, tok->v.str->s);
    }
    if (tok->kind == WHIM_JT_OP) {
        char op[3];
        whim_jinja_op_name(op, tok->op);
        whim_jinja_fail(p->j, "expected %s, found \"%s\"", expected, op);
    }
    whim_jinja_fail(p->j, "expected %s, found %s", expected, kinds[tok->kind]);
}

bool whim_jparse_is_op(const whim_jparser *p, int op)
{
    return p->tok->kind == WHIM_JT_OP && p->tok->op == op;
}

bool whim_jparse_is_name(const whim_jparser *p, const char *name)
{
    return p->tok->kind == WHIM_JT_NAME && whim_jstr_is(p->tok->v.str, name);
}

bool whim_jparse_skip_op(whim_jparser *p, int op)
{
    bool yes = whim_jparse_is_op(p, op);
    p->tok += yes;
    return yes;
}

bool whim_jparse_skip_name(whim_jparser *p, const char *name)
{
    bool yes = whim_jparse_is_name(p, name);
    p->tok += yes;
    return yes;
}

void whim_jparse_expect_op(whim_jparser *p, int op)
{
    if (!whim_jparse_skip_op(p, op)) {
        char expected[] = {'"', (char)op, '"', '\0'};
        whim_jparse_fail(p, expected);
    }
}

whim_jval whim_jparse_expect_name(whim_jparser *p)
{
    if (p->tok->kind != WHIM_JT_NAME) {
        whim_jparse_fail(p, "a name");
    }
    return (p->tok++)->v;
}

void whim_jparse_append(whim_jnode ***tail, whim_jnode *node)
{
    **tail = node;
    *tail = &node->next;
}

/* Whether another item of a list comes, behind its comma; else the bracket at the end is read. */
static bool next_item(whim_jparser *p, bool first, int close)
{
    if (!first && !whim_jparse_is_op(p, close) && !whim_jparse_skip_op(p, ',')) {
        char expected[] = {'"', ',', '"', ' ', 'o', 'r', ' ', '"', (char)close, '"', '\0'};
        whim_jparse_fail(p, expected);
    }
    return !whim_jparse_skip_op(p, close);
}

static whim_jnode *parse_items(whim_jparser *p, whim_jnode_kind kind, int close)
{
    whim_jnode *node = whim_jparse_new(p, kind), **tail = &node->list;
    p->tok++;
    while (next_item(p, node->list == NULL, close)) {
        if (kind == WHIM_JN_DICT) {
            whim_jnode *pair = whim_jparse_new(p, WHIM_JN_PAIR);
            pair->a = whim_jparse_expr(p, true);
            whim_jparse_expect_op(p, ':');
            pair->b = whim_jparse_expr(p, true);
            whim_jparse_append(&tail, pair);
        } else {
            whim_jparse_append(&tail, whim_jparse_expr(p, true));
        }
    }
    return node;
}

bool whim_jparse_constant(const whim_jstr *word, whim_jval *v)
{
    static const struct {
        const char *lower, *upper;
        uint8_t kind;
        bool b;
    } rows[] = {{"true", "True", WHIM_J_BOOL, true},
                {"false", "False", WHIM_J_BOOL, false},
                {"none", "None", WHIM_J_NONE, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (whim_jstr_is(word, rows[i].lower) || whim_jstr_is(word, rows[i].upper)) {
            *v = (whim_jval){.kind = rows[i].kind, .trusted = true, .b = rows[i].b};
            return true;
        }
    }
    return false;
}

static whim_jnode *parse_name(whim_jparser *p)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_NAME);
    if (whim_jparse_constant(p->tok->v.str, &node->v)) {
        node->kind = WHIM_JN_CONST;
        p->tok++;
        return node;
    }
    p->macro_uses |= whim_jparse_is_name(p, "varargs") ? WHIM_JUSE_VARARGS : 0;
    p->macro_uses |= whim_jparse_is_name(p, "kwargs") ? WHIM_JUSE_KWARGS : 0;
    p->macro_uses |= whim_jparse_is_name(p, "caller") ? WHIM_JUSE_CALLER : 0;
    node->v = (p->tok++)->v;
    return node;
}

whim_jnode *whim_jparse_atom(whim_jparser *p)
{
    switch (p->tok->kind) {
    case WHIM_JT_NAME:
        return parse_name(p);
    case WHIM_JT_NUMBER: {
        whim_jnode *node = whim_jparse_new(p, WHIM_JN_CONST);
        node->v = (p->tok++)->v;
        return node;
    }
    case WHIM_JT_STRING: {
        whim_jnode *node = whim_jparse_new(p, WHIM_JN_CONST);
        whim_jbuf buf = {0};
        for (; p->tok->kind == WHIM_JT_STRING; p->tok++) {
            whim_jbuf_add_str(p->j, &buf, p->tok->v.str);
        }
        node->v = whim_jbuf_take(p->j, &buf);
        return node;
    }
    case WHIM_JT_OP:
        if (whim_jparse_is_op(p, '[')) {
            return parse_items(p, WHIM_JN_LIST, ']');
        }
        if (whim_jparse_is_op(p, '{')) {
            return parse_items(p, WHIM_JN_DICT, '}');
        }
        if (whim_jparse_skip_op(p, '(')) {
            whim_jnode *node = whim_jparse_tuple(p, true, NULL, true);
            whim_jparse_expect_op(p, ')');
            return node;
        }
        break;
    default:
        break;
    }
    whim_jparse_fail(p, "an expression");
}

/* One of the things between [ and ], which may be a slice. */
static whim_jnode *parse_subscript(whim_jparser *p)
{
    whim_jnode *slice = whim_jparse_new(p, WHIM_JN_SLICE), *first = NULL;
    if (!whim_jparse_is_op(p, ':')) {
        first = whim_jparse_expr(p, true);
        if (!whim_jparse_is_op(p, ':')) {
            return first;
        }
    }
    slice->a = first;
    p->tok++;
    whim_jnode **parts[] = {&slice->b, &slice->c};
    for (int i = 0; i < 2; i++) {
        if (!whim_jparse_is_op(p, ':') && !whim_jparse_is_op(p, ']') &&
            !whim_jparse_is_op(p, ',')) {
            *parts[i] = whim_jparse_expr(p, true);
        }
        if (i == 0 && !whim_jparse_skip_op(p, ':')) {
            break;
        }
    }
    return slice;
}

static whim_jnode *parse_dot(whim_jparser *p, whim_jnode *of)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_ATTR);
    node->a = of;
    p->tok++;
    if (p->tok->kind == WHIM_JT_NUMBER && p->tok->v.kind == WHIM_J_INT) {
        node->kind = WHIM_JN_INDEX;
        node->b = whim_jparse_atom(p);
    } else {
        node->v = whim_jparse_expect_name(p);
    }
    return node;
}

static whim_jnode *parse_index(whim_jparser *p, whim_jnode *of)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_INDEX);
    node->a = of;
    p->tok++;
    node->b = parse_subscript(p);
    if (whim_jparse_is_op(p, ',')) {
        whim_jnode *tuple = whim_jparse_new(p, WHIM_JN_TUPLE), **tail = &tuple->list;
        whim_jparse_append(&tail, node->b);
        while (whim_jparse_skip_op(p, ',')) {
            whim_jparse_append(&tail, parse_subscript(p));
        }
        node->b = tuple;
    }
    whim_jparse_expect_op(p, ']');
    return node;
}

static whim_jnode *parse_args(whim_jparser *p)
{
    whim_jnode *list = NULL, **tail = &list;
    bool named = false;
    whim_jparse_expect_op(p, '(');
    while (next_item(p, list == NULL, ')')) {
        whim_jnode *arg = whim_jparse_new(p, WHIM_JN_SPREAD);
        if (whim_jparse_skip_op(p, '*')) {
            arg->op = 1;
        } else if (whim_jparse_skip_op(p, WHIM_JOP2('*', '*'))) {
            arg->op = 2;
        } else if (p->tok->kind == WHIM_JT_NAME && p->tok[1].kind == WHIM_JT_OP &&
                   p->tok[1].op == '=') {
            arg->kind = WHIM_JN_KWARG;
            arg->v = p->tok->v;
            p->tok += 2;
        }
        bool plain = arg->kind == WHIM_JN_SPREAD && arg->op == 0;
        if ((plain || arg->op == 1) && named) {
            whim_jparse_fail(p, "a named argument, as one stands before");
        }
        named |= arg->kind == WHIM_JN_KWARG || arg->op == 2;
        arg->a = whim_jparse_expr(p, true);
        whim_jparse_append(&tail, plain ? arg->a : arg);
    }
    return list;
}

static whim_jnode *parse_call(whim_jparser *p, whim_jnode *of)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_CALL);
    node->a = of;
    node->list = parse_args(p);
    return node;
}

whim_jnode *whim_jparse_postfix(whim_jparser *p, whim_jnode *node)
{
    for (;;) {
        if (whim_jparse_is_op(p, '.')) {
            node = parse_dot(p, node);
        } else if (whim_jparse_is_op(p, '[')) {
            node = parse_index(p, node);
        } else if (whim_jparse_is_op(p, '(')) {
            node = parse_call(p, node);
        } else {
            return node;
        }
    }
}

static whim_jval parse_dotted(whim_jparser *p)
{
    whim_jval name = whim_jparse_expect_name(p);
    while (whim_jparse_skip_op(p, '.')) {
        whim_jbuf buf = {0};
        whim_jbuf_add_str(p->j, &buf, name.str);
        whim_jbuf_add(p->j, &buf, ".", 1, true);
        whim_jbuf_add_str(p->j, &buf, whim_jparse_expect_name(p).str);
        name = whim_jbuf_take(p->j, &buf);
    }
    return name;
}

static whim_jnode *parse_test(whim_jparser *p, whim_jnode *of)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_TEST);
    p->tok++;
    bool negated = whim_jparse_skip_name(p, "not");
    node->a = of;
    node->v = parse_dotted(p);
    bool word = whim_jparse_is_name(p, "else") || whim_jparse_is_name(p, "or") ||
                whim_jparse_is_name(p, "and");
    if (whim_jparse_is_op(p, '(')) {
        node->list = parse_args(p);
    } else if (whim_jparse_is_op(p, '[') || whim_jparse_is_op(p, '{') ||
               p->tok->kind == WHIM_JT_STRING || p->tok->kind == WHIM_JT_NUMBER ||
               (p->tok->kind == WHIM_JT_NAME && !word)) {
        if (whim_jparse_is_name(p, "is")) {
            whim_jparse_fail(p, "no second \"is\" in a row");
        }
        node->list = whim_jparse_postfix(p, whim_jparse_atom(p));
    }
    if (!negated) {
        return node;
    }
    whim_jnode *not = whim_jparse_new(p, WHIM_JN_UNARY);
    not ->op = '!';
    not ->a = node;
    not ->pos = node->pos;
    return not ;
}

whim_jnode *whim_jparse_filters(whim_jparser *p, whim_jnode *node, bool bare)
{
    while (bare || whim_jparse_is_op(p, '|') || whim_jparse_is_name(p, "is") ||
           (whim_jparse_is_op(p, '(') && node != NULL)) {
        if (!bare && whim_jparse_is_name(p, "is")) {
            node = parse_test(p, node);
        } else if (!bare && whim_jparse_is_op(p, '(')) {
            node = parse_call(p, node);
        } else {
            p->tok += !bare;
            whim_jnode *filter = whim_jparse_new(p, WHIM_JN_FILTER);
            filter->a = node;
            filter->v = parse_dotted(p);
            filter->list = whim_jparse_is_op(p, '(') ? parse_args(p) : NULL;
            node = filter;
            bare = false;
        }
    }
    return node;
}
