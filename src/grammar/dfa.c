/* SPDX-License-Identifier: Apache-2.0 */
/* From an automaton with free moves to a table: a state of the table is the set of states that the
 * same letters lead to. A call is a letter too. Sets hold only states with edges that are not free,
 * and the end. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

enum { MAX_SET_INTS = 16 << 20, MAX_ENTRIES = 16 << 20 };

typedef struct maker {
    whim_grammar_builder *b;
    gnfa *nfa;
    int32_t end;
    gdfa *dfa;
    gsets sets; /* of the states so far */
    /* The set being made. */
    int32_t *cur, *todo;
    int64_t n_cur;
    int32_t *stamp; /* [states of nfa] */
    int32_t now;
    /* Edges of the state being worked on, by class of bytes. */
    int32_t *targets;
    int64_t cap_target;
} maker;

static void classes_of(const gnfa *nfa, gdfa *dfa)
{
    bool starts[257] = {true};
    for (int64_t i = 0; i < nfa->n_edge; i++) {
        if (nfa->edges[i].kind == GE_BYTES) {
            starts[nfa->edges[i].lo] = starts[nfa->edges[i].hi + 1] = true;
        }
    }
    dfa->n_class = 0;
    for (int32_t c = 0; c < 256; c++) {
        dfa->n_class += starts[c];
        dfa->class_of[c] = (uint8_t)(dfa->n_class - 1);
    }
}

/* Add a state and all that free moves lead to. */
static void reach(maker *m, int32_t state)
{
    int64_t n_todo = 0;
    if (m->stamp[state] == m->now) {
        return;
    }
    m->stamp[state] = m->now;
    m->todo[n_todo++] = state;
    while (n_todo > 0) {
        int32_t at = m->todo[--n_todo];
        bool keep = at == m->end;
        for (int32_t e = m->nfa->first[at]; e >= 0; e = m->nfa->edges[e].next) {
            const gedge *edge = &m->nfa->edges[e];
            if (edge->kind != GE_FREE) {
                keep = true;
            } else if (m->stamp[edge->to] != m->now) {
                m->stamp[edge->to] = m->now;
                m->todo[n_todo++] = edge->to;
            }
        }
        if (keep) {
            m->cur[m->n_cur++] = at;
        }
    }
}

/* Shell's way: sets are small but for a few, and many. */
static void sort_set(int32_t *list, int64_t n)
{
    static const int32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        for (int64_t i = gaps[g]; i < n; i++) {
            int32_t value = list[i];
            int64_t k = i;
            for (; k >= gaps[g] && list[k - gaps[g]] > value; k -= gaps[g]) {
                list[k] = list[k - gaps[g]];
            }
            list[k] = value;
        }
    }
}

/* The state of the set in `cur`, made when it is new; -1 for the empty set and when the builder
 * failed. */
static int32_t state_of(maker *m)
{
    gdfa *d = m->dfa;
    int64_t cap = d->cap_state;
    if (m->n_cur == 0) {
        return -1;
    }
    sort_set(m->cur, m->n_cur);
    int32_t state = whim_sets_place(m->b, &m->sets, m->cur, m->n_cur);
    if (state < d->n_state) {
        return state;
    }
    if (d->n_state >= m->b->limits.max_nodes || m->sets.n_int > MAX_SET_INTS ||
        (d->n_state + 1) * d->n_class > MAX_ENTRIES) {
        return whim_gb_fail(
            m->b, WHIM_ERR_INVALID,
            "the grammar is too large: a part of it needs more than %lld states; use smaller "
            "bounds, or patterns without overlapping repetitions",
            (long long)m->b->limits.max_nodes);
    }
    if (!whim_gb_grow(m->b, &d->next, state + 1, &cap, d->n_class * (int64_t)sizeof *d->next) ||
        !whim_gb_grow(m->b, &d->accepts, state + 1, &d->cap_state, 1)) {
        return -1;
    }
    for (int64_t i = 0; i < m->n_cur; i++) {
        d->accepts[state] |= m->cur[i] == m->end;
    }
    for (int32_t c = 0; c < d->n_class; c++) {
        d->next[state * (int64_t)d->n_class + c] = -1;
    }
    d->n_state++;
    return state;
}

