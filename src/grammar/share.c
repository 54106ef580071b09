/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that are written alike become one, so that its table is made once: schemas that programs
 * wrote hold the same parts dozens of times. Each part is known by the number of the list that
 * says what it is, with the numbers of its own parts in it. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

typedef struct sharer {
    whim_grammar_builder *b;
    gsets lists;
    int32_t *number;     /* [n_node] of the part's list, + 1; 0: not known yet */
    int32_t *rule_of;    /* the rule that has a list, + 1, by the number of the list */
    int64_t cap_rule_of; /* numbers up to it have room */
    int32_t *same;       /* [n_rule] the rule that stands for it; at first itself */
    glist list;          /* being written, behind those that wait for it */
} sharer;

static int32_t number_of(sharer *s, int32_t node);

static void add(sharer *s, int32_t value)
{
    whim_glist_add(s->b, &s->list, value);
}

static void add_long(sharer *s, int64_t value)
{
    add(s, (int32_t)(value & INT32_MAX));
    add(s, (int32_t)(value >> 31));
}

static void add_kids(sharer *s, const gnode *node)
{
    for (int32_t i = 0; i < node->b && !whim_gb_failed(s->b); i++) {
        int32_t kid = s->b->kids[node->a + i];
        bool is_how = node->kind == GN_MEMBERS && i % 3 == 2;
        add(s, is_how ? kid : number_of(s, kid));
    }
}

/* All that says what the node is. */
static void describe(sharer *s, const gnode *node)
{
    add(s, (int32_t)node->kind);
    switch (node->kind) {
    case GN_EMPTY:
    case GN_NEVER:
        break;
    case GN_BYTES:
        for (int32_t i = 0; i < node->b; i++) {
            add(s, s->b->bytes[node->a + i]);
        }
        break;
    case GN_CHARS:
        for (int32_t i = 0; i < node->b; i++) {
            add(s, s->b->ranges[node->a + i].lo);
            add(s, s->b->ranges[node->a + i].hi);
        }
        break;
    case GN_MEMBERS:
        add_long(s, node->lo);
        add(s, number_of(s, (int32_t)node->hi));
        add_kids(s, node);
        break;
    case GN_SEQ:
    case GN_ANY_OF:
        add_kids(s, node);
        break;
    case GN_REPEAT:
        add(s, number_of(s, node->a));
        add_long(s, node->lo);
        add_long(s, node->hi);
        break;
    case GN_CALL:
        add(s, s->same[node->a]);
        break;
    case GN_MULTIPLE:
        add(s, node->a);
        break;
    case GN_BOTH:
    case GN_BUT_NOT:
        add(s, number_of(s, node->a));
        add(s, number_of(s, node->b));
        break;
    }
}

static int32_t number_of(sharer *s, int32_t node)
{
    if (s->number[node] == 0 && !whim_gb_failed(s->b)) {
        int64_t begin = s->list.n;
        describe(s, &s->b->nodes[node]);
        const int32_t *list = s->list.ids + begin;
        int32_t place =
            whim_gb_failed(s->b) ? -1 : whim_sets_place(s->b, &s->lists, list, s->list.n - begin);
        s->number[node] = place + 1;
        s->list.n = begin;
    }
    return s->number[node];
}

/* The first rule that is met with what this one has stands for both. */
static void settle(sharer *s, int32_t rule)
{
    const grule *r = &s->b->rules[rule];
    if (r->node < 0) {
        return;
    }
    int32_t list[] = {-1, number_of(s, r->node), r->takes_empty};
    int32_t place = whim_gb_failed(s->b) ? -1 : whim_sets_place(s->b, &s->lists, list, 3);
    if (place < 0 ||
        !whim_gb_grow(s->b, &s->rule_of, place + 1, &s->cap_rule_of, sizeof *s->rule_of)) {
        return;
    }
    if (s->rule_of[place] == 0) {
        s->rule_of[place] = rule + 1;
    }
    s->same[rule] = s->rule_of[place] - 1;
}

bool whim_grammar_share_rules(whim_grammar_builder *b)
{
    sharer s = {.b = b};
    s.number = whim_gb_alloc(b, b->n_node, sizeof *s.number);
    s.same = whim_gb_alloc(b, b->n_rule, sizeof *s.same);
    for (int32_t r = 0; r < b->n_rule && !whim_gb_failed(b); r++) {
        s.same[r] = r;
    }
    if (!whim_gb_failed(b)) {
        settle(&s, b->string_rule); /* masks of strings are found by it */
    }
    /* What a rule calls is mostly written behind it, and is settled before it. */
    for (int32_t r = (int32_t)b->n_rule - 1; r >= 0 && !whim_gb_late(b); r--) {
        settle(&s, r);
    }
    for (int64_t i = 0; i < b->n_node && !whim_gb_failed(b); i++) {
        if (b->nodes[i].kind == GN_CALL) {
            b->nodes[i].a = s.same[b->nodes[i].a];
        }
    }
    whim_sets_deinit(&s.lists);
    whim_free(s.list.ids);
    whim_free(s.number);
    whim_free(s.rule_of);
    whim_free(s.same);
    return !whim_gb_failed(b);
}
