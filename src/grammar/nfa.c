/* SPDX-License-Identifier: Apache-2.0 */
/* From nodes to an automaton with free moves. A part is written between two states; it never adds
 * an edge into the state that it starts from, so that parts can share a start. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

int32_t whim_nfa_state(gnfa *nfa)
{
    whim_grammar_builder *b = nfa->b;
    if (whim_gb_failed(b) || (nfa->n_state % 1024 == 0 && whim_gb_late(b))) {
        return -1;
    }
    if (nfa->n_state >= nfa->max_state) {
        return whim_gb_fail(b, WHIM_ERR_INVALID,
                            "the grammar is too large: its repetitions written out need more than "
                            "%lld states; use smaller bounds",
                            (long long)nfa->max_state);
    }
    return whim_gb_append(b, &nfa->first, &nfa->n_state, &nfa->cap_state, &(int32_t){-1}, 1,
                          sizeof *nfa->first);
}

void whim_nfa_edge(gnfa *nfa, int32_t from, gedge_kind kind, uint8_t lo, uint8_t hi, int32_t rule,
                   int32_t to)
{
    if (from < 0 || to < 0) {
        return;
    }
    gedge edge = {to, nfa->first[from], rule, (uint8_t)kind, lo, hi};
    int32_t at =
        whim_gb_append(nfa->b, &nfa->edges, &nfa->n_edge, &nfa->cap_edge, &edge, 1, sizeof edge);
    nfa->first[from] = at >= 0 ? at : nfa->first[from];
}

void whim_nfa_free_move(gnfa *nfa, int32_t from, int32_t to)
{
    whim_nfa_edge(nfa, from, GE_FREE, 0, 0, 0, to);
}

void whim_nfa_deinit(gnfa *nfa)
{
    whim_free(nfa->first);
    whim_free(nfa->edges);
}

static int32_t emit_bytes(gnfa *nfa, const gnode *node, int32_t from)
{
    for (int32_t i = 0; i < node->b && from >= 0; i++) {
        uint8_t byte = (uint8_t)nfa->b->bytes[node->a + i];
        int32_t next = whim_nfa_state(nfa);
        whim_nfa_edge(nfa, from, GE_BYTES, byte, byte, 0, next);
        from = next;
    }
    return from;
}

static int32_t emit_repeat(gnfa *nfa, const gnode *node, int32_t from)
{
    for (int64_t i = 0; i < node->lo && from >= 0; i++) {
        int32_t to = whim_nfa_emit(nfa, node->a, from);
        if (to == from) {
            break; /* the body is empty, and so is any number of it */
        }
        from = to;
    }
    int32_t end = whim_nfa_state(nfa);
    if (node->hi < 0) {
        whim_nfa_free_move(nfa, from, end);
        /* The body starts at a state of its own: what follows the loop starts at `end`. */
        int32_t body = whim_nfa_state(nfa);
        whim_nfa_free_move(nfa, end, body);
        whim_nfa_free_move(nfa, whim_nfa_emit(nfa, node->a, body), end);
        return end;
    }
    for (int64_t i = node->lo; i < node->hi && from >= 0; i++) {
        whim_nfa_free_move(nfa, from, end);
        int32_t body = whim_nfa_state(nfa);
        whim_nfa_free_move(nfa, from, body);
        from = whim_nfa_emit(nfa, node->a, body);
    }
    whim_nfa_free_move(nfa, from, end);
    return end;
}

static int32_t emit_any_of(gnfa *nfa, const gnode *node, int32_t from)
{
    int32_t end = whim_nfa_state(nfa);
    for (int32_t i = 0; i < node->b && end >= 0; i++) {
        int32_t body = whim_nfa_state(nfa);
        whim_nfa_free_move(nfa, from, body);
        whim_nfa_free_move(nfa, whim_nfa_emit(nfa, nfa->b->kids[node->a + i], body), end);
    }
    return end;
}

/* Members in order, each with a comma before it but for the first. Two tracks: nothing written yet,
 * and something written; a value is common to both. */
