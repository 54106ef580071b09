/* SPDX-License-Identifier: Apache-2.0 */
/* What two parts both take, or one takes and the other does not: their tables walked side by side.
 * Neither part may call rules. Pairs of states from which no text is taken are left out: behind the
 * part they would go on beside all that follows. */
#include "grammar/impl.h"

#include "base/alloc.h"

typedef struct maker {
    whim_grammar_builder *b;
    gdfa one, two;
    gsets pairs; /* a state of each; -1 of the second when that has died */
    gproduct *out;
} maker;

static bool accepts(const maker *m, int64_t pair)
{
    int32_t one = m->pairs.ints[2 * pair], two = m->pairs.ints[2 * pair + 1];
    bool second = two >= 0 && m->two.accepts[two];
    return m->one.accepts[one] && second != m->out->negate;
}

static int32_t next_of(const gdfa *d, int32_t state, int32_t byte)
{
    return state < 0 ? -1 : d->next[state * (int64_t)d->n_class + d->class_of[byte]];
}

static void find_moves(maker *m, int32_t from)
{
    gproduct *out = m->out;
    int32_t one = m->pairs.ints[2 * from], two = m->pairs.ints[2 * from + 1];
    for (int32_t c = 0, to = -1; c < 256 && !whim_gb_failed(m->b); c++) {
        const uint8_t *class = m->one.class_of + c, *other_class = m->two.class_of + c;
        int32_t before = to;
        if (c == 0 || class[0] != class[-1] || other_class[0] != other_class[-1]) {
            int32_t next = next_of(&m->one, one, c), other = next_of(&m->two, two, c);
            to = next < 0 || (other < 0 && !out->negate)
                     ? -1
                     : whim_sets_place(m->b, &m->pairs, (int32_t[]){next, other}, 2);
        }
        if (to >= 0 && to == before) {
            out->moves[out->n_move - 1].hi = (uint8_t)c;
        } else if (to >= 0) {
            gmove move = {from, to, (uint8_t)c, (uint8_t)c};
            (void)whim_gb_append(m->b, &out->moves, &out->n_move, &out->cap_move, &move, 1,
                                 sizeof move);
        }
    }
}

/* Drop the pairs from which no text is taken, and number the others. Pairs are in the order in
 * which they were met, so that going backwards settles most of them at once. */
static void drop_dead(maker *m)
{
    gproduct *out = m->out;
    int64_t n = m->pairs.n, kept = 0;
    int32_t *number = whim_gb_alloc(m->b, n, sizeof *number);
    out->accepts = whim_gb_alloc(m->b, n, sizeof *out->accepts);
    if (whim_gb_failed(m->b)) {
        whim_free(number);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        number[i] = accepts(m, i) ? 0 : -1;
    }
    for (bool more = true; more;) {
        more = false;
        for (int64_t i = out->n_move - 1; i >= 0; i--) {
            if (number[out->moves[i].from] < 0 && number[out->moves[i].to] >= 0) {
                number[out->moves[i].from] = 0;
                more = true;
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (number[i] >= 0) {
            out->accepts[out->n_state] = accepts(m, i);
            number[i] = out->n_state++;
        }
    }
    for (int64_t i = 0; i < out->n_move; i++) {
        gmove move = out->moves[i];
        move.from = number[move.from];
        move.to = number[move.to];
        if (move.from >= 0 && move.to >= 0) {
            out->moves[kept++] = move;
        }
    }
    out->n_move = kept;
    whim_free(number);
}

static void make(whim_grammar_builder *b, const gnode *node, gproduct *out)
{
    maker m = {.b = b, .out = out};
    bool ok =
        whim_dfa_of_node(b, node->a, false, &m.one) && whim_dfa_of_node(b, node->b, false, &m.two);
    if (ok && m.one.n_call + m.two.n_call > 0) {
        whim_gb_fail(b, WHIM_ERR_INVALID, "the names of free keys are not simple enough");
    } else if (ok && m.one.n_state > 0 && (m.two.n_state > 0 || out->negate)) {
        (void)whim_sets_place(b, &m.pairs, (int32_t[]){0, m.two.n_state > 0 ? 0 : -1}, 2);
        for (int64_t i = 0; i < m.pairs.n && !whim_gb_failed(b); i++) {
            find_moves(&m, (int32_t)i);
            if (i % 1024 == 0 && !whim_gb_late(b) && m.pairs.n > 8 * b->limits.max_nodes) {
                whim_gb_fail(b, WHIM_ERR_INVALID,
                             "the grammar is too large: two of its parts together need more than "
                             "%lld states; use smaller bounds",
                             (long long)(8 * b->limits.max_nodes));
            }
        }
        drop_dead(&m);
    }
    whim_dfa_deinit(&m.one);
    whim_dfa_deinit(&m.two);
    whim_sets_deinit(&m.pairs);
}

void whim_product_deinit(gproduct *p)
{
    whim_free(p->moves);
    whim_free(p->accepts);
    *p = (gproduct){0};
}

int32_t whim_nfa_emit_product(gnfa *nfa, const gnode *node, int32_t from)
{
    whim_grammar_builder *b = nfa->b;
    bool negate = node->kind == GN_BUT_NOT;
    gproduct *p = &b->product;
    if (p->n_state == 0 || p->a != node->a || p->b != node->b || p->negate != negate) {
        gproduct made = {.a = node->a, .b = node->b, .negate = negate};
        make(b, node, &made); /* which may make others on its way */
        whim_product_deinit(p);
        *p = made;
    }
    int32_t first = (int32_t)nfa->n_state;
    for (int32_t i = 0; i < p->n_state; i++) {
        (void)whim_nfa_state(nfa);
    }
    int32_t end = whim_nfa_state(nfa);
    whim_nfa_free_move(nfa, p->n_state > 0 ? from : -1, first);
    for (int32_t i = 0; i < p->n_state && end >= 0; i++) {
        whim_nfa_free_move(nfa, p->accepts[i] ? first + i : -1, end);
    }
    for (int64_t i = 0; i < p->n_move && end >= 0; i++) {
        const gmove *m = &p->moves[i];
        whim_nfa_edge(nfa, first + m->from, GE_BYTES, m->lo, m->hi, 0, first + m->to);
    }
    return end;
}