static void set_begin(maker *m)
{
    m->n_cur = 0;
    m->now++;
}

/* Sort the byte edges of a state by class: targets[begin[c] .. begin[c + 1]). */
static bool sort_edges(maker *m, int64_t s, int64_t *begin)
{
    int64_t count[257] = {0};
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int64_t i = m->sets.begin[s]; i < m->sets.begin[s + 1]; i++) {
            for (int32_t e = m->nfa->first[m->sets.ints[i]]; e >= 0; e = m->nfa->edges[e].next) {
                const gedge *edge = &m->nfa->edges[e];
                if (edge->kind != GE_BYTES) {
                    continue;
                }
                int32_t last = m->dfa->class_of[edge->hi];
                for (int32_t c = m->dfa->class_of[edge->lo]; c <= last; c++) {
                    if (pass == 0) {
                        count[c]++;
                    } else {
                        m->targets[begin[c] + count[c]++] = edge->to;
                    }
                }
            }
        }
        if (pass == 0) {
            begin[0] = 0;
            for (int32_t c = 0; c < m->dfa->n_class; c++) {
                begin[c + 1] = begin[c] + count[c];
                count[c] = 0;
            }
            if (!whim_gb_grow(m->b, &m->targets, begin[m->dfa->n_class], &m->cap_target,
                              sizeof *m->targets)) {
                return false;
            }
        }
    }
    return true;
}

/* The only edge by bytes of a state, as nearly all of those inside a text have; NULL: there are
 * more, or none. */
static const gedge *only_edge(const maker *m, int64_t s)
{
    const gedge *only = NULL;
    for (int64_t i = m->sets.begin[s]; i < m->sets.begin[s + 1]; i++) {
        for (int32_t e = m->nfa->first[m->sets.ints[i]]; e >= 0; e = m->nfa->edges[e].next) {
            const gedge *edge = &m->nfa->edges[e];
            if (edge->kind == GE_BYTES && only != NULL) {
                return NULL;
            }
            only = edge->kind == GE_BYTES ? edge : only;
        }
    }
    return only;
}

/* The class before c whose bytes lead to the same states, -1: none. Letters and digits often do,
 * with others between them. */
static int32_t like_class(const maker *m, const int64_t *begin, int32_t c)
{
    int64_t n = begin[c + 1] - begin[c];
    const int32_t *targets = m->targets + begin[c];
    for (int32_t k = c - 1; k >= 0; k--) {
        if (begin[k + 1] - begin[k] == n && m->targets[begin[k]] == targets[0] &&
            memcmp(m->targets + begin[k], targets, (size_t)n * sizeof *targets) == 0) {
            return k;
        }
    }
    return -1;
}

static void make_moves(maker *m, int64_t s)
{
    int64_t begin[257];
    const gedge *only = only_edge(m, s);
    if (only != NULL) {
        set_begin(m);
        reach(m, only->to);
        int32_t to = state_of(m);
        for (int32_t c = m->dfa->class_of[only->lo]; c <= m->dfa->class_of[only->hi]; c++) {
            m->dfa->next[s * m->dfa->n_class + c] = to;
        }
        return;
    }
    if (!sort_edges(m, s, begin)) {
        return;
    }
    for (int32_t c = 0; c < m->dfa->n_class && !whim_gb_failed(m->b); c++) {
        if (begin[c + 1] == begin[c]) {
            continue; /* as it was made: nothing */
        }
        int32_t like = like_class(m, begin, c), to;
        if (like >= 0) {
            to = m->dfa->next[s * m->dfa->n_class + like];
        } else {
            set_begin(m);
            for (int64_t i = begin[c]; i < begin[c + 1]; i++) {
                reach(m, m->targets[i]);
            }
            to = state_of(m);
        }
        m->dfa->next[s * m->dfa->n_class + c] = to;
    }
}

