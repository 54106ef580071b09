/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions: the parser, and how the tree becomes nodes. ^ and $ are legal where nothing
 * can come before or behind them. In search mode a side without its anchor takes any text. */
#include "grammar/regex.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>

int32_t whim_rtree_fail(rtree *t, const char *what)
{
    return whim_gb_fail(t->b, WHIM_ERR_INVALID, "%s: at character %lld of the expression: %s",
                        t->path, (long long)t->at + 1, what);
}

int32_t whim_rtree_node(rtree *t, rnode node)
{
    if (t->n_node >= t->b->limits.max_nodes) {
        return whim_rtree_fail(t, "the expression is too long");
    }
    node.next = -1;
    return whim_gb_append(t->b, &t->nodes, &t->n_node, &t->cap_node, &node, 1, sizeof node);
}

int32_t whim_regex_char(rtree *t)
{
    int32_t n, cp;
    const char *at = t->pattern + t->at;
    if (whim_utf8_next(at, (int64_t)strnlen(at, 4), &n, &cp) != WHIM_UTF8_WHOLE) {
        return whim_rtree_fail(t, "this is no UTF-8");
    }
    t->at += n;
    return cp;
}

/* --- parsing ---------------------------------------------------------------------------------- */

static int32_t parse_any_of(rtree *t);

static int32_t parse_group(rtree *t)
{
    if (t->pattern[t->at] == '?') {
        const char *at = t->pattern + t->at;
        int64_t skip = strncmp(at, "?:", 2) == 0 ? 2 : 0;
        bool named = strncmp(at, "?P<", 3) == 0 ||
                     (strncmp(at, "?<", 2) == 0 && at[2] != '=' && at[2] != '!');
        const char *close = named ? strchr(at, '>') : NULL;
        skip = close != NULL ? close - at + 1 : skip;
        if (skip == 0) {
            return whim_rtree_fail(t, "look-around and flags are not supported");
        }
        t->at += skip;
    }
    if (++t->depth > t->b->limits.max_depth) {
        return whim_rtree_fail(t, "groups are nested too deep");
    }
    int32_t node = parse_any_of(t);
    t->depth--;
    if (node < 0) {
        return -1;
    }
    if (t->pattern[t->at] != ')') {
        return whim_rtree_fail(t, "a group is not closed: ) is missing");
    }
    t->at++;
    return node;
}

static int32_t parse_atom(rtree *t)
{
    char c = t->pattern[t->at++];
    switch (c) {
    case '(':
        return parse_group(t);
    case '[':
        return whim_regex_class(t);
    case '\\':
        return whim_regex_escape(t);
    case '.':
        return whim_regex_dot(t);
    case '^':
    case '$':
        return whim_rtree_node(t, (rnode){.kind = c == '^' ? RN_BEGIN : RN_END});
    case '*':
    case '+':
    case '?':
        t->at--;
        return whim_rtree_fail(t, "there is nothing to repeat");
    default:
        t->at--;
        break;
    }
    int64_t begin = t->n_range;
    int32_t cp = whim_regex_char(t);
    if (cp < 0 || !whim_rtree_range(t, cp, cp)) {
        return -1;
    }
    return whim_rtree_node(t, (rnode){.kind = RN_SET, .a = (int32_t)begin, .b = 1});
}

/* A number of at most 7 digits; -1: none. */
static int64_t parse_count(const char **at)
{
    int64_t value = -1;
    for (int32_t i = 0; i < 7 && **at >= '0' && **at <= '9'; i++, (*at)++) {
        value = (value < 0 ? 0 : value * 10) + (**at - '0');
    }
    return value;
}

/* {m}, {m,}, {m,n}, {,n}; false when it is none of these: then { is a character. */
static bool parse_braces(rtree *t, int64_t *lo, int64_t *hi)
{
    const char *at = t->pattern + t->at + 1;
    *lo = parse_count(&at);
    *hi = *lo;
    bool comma = *at == ',';
    if (comma) {
        at++;
        *hi = parse_count(&at);
        if (*lo < 0 && *hi < 0) {
            return false;
        }
        *lo = *lo < 0 ? 0 : *lo;
    }
    if (*at != '}' || (*lo < 0 && !comma)) {
        return false;
    }
    t->at = at + 1 - t->pattern;
    return true;
}

/* Marks behind an atom; several of them nest. */
static int32_t parse_repeats(rtree *t, int32_t atom)
{
    for (int32_t depth = 0; atom >= 0; depth++) {
        int64_t lo = 0, hi = -1;
        char c = t->pattern[t->at];
        if (c == '*' || c == '+' || c == '?') {
            lo = c == '+';
            hi = c == '?' ? 1 : -1;
            t->at++;
        } else if (c != '{' || !parse_braces(t, &lo, &hi)) {
            return atom;
        }
        if (depth > 0) {
            return whim_rtree_fail(t, "a repetition of a repetition needs a group");
        }
        if (hi >= 0 && hi < lo) {
            return whim_rtree_fail(t, "a repetition ends before it begins");
        }
        if (t->pattern[t->at] == '?') { /* lazy: the same texts */
            t->at++;
        }
        if (t->nodes[atom].kind == RN_BEGIN || t->nodes[atom].kind == RN_END) {
            return whim_rtree_fail(t, "^ and $ cannot be repeated");
        }
        atom = whim_rtree_node(t, (rnode){.kind = RN_REPEAT, .a = atom, .lo = lo, .hi = hi});
    }
    return atom;
}

