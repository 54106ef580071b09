/* SPDX-License-Identifier: Apache-2.0 */
/* Free text without certain marks: the automaton that finds any of the marks, side by side with the
 * one that follows UTF-8. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

/* Where in a character the text is: whole, or which bytes may come next. */
enum { WHOLE, LAST, LAST2, LAST3, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4, N_PLACE };

/* The place behind a byte, or -1 where no character goes on so. */
static int32_t place_next(int32_t place, int32_t byte)
{
    switch (place) {
    case WHOLE:
        return byte < 0x80    ? WHOLE
               : byte < 0xC2  ? -1
               : byte < 0xE0  ? LAST
               : byte == 0xE0 ? AFTER_E0
               : byte == 0xED ? AFTER_ED
               : byte < 0xF0  ? LAST2
               : byte == 0xF0 ? AFTER_F0
               : byte < 0xF4  ? LAST3
               : byte == 0xF4 ? AFTER_F4
                              : -1;
    case LAST:
    case LAST2:
    case LAST3:
        return byte >= 0x80 && byte < 0xC0 ? place - 1 : -1;
    case AFTER_E0:
        return byte >= 0xA0 && byte < 0xC0 ? LAST : -1;
    case AFTER_ED:
        return byte >= 0x80 && byte < 0xA0 ? LAST : -1;
    case AFTER_F0:
        return byte >= 0x90 && byte < 0xC0 ? LAST2 : -1;
    default:
        return byte >= 0x80 && byte < 0x90 ? LAST2 : -1;
    }
}

/* The finder: a tree of the marks, each node with its move for every byte. */
typedef struct finder {
    int32_t (*next)[256];
    bool *found;
    int32_t n;
} finder;

static void finder_deinit(finder *f)
{
    whim_free(f->next);
    whim_free(f->found);
}

static void finder_add(finder *f, const char *mark, int32_t n)
{
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t *next = &f->next[at][(uint8_t)mark[i]];
        if (*next == 0) {
            *next = f->n++;
        }
        at = *next;
    }
    f->found[at] = true;
}

/* Nodes in the order of their depth get the moves of the longest suffix that is a node too. */
static void finder_finish(finder *f, int32_t *queue, int32_t *suffix)
{
    int32_t n = 0;
    for (int32_t c = 0; c < 256; c++) {
        if (f->next[0][c] != 0) {
            queue[n++] = f->next[0][c];
        }
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t at = queue[i];
        f->found[at] = f->found[at] || f->found[suffix[at]];
        for (int32_t c = 0; c < 256; c++) {
            int32_t to = f->next[at][c], other = f->next[suffix[at]][c];
            if (to == 0) {
                f->next[at][c] = other;
            } else {
                suffix[to] = other;
                queue[n++] = to;
            }
        }
    }
}

static bool finder_init(finder *f, whim_grammar_builder *b, const gnode *node)
{
    int64_t most = 1;
    for (int32_t i = 0; i < node->b; i++) {
        most += b->nodes[b->kids[node->a + i]].b;
    }
    int32_t *queue = whim_alloc_array(most, sizeof *queue);
    int32_t *suffix = whim_alloc_array(most, sizeof *suffix);
    f->next = whim_alloc_array(most, sizeof *f->next);
    f->found = whim_alloc_array(most, sizeof *f->found);
    f->n = 1;
    bool ok = queue != NULL && suffix != NULL && f->next != NULL && f->found != NULL;
    for (int32_t i = 0; i < node->b && ok; i++) {
        const gnode *mark = &b->nodes[b->kids[node->a + i]];
        finder_add(f, b->bytes + mark->a, mark->b);
    }
    if (ok) {
        finder_finish(f, queue, suffix);
    }
    whim_free(queue);
    whim_free(suffix);
    return ok;
}

/* The edges of one pair of states; `at` maps pairs to states of the automaton, -1: not met yet. */
static void emit_pair(gnfa *nfa, const finder *f, int32_t pair, int32_t *at, int32_t end, bool ends)
{
    int32_t from = at[pair];
    for (int32_t c = 0, run_to = -1, run = 0; c <= 256; c++) {
        int32_t to = -1;
        int32_t place = c < 256 ? place_next(pair % N_PLACE, c) : -1;
        if (place >= 0) {
            int32_t node = f->next[pair / N_PLACE][c];
            int32_t *seen = &at[node * N_PLACE + place];
            if (f->found[node]) {
                to = ends ? end : -1;
            } else {
                to = *seen = *seen >= 0 ? *seen : whim_nfa_state(nfa);
            }
        }
        if (to != run_to) {
            if (run_to >= 0) {
                whim_nfa_edge(nfa, from, GE_BYTES, (uint8_t)run, (uint8_t)(c - 1), 0, run_to);
            }
            run_to = to;
            run = c;
        }
    }
}

int32_t whim_nfa_emit_text(gnfa *nfa, const gnode *node, int32_t from)
{
    finder f = {0};
    int32_t end = whim_nfa_state(nfa), *at = NULL;
    bool ok = finder_init(&f, nfa->b, node);
    int64_t n_pair = (int64_t)f.n * N_PLACE;
    if (ok) {
        at = whim_alloc_array(n_pair, sizeof *at);
        ok = at != NULL;
    }
    for (int64_t i = 0; i < n_pair && ok; i++) {
        at[i] = -1;
    }
    /* Pairs are few: go over them until no new one is met. */
    uint8_t *done = ok ? whim_alloc_array(n_pair, 1) : NULL;
    ok = ok && done != NULL;
    if (ok) {
        at[0] = whim_nfa_state(nfa);
        whim_nfa_free_move(nfa, from, at[0]);
    }
    for (bool more = ok; more && !whim_gb_failed(nfa->b);) {
        more = false;
        for (int32_t pair = 0; pair < n_pair; pair++) {
            if (at[pair] < 0 || done[pair]) {
                continue;
            }
            emit_pair(nfa, &f, pair, at, end, node->lo != 0);
            if (node->lo == 0 && pair % N_PLACE == WHOLE) {
                whim_nfa_free_move(nfa, at[pair], end);
            }
            done[pair] = 1;
            more = true;
        }
    }
    whim_free(done);
    whim_free(at);
    finder_deinit(&f);
    return ok ? end : whim_gb_fail(nfa->b, WHIM_ERR_NO_MEMORY, "no memory for the grammar");
}