/* All calls of one rule from the state lead to one state. */
static void make_calls(maker *m, int64_t s)
{
    gdfa *d = m->dfa;
    int64_t first = d->n_call;
    for (int64_t i = m->sets.begin[s]; i < m->sets.begin[s + 1]; i++) {
        for (int32_t e = m->nfa->first[m->sets.ints[i]]; e >= 0; e = m->nfa->edges[e].next) {
            int32_t rule = m->nfa->edges[e].rule;
            bool old = m->nfa->edges[e].kind != GE_CALL;
            for (int64_t k = first; k < d->n_call && !old; k++) {
                old = d->calls[k].rule == rule;
            }
            (void)whim_gb_append(m->b, &d->calls, &d->n_call, &d->cap_call, &(gcall){rule, -1},
                                 !old, sizeof *d->calls);
        }
    }
    for (int64_t k = first; k < d->n_call; k++) {
        set_begin(m);
        for (int64_t i = m->sets.begin[s]; i < m->sets.begin[s + 1]; i++) {
            for (int32_t e = m->nfa->first[m->sets.ints[i]]; e >= 0; e = m->nfa->edges[e].next) {
                const gedge *edge = &m->nfa->edges[e];
                if (edge->kind == GE_CALL && edge->rule == d->calls[k].rule) {
                    reach(m, edge->to);
                }
            }
        }
        d->calls[k].to = state_of(m);
    }
}

static void make_all(maker *m, int32_t start, bool not_empty)
{
    gdfa *d = m->dfa;
    int64_t cap = 0;
    set_begin(m);
    reach(m, start);
    bool has_start = false;
    for (int64_t i = 0; i < m->n_cur; i++) {
        has_start = has_start || m->cur[i] == start;
    }
    if (not_empty && !has_start) {
        m->cur[m->n_cur++] = start; /* no edge leads to it: no other state has this set */
    }
    state_of(m);
    if (not_empty && !whim_gb_failed(m->b)) {
        d->accepts[0] = 0;
    }
    for (int64_t s = 0; s < d->n_state && !whim_gb_failed(m->b); s++) {
        if (s % 64 == 0 && whim_gb_late(m->b)) {
            return;
        }
        if (!whim_gb_grow(m->b, &d->call_begin, s + 2, &cap, sizeof *d->call_begin)) {
            return;
        }
        make_moves(m, s);
        make_calls(m, s);
        d->call_begin[s + 1] = (int32_t)d->n_call;
    }
}

bool whim_dfa_of_node(whim_grammar_builder *b, int32_t node, bool not_empty, gdfa *out)
{
    gnfa nfa = {.b = b, .max_state = 8 * b->limits.max_nodes};
    maker m = {.b = b, .nfa = &nfa, .dfa = out};
    int32_t start = whim_nfa_state(&nfa);
    *out = (gdfa){0};
    m.end = whim_nfa_emit(&nfa, node, start);
    if (!whim_gb_failed(b)) {
        m.cur = whim_gb_alloc(b, nfa.n_state, sizeof *m.cur);
        m.todo = whim_gb_alloc(b, nfa.n_state, sizeof *m.todo);
        m.stamp = whim_gb_alloc(b, nfa.n_state, sizeof *m.stamp);
    }
    if (!whim_gb_failed(b)) {
        classes_of(&nfa, out);
        make_all(&m, start, not_empty);
    }
    whim_free(m.cur);
    whim_free(m.todo);
    whim_free(m.stamp);
    whim_free(m.targets);
    whim_sets_deinit(&m.sets);
    whim_nfa_deinit(&nfa);
    return !whim_gb_failed(b);
}

void whim_dfa_deinit(gdfa *dfa)
{
    whim_free(dfa->next);
    whim_free(dfa->accepts);
    whim_free(dfa->call_begin);
    whim_free(dfa->calls);
}