static int32_t parse_seq(rtree *t)
{
    int32_t first = -1, last = -1;
    for (char c; (c = t->pattern[t->at]) != '\0' && c != '|' && c != ')';) {
        int32_t part = parse_repeats(t, parse_atom(t));
        if (part < 0) {
            return -1;
        }
        /* A group may be the kid of two lists: give it a place of its own. */
        part = whim_rtree_node(t, t->nodes[part]);
        if (part < 0) {
            return -1;
        }
        if (last >= 0) {
            t->nodes[last].next = part;
        } else {
            first = part;
        }
        last = part;
    }
    return whim_rtree_node(t, (rnode){.kind = first < 0 ? RN_EMPTY : RN_SEQ, .a = first});
}

static int32_t parse_any_of(rtree *t)
{
    int32_t first = parse_seq(t), last = first;
    while (last >= 0 && t->pattern[t->at] == '|') {
        t->at++;
        int32_t next = parse_seq(t);
        if (next < 0) {
            return -1;
        }
        t->nodes[last].next = next;
        last = next;
    }
    return last < 0 ? -1 : whim_rtree_node(t, (rnode){.kind = RN_ANY_OF, .a = first});
}

static int32_t parse_whole(rtree *t)
{
    int32_t root = parse_any_of(t);
    if (root >= 0 && t->pattern[t->at] == ')') {
        return whim_rtree_fail(t, "this ) closes nothing");
    }
    return root;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* A side of a part: inside the expression, at its end, or at its end with any text beyond. */
typedef enum edge { EDGE_NONE, EDGE_END, EDGE_OPEN } edge;

typedef struct lowering {
    rtree *t;
    bool json;
} lowering;

static int32_t one_of(lowering *l, const grange *ranges, int32_t n)
{
    return l->json ? whim_gb_json_chars(l->t->b, ranges, n) : whim_gb_chars(l->t->b, ranges, n);
}

static int32_t any_text(lowering *l)
{
    grange all = {1, GC_MAX};
    return whim_grammar_repeat(l->t->b, one_of(l, &all, 1), 0, -1);
}

static int32_t lower(lowering *l, int32_t index, edge left, edge right);

static int32_t lower_seq(lowering *l, int32_t first, edge left, edge right)
{
    whim_grammar_builder *b = l->t->b;
    const rnode *nodes = l->t->nodes;
    int32_t end = -1; /* behind the last part that is no $ */
    while (first >= 0 && nodes[first].kind == RN_BEGIN && left != EDGE_NONE) {
        left = EDGE_END;
        first = nodes[first].next;
    }
    int32_t last = -1;
    for (int32_t i = first; i >= 0; i = nodes[i].next) {
        last = nodes[i].kind == RN_END && right != EDGE_NONE ? last : i;
    }
    end = last >= 0 ? nodes[last].next : first;
    right = end >= 0 ? EDGE_END : right;
    glist parts = {0};
    for (int32_t i = first; i != end && !whim_gb_failed(b); i = nodes[i].next) {
        whim_glist_add(b, &parts,
                       lower(l, i, i == first ? left : EDGE_NONE, i == last ? right : EDGE_NONE));
    }
    if (parts.n == 0) {
        bool open = left == EDGE_OPEN || right == EDGE_OPEN;
        whim_glist_add(b, &parts, open ? any_text(l) : whim_gb_text(b, ""));
    }
    return whim_glist_node(b, &parts, GN_SEQ);
}

static int32_t lower_any_of(lowering *l, int32_t first, edge left, edge right)
{
    glist parts = {0};
    for (int32_t i = first; i >= 0 && !whim_gb_failed(l->t->b); i = l->t->nodes[i].next) {
        whim_glist_add(l->t->b, &parts, lower(l, i, left, right));
    }
    return whim_glist_node(l->t->b, &parts, GN_ANY_OF);
}

static int32_t lower(lowering *l, int32_t index, edge left, edge right)
{
    whim_grammar_builder *b = l->t->b;
    const rnode node = l->t->nodes[index];
    int32_t part;
    switch (node.kind) {
    case RN_ANY_OF:
        return lower_any_of(l, node.a, left, right);
    case RN_SEQ:
        return lower_seq(l, node.a, left, right);
    case RN_EMPTY:
        return lower_seq(l, -1, left, right);
    case RN_BEGIN:
    case RN_END:
        return whim_gb_fail(b, WHIM_ERR_INVALID,
                            "%s: %s inside the expression, where it can never hold, is not "
                            "supported",
                            l->t->path, node.kind == RN_BEGIN ? "^" : "$");
    case RN_REPEAT:
        part = whim_grammar_repeat(b, lower(l, node.a, EDGE_NONE, EDGE_NONE), node.lo, node.hi);
        break;
    default:
        part = one_of(l, l->t->ranges + node.a, node.b);
        break;
    }
    part = left == EDGE_OPEN ? whim_gb_seq(b, any_text(l), part) : part;
    return right == EDGE_OPEN ? whim_gb_seq(b, part, any_text(l)) : part;
}

int32_t whim_gb_regex(whim_grammar_builder *b, const char *pattern, gregex_mode mode,
                      const char *path)
{
    rtree t = {.b = b, .path = path, .pattern = pattern};
    lowering l = {.t = &t, .json = mode.json};
    int32_t root = parse_whole(&t);
    edge side = mode.search ? EDGE_OPEN : EDGE_END;
    int32_t node = root < 0 ? -1 : lower(&l, root, side, side);
    whim_free(t.nodes);
    whim_free(t.ranges);
    return node;
}
