/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: what stands between {% and %}, and the text around. */
#include "jinja/ast.h"

#include <stdio.h>
#include <string.h>

static whim_jnode *parse_body(whim_jparser *p, const char *const *ends);

static void expect_block_end(whim_jparser *p)
{
    if (p->tok->kind != WHIM_JT_BLOCK_END) {
        whim_jparse_fail(p, "\"%}\"");
    }
    p->tok++;
}

/* A body up to one of `ends`, whose name stays to be read. */
static whim_jnode *parse_block(whim_jparser *p, const char *const *ends)
{
    expect_block_end(p);
    return parse_body(p, ends);
}

/* A body up to `end`, which is read too. */
static whim_jnode *parse_until(whim_jparser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    whim_jnode *body = parse_block(p, ends);
    p->tok++;
    return body;
}

/* The part behind `else`, or the end of the block that has none. */
static void parse_else(whim_jparser *p, whim_jnode *node, const char *end)
{
    if (whim_jparse_skip_name(p, "else")) {
        node->other = parse_until(p, end);
    } else {
        p->tok++;
    }
}

/* What may be assigned to: a name, a tuple of them, or (with_ns) name.name. */
static whim_jnode *parse_target(whim_jparser *p, bool with_ns, const char *end)
{
    whim_jnode *target;
    if (with_ns && p->tok->kind == WHIM_JT_NAME && p->tok[1].kind == WHIM_JT_OP &&
        p->tok[1].op == '.') {
        target = whim_jparse_new(p, WHIM_JN_NSREF);
        target->v = whim_jparse_expect_name(p);
        p->tok++;
        target->b = whim_jparse_new(p, WHIM_JN_CONST);
        target->b->v = whim_jparse_expect_name(p);
        return target;
    }
    const whim_jtok *start = p->tok;
    whim_jnode *tuple = whim_jparse_new(p, WHIM_JN_TUPLE), **tail = &tuple->list;
    bool comma = false;
    do {
        if (comma && (whim_jparse_is_op(p, '=') || p->tok->kind == WHIM_JT_BLOCK_END ||
                      whim_jparse_is_op(p, ')') || (end != NULL && whim_jparse_is_name(p, end)))) {
            break;
        }
        if (whim_jparse_skip_op(p, '(')) {
            if (++p->j->depth > WHIM_JINJA_PARSE_DEPTH) {
                whim_jparse_fail(p, "fewer brackets");
            }
            *tail = parse_target(p, false, NULL);
            p->j->depth--;
            whim_jparse_expect_op(p, ')');
        } else {
            *tail = whim_jparse_new(p, WHIM_JN_NAME);
            (*tail)->v = whim_jparse_expect_name(p);
        }
        tail = &(*tail)->next;
    } while (whim_jparse_skip_op(p, ',') && (comma = true));
    for (whim_jnode *name = tuple->list; name != NULL; name = name->next) {
        whim_jval constant;
        if (name->kind == WHIM_JN_NAME && whim_jparse_constant(name->v.str, &constant)) {
            p->tok = start;
            whim_jparse_fail(p, "a name that can be assigned to");
        }
    }
    return comma ? tuple : tuple->list;
}

static void parse_for(whim_jparser *p, whim_jnode *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    node->a = parse_target(p, false, "in");
    if (!whim_jparse_skip_name(p, "in")) {
        whim_jparse_fail(p, "\"in\"");
    }
    node->b = whim_jparse_tuple(p, false, "recursive", false);
    node->c = whim_jparse_skip_name(p, "if") ? whim_jparse_expr(p, true) : NULL;
    node->op = whim_jparse_skip_name(p, "recursive");
    p->loops++;
    node->body = parse_block(p, ends);
    p->loops--;
    parse_else(p, node, "endfor");
}

static void parse_if(whim_jparser *p, whim_jnode *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    for (;;) {
        node->a = whim_jparse_tuple(p, false, NULL, false);
        node->body = parse_block(p, ends);
        if (!whim_jparse_is_name(p, "elif")) {
            break;
        }
        p->tok++;
        node->other = whim_jparse_new(p, WHIM_JN_IF);
        node = node->other;
    }
    parse_else(p, node, "endif");
}

static void parse_set(whim_jparser *p, whim_jnode *node)
{
    node->a = parse_target(p, true, NULL);
    if (whim_jparse_skip_op(p, '=')) {
        node->b = whim_jparse_tuple(p, true, NULL, false);
        return;
    }
    node->kind = WHIM_JN_SET_BLOCK;
    node->b = whim_jparse_filters(p, NULL, false);
    node->body = parse_until(p, "endset");
}

