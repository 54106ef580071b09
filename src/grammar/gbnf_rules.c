/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that people wrote, as the machine wants them: it knows which take the empty text, none
 * begins with itself, and small ones stand where they are called. */
#include "grammar/gbnf.h"

#include "base/alloc.h"

#include <string.h>

/* Above so many states a rule is called, not written out: tables stay small. */
enum { MAX_IN_PLACE = 64 };

/* --- the empty text --------------------------------------------------------------------------- */

static bool takes_empty(const whim_grammar_builder *b, int32_t index)
{
    const gnode *node = &b->nodes[index];
    bool found = node->kind == GN_SEQ;
    switch (node->kind) {
    case GN_EMPTY:
        return true;
    case GN_CALL:
        return b->rules[node->a].takes_empty;
    case GN_REPEAT:
        return node->lo == 0 || takes_empty(b, node->a);
    case GN_SEQ:
    case GN_ANY_OF:
        for (int32_t i = 0; i < node->b && found == (node->kind == GN_SEQ); i++) {
            found = takes_empty(b, b->kids[node->a + i]);
        }
        return found;
    default:
        return false;
    }
}

/* More of them until no rule is added. */
static void find_empty(const gbnf *p)
{
    whim_grammar_builder *b = p->b;
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        for (int64_t i = 0; i < p->n_name; i++) {
            grule *rule = &b->rules[p->names[i].rule];
            if (!rule->takes_empty && takes_empty(b, rule->node)) {
                rule->takes_empty = more = true;
            }
        }
    }
}

/* --- rules that begin with themselves --------------------------------------------------------- */

/* What follows the call of `rule` that the part begins with: *rest, -1: nothing does. False: it
 * does not begin so. */
static bool begins_with(whim_grammar_builder *b, int32_t part, int32_t rule, int32_t *rest)
{
    gnode node = b->nodes[part];
    bool is_list = node.kind == GN_SEQ && node.b > 0;
    const gnode *first = is_list ? &b->nodes[b->kids[node.a]] : &node;
    if (first->kind != GN_CALL || first->a != rule) {
        return false;
    }
    *rest = -1;
    if (is_list && node.b > 1) {
        node.a++;
        node.b--;
        *rest = whim_gb_node(b, node);
    }
    return true;
}

/* a ::= a x | y is y x*: the same texts. */
static void unfold(whim_grammar_builder *b, int32_t rule)
{
    int32_t body = b->rules[rule].node;
    gnode node = b->nodes[body];
    int32_t n = node.kind == GN_ANY_OF ? node.b : 1;
    glist heads = {0}, tails = {0};
    bool found = false;
    for (int32_t i = 0; i < n && !whim_gb_failed(b); i++) {
        int32_t part = node.kind == GN_ANY_OF ? b->kids[node.a + i] : body, rest;
        if (!begins_with(b, part, rule, &rest)) {
            whim_glist_add(b, &heads, part);
            continue;
        }
        found = true;
        if (rest >= 0) {
            whim_glist_add(b, &tails, rest);
        }
    }
    if (!found || heads.n == 0) { /* without a head no text ends: refused as what is left */
        whim_free(heads.ids);
        whim_free(tails.ids);
        return;
    }
    int32_t head = whim_glist_node(b, &heads, GN_ANY_OF);
    int32_t tail = tails.n > 0 ? whim_glist_node(b, &tails, GN_ANY_OF) : whim_gb_text(b, "");
    if (!whim_gb_failed(b)) {
        b->rules[rule].node = whim_gb_seq(b, head, whim_grammar_repeat(b, tail, 0, -1));
    }
}

/* The first rule that the node may begin with and that is not settled; -1: none. */
static int32_t first_open(const whim_grammar_builder *b, const uint8_t *settled, int32_t index)
{
    const gnode *node = &b->nodes[index];
    int32_t open = -1;
    switch (node->kind) {
    case GN_CALL:
        return settled[node->a] ? -1 : node->a;
    case GN_REPEAT:
        return first_open(b, settled, node->a);
    case GN_SEQ:
    case GN_ANY_OF:
        for (int32_t i = 0; i < node->b && open < 0; i++) {
            int32_t kid = b->kids[node->a + i];
            open = first_open(b, settled, kid);
            if (node->kind == GN_SEQ && !takes_empty(b, kid)) {
                break;
            }
        }
        return open;
    default:
        return -1;
    }
}