static int32_t emit_members(gnfa *nfa, const gnode *node, int32_t from)
{
    int32_t none = from, some = whim_nfa_state(nfa), end = whim_nfa_state(nfa);
    for (int32_t i = 0; i < node->b && end >= 0; i += 3) {
        int32_t key = whim_nfa_state(nfa), after = whim_nfa_state(nfa);
        const int32_t *kids = nfa->b->kids + node->a + i;
        int32_t how = kids[2];
        whim_nfa_free_move(nfa, none, key);
        whim_nfa_free_move(nfa, whim_nfa_emit(nfa, (int32_t)node->hi, some), key);
        int32_t value = whim_nfa_emit(nfa, kids[0], key);
        whim_nfa_free_move(nfa, whim_nfa_emit(nfa, kids[1], value), after);
        if (how == GM_REPEATED) {
            whim_nfa_free_move(nfa, after, some);
            break;
        }
        int32_t none_after = whim_nfa_state(nfa);
        if (how == GM_OPTIONAL) {
            whim_nfa_free_move(nfa, none, none_after);
            whim_nfa_free_move(nfa, some, after);
        }
        none = none_after;
        some = after;
    }
    whim_nfa_free_move(nfa, some, end);
    if (node->lo == 0) {
        whim_nfa_free_move(nfa, none, end);
    }
    return end;
}

/* One state for each remainder; a digit leads from r to (10 r + digit) mod m. */
static int32_t emit_multiple(gnfa *nfa, int32_t m, int32_t from)
{
    int32_t begin = whim_nfa_state(nfa), end = whim_nfa_state(nfa);
    int32_t first = (int32_t)nfa->n_state;
    whim_nfa_free_move(nfa, from, begin);
    whim_nfa_edge(nfa, from, GE_BYTES, '-', '-', 0, begin);
    for (int32_t r = 0; r < m; r++) {
        if (whim_nfa_state(nfa) < 0) {
            return -1;
        }
    }
    for (int32_t r = -1; r < m; r++) {
        for (int32_t d = 0; d < 10; d++) {
            int32_t to = first + (int32_t)((10 * (int64_t)(r < 0 ? 0 : r) + d) % m);
            uint8_t byte = (uint8_t)('0' + d);
            whim_nfa_edge(nfa, r < 0 ? begin : first + r, GE_BYTES, byte, byte, 0, to);
        }
    }
    whim_nfa_free_move(nfa, first, end);
    return end;
}

int32_t whim_nfa_emit(gnfa *nfa, int32_t index, int32_t from)
{
    if (from < 0 || whim_gb_failed(nfa->b)) {
        return -1;
    }
    if (index < 0) { /* whoever made the rule had no memory for a schema's copy, and said nothing */
        return whim_gb_no_memory(nfa->b);
    }
    const gnode node = nfa->b->nodes[index]; /* a copy: nodes may be added while it is written */
    int32_t to;
    switch (node.kind) {
    case GN_EMPTY:
        return from;
    case GN_NEVER:
        return whim_nfa_state(nfa);
    case GN_BYTES:
        return emit_bytes(nfa, &node, from);
    case GN_CHARS:
        return whim_nfa_emit_chars(nfa, &node, from);
    case GN_SEQ:
        for (int32_t i = 0; i < node.b; i++) {
            from = whim_nfa_emit(nfa, nfa->b->kids[node.a + i], from);
        }
        return from;
    case GN_ANY_OF:
        return emit_any_of(nfa, &node, from);
    case GN_REPEAT:
        return emit_repeat(nfa, &node, from);
    case GN_CALL:
        to = whim_nfa_state(nfa);
        whim_nfa_edge(nfa, from, GE_CALL, 0, 0, node.a, to);
        if (nfa->b->rules[node.a].takes_empty) {
            whim_nfa_free_move(nfa, from, to);
        }
        return to;
    case GN_MULTIPLE:
        return emit_multiple(nfa, node.a, from);
    case GN_MEMBERS:
        return emit_members(nfa, &node, from);
    case GN_BOTH:
    case GN_BUT_NOT:
        break;
    }
    return whim_nfa_emit_product(nfa, &node, from);
}