static whim_jnode *parse_params(whim_jparser *p)
{
    whim_jnode *list = NULL, **tail = &list;
    bool defaults = false;
    whim_jparse_expect_op(p, '(');
    while (!whim_jparse_is_op(p, ')')) {
        if (list != NULL && !whim_jparse_skip_op(p, ',')) {
            whim_jparse_fail(p, "\",\" or \")\"");
        }
        whim_jnode *param = whim_jparse_new(p, WHIM_JN_PARAM);
        param->v = whim_jparse_expect_name(p);
        if (whim_jparse_skip_op(p, '=')) {
            param->a = whim_jparse_expr(p, true);
            defaults = true;
        } else if (defaults) {
            whim_jparse_fail(p, "\"=\", as a parameter before has a default");
        }
        *tail = param;
        tail = &param->next;
    }
    whim_jparse_expect_op(p, ')');
    return list;
}

/* A body that sees no outer loop. */
static void parse_macro_rest(whim_jparser *p, whim_jnode *node, const char *end)
{
    int32_t loops = p->loops;
    p->loops = 0;
    node->body = parse_until(p, end);
    p->loops = loops;
}

static void parse_macro(whim_jparser *p, whim_jnode *node)
{
    int uses = p->macro_uses;
    node->v = whim_jparse_expect_name(p);
    p->macro_uses = 0;
    node->list = parse_params(p);
    parse_macro_rest(p, node, "endmacro");
    node->op = p->macro_uses;
    p->macro_uses = uses;
}

static void parse_call_block(whim_jparser *p, whim_jnode *node)
{
    int uses = p->macro_uses;
    whim_jnode *caller = whim_jparse_new(p, WHIM_JN_MACRO);
    caller->v = whim_jval_str(p->j, "caller", 6, true);
    p->macro_uses = 0;
    caller->list = whim_jparse_is_op(p, '(') ? parse_params(p) : NULL;
    node->a = whim_jparse_expr(p, true);
    if (node->a->kind != WHIM_JN_CALL) {
        whim_jparse_fail(p, "a call of a macro");
    }
    node->b = caller;
    parse_macro_rest(p, caller, "endcall");
    caller->op = p->macro_uses;
    p->macro_uses = uses;
}

static void parse_with(whim_jparser *p, whim_jnode *node)
{
    whim_jnode **tail = &node->list;
    while (p->tok->kind != WHIM_JT_BLOCK_END) {
        if (node->list != NULL && !whim_jparse_skip_op(p, ',')) {
            whim_jparse_fail(p, "\",\" or \"%}\"");
        }
        whim_jnode *set = whim_jparse_new(p, WHIM_JN_SET);
        set->a = parse_target(p, false, NULL);
        whim_jparse_expect_op(p, '=');
        set->b = whim_jparse_expr(p, true);
        *tail = set;
        tail = &set->next;
    }
    node->body = parse_until(p, "endwith");
}

static void parse_filter_block(whim_jparser *p, whim_jnode *node)
{
    node->a = whim_jparse_filters(p, NULL, true);
    node->body = parse_until(p, "endfilter");
}

static void parse_generation(whim_jparser *p, whim_jnode *node)
{
    parse_macro_rest(p, node, "endgeneration");
}

/* Nobody inherits from a chat template, so that a block that must be replaced never can be. */
static void refuse_block(whim_jparser *p, whim_jnode *node)
{
    for (const whim_jnode *piece = node->body; piece != NULL; piece = piece->next) {
        const whim_jstr *text = piece->v.str;
        if (piece->kind != WHIM_JN_DATA ||
            whim_jstr_strip(p->j, text, NULL, true, true).str->n > 0) {
            p->j->pos = piece->pos;
            whim_jinja_fail(p->j, "a required block holds comments and white space only");
        }
    }
    node->body = whim_jparse_new(p, WHIM_JN_BLOCK);
    node->body->op = WHIM_JBLOCK_REFUSED;
    node->body->v = node->v;
}

enum { MAX_BLOCKS = 1000 };