static int32_t refuse_loop(const gbnf *p, int32_t rule)
{
    for (int64_t i = 0; i < p->n_name; i++) {
        const gbnf_name *name = &p->names[i];
        if (name->rule == rule) {
            return whim_gbnf_fail(p, name->defined_at,
                                  "the rule \"%.*s\" can come to itself before it took a "
                                  "character (left recursion); write it as a repetition",
                                  name->n < 80 ? (int)name->n : 80, name->text);
        }
    }
    return -1;
}

/* A rule is settled when all that it may begin with is; those that never are begin with themselves,
 * or with such a one. */
static void check_loops(const gbnf *p)
{
    whim_grammar_builder *b = p->b;
    uint8_t *settled = whim_gb_alloc(b, b->n_rule, 1);
    int32_t open = -1;
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        open = -1;
        for (int64_t i = 0; i < p->n_name; i++) {
            int32_t rule = p->names[i].rule;
            if (settled[rule]) {
                continue;
            }
            settled[rule] = first_open(b, settled, b->rules[rule].node) < 0;
            more = more || settled[rule];
            open = settled[rule] ? open : rule;
        }
    }
    if (open >= 0 && !whim_gb_failed(b)) {
        /* so many steps end in a circle */
        for (int64_t i = 0; i < p->n_name && !whim_gb_late(b); i++) {
            open = first_open(b, settled, b->rules[open].node);
        }
        if (!whim_gb_failed(b)) {
            refuse_loop(p, open);
        }
    }
    whim_free(settled);
}

/* --- small rules ------------------------------------------------------------------------------ */

static int64_t at_most(int64_t n)
{
    return n <= MAX_IN_PLACE ? n : MAX_IN_PLACE + 1;
}

/* About how many states a part takes when it is written out; above the limit where it calls, and
 * then so, and no more, in all that holds it: a rule that calls itself is never small. */
static int64_t size_of(const whim_grammar_builder *b, int32_t index)
{
    const gnode *node = &b->nodes[index];
    int64_t n = 1;
    switch (node->kind) {
    case GN_CALL:
        return MAX_IN_PLACE + 1;
    case GN_BYTES:
        return at_most(node->b);
    case GN_REPEAT:
        n = node->hi > node->lo ? node->hi : node->lo + (node->hi < 0);
        return at_most(1 + at_most(n < 1 ? 1 : n) * size_of(b, node->a));
    case GN_SEQ:
    case GN_ANY_OF:
        for (int32_t i = 0; i < node->b && n <= MAX_IN_PLACE; i++) {
            n += size_of(b, b->kids[node->a + i]);
        }
        return at_most(n);
    default:
        return n;
    }
}

/* A call of a small rule becomes the rule's own node, which may make its caller small, too. */
static void write_small(const gbnf *p)
{
    whim_grammar_builder *b = p->b;
    uint8_t *is_small = whim_gb_alloc(b, b->n_rule, 1);
    for (bool more = is_small != NULL; more && !whim_gb_late(b);) {
        more = false;
        for (int64_t i = 0; i < p->n_name; i++) {
            int32_t rule = p->names[i].rule;
            if (!is_small[rule] && size_of(b, b->rules[rule].node) <= MAX_IN_PLACE) {
                is_small[rule] = more = true;
            }
        }
        for (int64_t i = p->first_node; i < b->n_node; i++) {
            if (b->nodes[i].kind == GN_CALL && is_small[b->nodes[i].a]) {
                b->nodes[i] = b->nodes[b->rules[b->nodes[i].a].node];
            }
        }
    }
    whim_free(is_small);
}

bool whim_gbnf_settle(gbnf *p)
{
    for (int64_t i = 0; i < p->n_name && !whim_gb_failed(p->b); i++) {
        unfold(p->b, p->names[i].rule);
    }
    if (!whim_gb_failed(p->b)) {
        find_empty(p);
        check_loops(p);
    }
    if (!whim_gb_failed(p->b)) {
        write_small(p);
    }
    return !whim_gb_failed(p->b);
}
