/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, with Jinja's precedence from the loosest: ternary, or, and, not, comparison, + -, ~,
 * * / // %, **, sign. */
#include "jinja/ast.h"

static whim_jnode *parse_unary(whim_jparser *p, bool with_filters)
{
    whim_jparse_enter(p);
    whim_jnode *node;
    if (whim_jparse_is_op(p, '-') || whim_jparse_is_op(p, '+')) {
        node = whim_jparse_new(p, WHIM_JN_UNARY);
        node->op = (p->tok++)->op;
        node->a = parse_unary(p, false);
    } else {
        node = whim_jparse_atom(p);
    }
    node = whim_jparse_postfix(p, node);
    if (with_filters) {
        node = whim_jparse_filters(p, node, false);
    }
    p->j->depth--;
    return node;
}

/* The operators that join two operands, a level each, from the loosest. */
enum { LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER };

static const struct {
    whim_jnode_kind kind;
    const char *word; /* or */
    int ops[4];
} levels[] = {
    [LEVEL_OR] = {WHIM_JN_OR, "or", {0}},
    [LEVEL_AND] = {WHIM_JN_AND, "and", {0}},
    [LEVEL_SUM] = {WHIM_JN_BINARY, NULL, {'+', '-'}},
    [LEVEL_PRODUCT] = {WHIM_JN_BINARY, NULL, {'*', '/', '%', WHIM_JOP2('/', '/')}},
    [LEVEL_POWER] = {WHIM_JN_BINARY, NULL, {WHIM_JOP2('*', '*')}},
};

static whim_jnode *parse_level(whim_jparser *p, int level);

static bool joins_at(const whim_jparser *p, int level)
{
    bool joins = levels[level].word != NULL && whim_jparse_is_name(p, levels[level].word);
    for (int i = 0; i < 4 && levels[level].ops[i] != 0; i++) {
        joins |= whim_jparse_is_op(p, levels[level].ops[i]);
    }
    return joins;
}

static whim_jnode *parse_concat(whim_jparser *p)
{
    whim_jnode *first = parse_level(p, LEVEL_PRODUCT);
    if (!whim_jparse_is_op(p, '~')) {
        return first;
    }
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_CONCAT), **tail = &node->list;
    whim_jparse_append(&tail, first);
    while (whim_jparse_skip_op(p, '~')) {
        whim_jparse_append(&tail, parse_level(p, LEVEL_PRODUCT));
    }
    return node;
}

/* The comparison at the token, or 0; moves behind it. */
static int skip_comparison(whim_jparser *p)
{
    static const int ops[] = {'<',
                              '>',
                              WHIM_JOP2('<', '='),
                              WHIM_JOP2('>', '='),
                              WHIM_JOP2('=', '='),
                              WHIM_JOP2('!', '=')};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (whim_jparse_skip_op(p, ops[i])) {
            return ops[i];
        }
    }
    if (whim_jparse_skip_name(p, "in")) {
        return 'i';
    }
    if (whim_jparse_is_name(p, "not") && p->tok[1].kind == WHIM_JT_NAME &&
        whim_jstr_is(p->tok[1].v.str, "in")) {
        p->tok += 2;
        return 'n';
    }
    return 0;
}

static whim_jnode *parse_compare(whim_jparser *p)
{
    whim_jnode *first = parse_level(p, LEVEL_SUM), *node = NULL, **tail = NULL;
    for (;;) {
        whim_jnode *operand = whim_jparse_new(p, WHIM_JN_OPERAND);
        operand->op = skip_comparison(p);
        if (operand->op == 0) {
            return node == NULL ? first : node;
        }
        if (node == NULL) {
            node = whim_jparse_new(p, WHIM_JN_COMPARE);
            node->pos = operand->pos;
            node->a = first;
            tail = &node->list;
        }
        operand->a = parse_level(p, LEVEL_SUM);
        whim_jparse_append(&tail, operand);
    }
}

static whim_jnode *parse_not(whim_jparser *p)
{
    if (!whim_jparse_is_name(p, "not")) {
        return parse_compare(p);
    }
    whim_jparse_enter(p);
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_UNARY);
    node->op = '!';
    p->tok++;
    node->a = parse_not(p);
    p->j->depth--;
    return node;
}

static whim_jnode *parse_level(whim_jparser *p, int level)
{
    switch (level) {
    case LEVEL_COMPARE:
        return parse_not(p);
    case LEVEL_CONCAT:
        return parse_concat(p);
    case LEVEL_POWER + 1:
        return parse_unary(p, true);
    default:
        break;
    }
    whim_jnode *left = parse_level(p, level + 1);
    while (joins_at(p, level)) {
        whim_jnode *node = whim_jparse_new(p, levels[level].kind);
        node->op = (p->tok++)->op;
        node->a = left;
        node->b = parse_level(p, level + 1);
        left = node;
    }
    return left;
}

whim_jnode *whim_jparse_expr(whim_jparser *p, bool with_cond)
{
    whim_jparse_enter(p);
    whim_jnode *node = parse_level(p, LEVEL_OR);
    while (with_cond && whim_jparse_is_name(p, "if")) {
        whim_jnode *cond = whim_jparse_new(p, WHIM_JN_COND);
        p->tok++;
        cond->b = node;
        cond->a = parse_level(p, LEVEL_OR);
        cond->c = whim_jparse_skip_name(p, "else") ? whim_jparse_expr(p, true) : NULL;
        node = cond;
    }
    p->j->depth--;
    return node;
}

static bool tuple_ends(const whim_jparser *p, const char *end)
{
    return p->tok->kind == WHIM_JT_PRINT_END || p->tok->kind == WHIM_JT_BLOCK_END ||
           whim_jparse_is_op(p, ')') || (end != NULL && whim_jparse_is_name(p, end));
}

whim_jnode *whim_jparse_tuple(whim_jparser *p, bool with_cond, const char *end, bool bracketed)
{
    whim_jnode *tuple = whim_jparse_new(p, WHIM_JN_TUPLE), **tail = &tuple->list;
    bool comma = false;
    while (!tuple_ends(p, end)) {
        whim_jparse_append(&tail, whim_jparse_expr(p, with_cond));
        if (!whim_jparse_skip_op(p, ',')) {
            break;
        }
        comma = true;
    }
    if (!comma && tuple->list != NULL) {
        return tuple->list;
    }
    if (tuple->list == NULL && !bracketed) {
        whim_jparse_fail(p, "an expression");
    }
    return tuple;
}