static void parse_named_block(whim_jparser *p, whim_jnode *node)
{
    int32_t n = 0;
    node->v = whim_jparse_expect_name(p);
    for (const whim_jnode *other = p->blocks; other != NULL; other = other->other) {
        if (++n == MAX_BLOCKS) { /* each is compared with all */
            whim_jparse_fail(p, "fewer blocks: a template may have 1000");
        }
        if (whim_jval_equal(p->j, other->v, node->v)) {
            p->tok--;
            whim_jparse_fail(p, "a block name that no other block has");
        }
    }
    node->other = p->blocks;
    p->blocks = node;
    node->op = whim_jparse_skip_name(p, "scoped") ? WHIM_JBLOCK_SCOPED : 0;
    bool required = whim_jparse_skip_name(p, "required");
    parse_macro_rest(p, node, "endblock");
    if (p->tok->kind == WHIM_JT_NAME && whim_jval_equal(p->j, p->tok->v, node->v)) {
        p->tok++;
    }
    if (required) {
        refuse_block(p, node);
    }
}

static void parse_leave(whim_jparser *p, whim_jnode *node)
{
    (void)node;
    if (p->loops == 0) {
        p->tok--;
        whim_jparse_fail(p, "break and continue only inside a loop");
    }
}

static whim_jnode *parse_statement(whim_jparser *p)
{
    static const struct {
        const char *word;
        whim_jnode_kind kind;
        void (*parse)(whim_jparser *p, whim_jnode *node);
    } statements[] = {
        {"for", WHIM_JN_FOR, parse_for},
        {"if", WHIM_JN_IF, parse_if},
        {"set", WHIM_JN_SET, parse_set},
        {"macro", WHIM_JN_MACRO, parse_macro},
        {"call", WHIM_JN_CALL_BLOCK, parse_call_block},
        {"with", WHIM_JN_WITH, parse_with},
        {"filter", WHIM_JN_FILTER_BLOCK, parse_filter_block},
        {"generation", WHIM_JN_SCOPE, parse_generation},
        {"block", WHIM_JN_BLOCK, parse_named_block},
        {"break", WHIM_JN_BREAK, parse_leave},
        {"continue", WHIM_JN_CONTINUE, parse_leave},
    };
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_SCOPE);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (whim_jparse_skip_name(p, statements[i].word)) {
            node->kind = statements[i].kind;
            statements[i].parse(p, node);
            return node;
        }
    }
    whim_jparse_fail(p, "a statement (if, for, set, macro, call, filter, with, block, generation)");
}

static bool at_end_of_body(const whim_jparser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        if (whim_jparse_is_name(p, *ends)) {
            return true;
        }
    }
    return false;
}

static whim_jnode *parse_piece(whim_jparser *p)
{
    whim_jnode *node = whim_jparse_new(p, WHIM_JN_DATA);
    if (p->tok->kind == WHIM_JT_DATA) {
        node->v = (p->tok++)->v;
    } else if (p->tok->kind == WHIM_JT_PRINT_BEGIN) {
        node->kind = WHIM_JN_PRINT;
        p->tok++;
        node->pos = p->tok->pos;
        node->a = whim_jparse_tuple(p, true, NULL, false);
        if (p->tok->kind != WHIM_JT_PRINT_END) {
            whim_jparse_fail(p, "\"}}\"");
        }
        p->tok++;
    } else {
        node = parse_statement(p);
        expect_block_end(p);
    }
    return node;
}

/* Up to the name of one of `ends` (the token to look at then), or to the end of the template. */
static whim_jnode *parse_body(whim_jparser *p, const char *const *ends)
{
    whim_jnode *body = NULL, **tail = &body;
    if (++p->j->depth > WHIM_JINJA_PARSE_DEPTH) {
        p->j->pos = p->tok->pos;
        whim_jinja_fail(p->j, "blocks nest deeper than %d levels", (int)WHIM_JINJA_PARSE_DEPTH);
    }
    while (p->tok->kind != WHIM_JT_EOF) {
        if (p->tok->kind == WHIM_JT_BLOCK_BEGIN) {
            p->tok++;
            if (at_end_of_body(p, ends)) {
                p->j->depth--;
                return body;
            }
        }
        *tail = parse_piece(p);
        tail = &(*tail)->next;
    }
    if (ends != NULL) {
        char expected[80];
        snprintf(expected, sizeof expected, "{%% %s %%}", ends[0]);
        whim_jparse_fail(p, expected);
    }
    p->j->depth--;
    return body;
}

whim_jnode *whim_jinja_parse(whim_jinja *j, const whim_jtok *tokens, const whim_jnode **blocks)
{
    whim_jparser p = {.j = j, .tok = tokens};
    whim_jnode *body = parse_body(&p, NULL);
    *blocks = p.blocks;
    return body;
}
