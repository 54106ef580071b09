/* SPDX-License-Identifier: Apache-2.0 */
/* From the tables of the rules to one list of states, without dead ends; the life of a compiled
 * grammar. */
#include "grammar/impl.h"

#include "base/alloc.h"
#include "base/heap/budget.h"
#include "grammar/mask.h"

#include <string.h>

/* --- tables ----------------------------------------------------------------------------------- */

/* The tables of the rules that the root needs, and of plain strings. A rule that is not needed has
 * a table without states. */
static bool make_tables(whim_grammar_builder *b, whim_grammar *g)
{
    int32_t *queue = whim_gb_alloc(b, g->n_rule, sizeof *queue);
    uint8_t *seen = whim_gb_alloc(b, g->n_rule, 1);
    int64_t n = 0, n_state = 0;
    bool ok = queue != NULL && seen != NULL;
    if (ok) {
        queue[n++] = b->string_rule;
        queue[n++] = g->root_rule;
        seen[g->root_rule] = seen[b->string_rule] = 1;
    }
    for (int64_t i = 0; i < n && ok; i++) {
        int32_t rule = queue[i];
        gdfa *table = &g->tables[rule];
        ok = b->rules[rule].counts
                 ? whim_counted_table(b, &g->tables[b->string_rule], table)
                 : whim_dfa_of_node(b, b->rules[rule].node, b->rules[rule].takes_empty, table);
        n_state += table->n_state;
        if (ok && n_state > b->limits.max_nodes) {
            whim_gb_fail(b, WHIM_ERR_INVALID,
                         "the grammar is too large: it needs more than %lld states",
                         (long long)b->limits.max_nodes);
            ok = false;
        }
        for (int64_t k = 0; k < table->n_call && ok; k++) {
            int32_t callee = table->calls[k].rule;
            if (!seen[callee]) {
                seen[callee] = 1;
                queue[n++] = callee;
            }
        }
    }
    whim_free(queue);
    whim_free(seen);
    g->n_state = n_state;
    return ok;
}

/* One list of states for all tables: numbers inside a table become numbers of the list, and a
 * call's rule the first state of its table. */
static bool join_tables(whim_grammar_builder *b, whim_grammar *g)
{
    int64_t n_call = 0, at = 0, call_at = 0;
    int32_t *base = whim_gb_alloc(b, g->n_rule, sizeof *base);
    for (int32_t r = 0; r < g->n_rule; r++) {
        n_call += g->tables[r].n_call;
    }
    g->states = whim_gb_alloc(b, g->n_state, sizeof *g->states);
    g->calls = whim_gb_alloc(b, n_call, sizeof *g->calls);
    if (whim_gb_failed(b)) {
        whim_free(base);
        return false;
    }
    for (int32_t r = 0; r < g->n_rule; r++) {
        base[r] = (int32_t)at;
        at += g->tables[r].n_state;
    }
    for (int32_t r = 0; r < g->n_rule; r++) {
        gdfa *t = &g->tables[r];
        for (int64_t i = 0; i < t->n_state * t->n_class; i++) {
            t->next[i] += t->next[i] >= 0 ? base[r] : 0;
        }
        for (int64_t s = 0; s < t->n_state; s++) {
            g->states[base[r] + s] = (gstate){.next = t->next + s * t->n_class,
                                              .class_of = t->class_of,
                                              .rule = r,
                                              .accepts = t->accepts[s] != 0,
                                              .first_call = (int32_t)call_at,
                                              .n_call = t->call_begin[s + 1] - t->call_begin[s]};
            for (int32_t k = t->call_begin[s]; k < t->call_begin[s + 1]; k++) {
                int32_t rule = t->calls[k].rule;
                g->calls[call_at++] =
                    (gcall){.rule = g->tables[rule].n_state > 0 ? base[rule] : -1,
                            .to = t->calls[k].to < 0 ? -1 : base[r] + t->calls[k].to};
            }
        }
    }
    g->n_call = n_call;
    g->start = g->tables[g->root_rule].n_state > 0 ? base[g->root_rule] : -1;
    g->string_begin = base[b->string_rule];
    g->n_string = (int32_t)g->tables[b->string_rule].n_state;
    g->string_body = whim_grammar_next(g, g->string_begin, '"');
    whim_free(base);
    return whim_counted_join(b, g);
}

/* --- dead ends -------------------------------------------------------------------------------- */

/* Moves by bytes that no answer may have. */
static void drop_bytes(gdfa *t, const bool *bytes)
{
    bool kept[256] = {false};
    for (int32_t byte = 0; byte < 256; byte++) {
        kept[t->class_of[byte]] |= bytes[byte];
    }
    for (int64_t s = 0; s < t->n_state; s++) {
        for (int32_t c = 0; c < t->n_class; c++) {
            int32_t *next = &t->next[s * t->n_class + c];
            *next = kept[c] ? *next : -1;
        }
    }
}

static bool is_live(const whim_grammar *g, const uint8_t *live, int32_t state)
{
    return state < g->n_state ? live[state] != 0 : whim_counted_is_live(g, live, state);
}

static bool goes_on(const whim_grammar *g, const uint8_t *live, int64_t s)
{
    const gstate *state = &g->states[s];
    if (state->accepts) {
        return true;
    }
    for (int32_t c = 0; c < g->tables[state->rule].n_class; c++) {
        if (state->next[c] >= 0 && is_live(g, live, state->next[c])) {
            return true;
        }
    }
    for (int32_t k = 0; k < state->n_call; k++) {
        const gcall *call = &g->calls[state->first_call + k];
        if (call->rule >= 0 && call->to >= 0 && live[call->rule] && live[call->to]) {
            return true;
        }
    }
    return false;
}

/* Remove what leads to states from which the rule cannot end. States are in the order in which they
 * were met, so that going backwards settles most of them at once. */
static bool clean(whim_grammar_builder *b, whim_grammar *g)
{
    uint8_t *live = whim_gb_alloc(b, g->n_state, 1);
    if (live == NULL) {
        return false;
    }
    for (int32_t r = 0; r < g->n_rule && b->limits.bytes != NULL; r++) {
        drop_bytes(&g->tables[r], b->limits.bytes);
    }
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        for (int64_t s = g->n_state - 1; s >= 0; s--) {
            if (!live[s] && goes_on(g, live, s)) {
                live[s] = 1;
                more = true;
            }
        }
    }
    for (int32_t r = 0; r < g->n_rule; r++) {
        gdfa *t = &g->tables[r];
        for (int64_t i = 0; i < t->n_state * t->n_class; i++) {
            t->next[i] = t->next[i] >= 0 && is_live(g, live, t->next[i]) ? t->next[i] : -1;
        }
    }
    for (int64_t s = 0; s < g->n_state; s++) {
        gstate *state = &g->states[s];
        int32_t kept = 0;
        for (int32_t k = 0; k < state->n_call; k++) {
            gcall call = g->calls[state->first_call + k];
            if (call.rule >= 0 && call.to >= 0 && live[call.rule] && live[call.to]) {
                g->calls[state->first_call + kept++] = call;
            }
        }
        state->n_call = kept;
        for (int32_t c = 0; c < g->tables[state->rule].n_class; c++) {
            state->moves = state->moves || state->next[c] >= 0;
        }
        state->plain = !state->accepts && state->n_call == 0;
        state->is_last = state->accepts && state->n_call == 0 && !state->moves;
    }
    g->start = g->start >= 0 && live[g->start] ? g->start : -1;
    whim_free(live);
    return !whim_gb_failed(b);
}

/* Whether a rule can come to itself before it took a byte; `mark`: 0 new, 1 on the way, 2 fine.
 * Rules are many and may form long chains, so that the way is a list, not recursion. */
static bool finds_itself(const whim_grammar *g, int32_t start, uint8_t *mark, int32_t *way,
                         int32_t *next_call)
{
    int64_t n = 0;
    way[n] = start;
    next_call[n++] = 0;
    mark[start] = 1;
    while (n > 0) {
        const gstate *s = &g->states[way[n - 1]];
        if (next_call[n - 1] == s->n_call) {
            mark[way[--n]] = 2;
            continue;
        }
        int32_t callee = g->calls[s->first_call + next_call[n - 1]++].rule;
        if (mark[callee] == 1) {
            return true;
        }
        if (mark[callee] == 0) {
            mark[callee] = 1;
            way[n] = callee;
            next_call[n++] = 0;
        }
    }
    return false;
}

static bool check_calls(whim_grammar_builder *b, const whim_grammar *g)
{
    uint8_t *mark = whim_gb_alloc(b, g->n_state, 1);
    int32_t *way = whim_gb_alloc(b, g->n_rule + 1, sizeof *way);
    int32_t *next_call = whim_gb_alloc(b, g->n_rule + 1, sizeof *next_call);
    for (int64_t k = 0; k < g->n_call && !whim_gb_failed(b); k++) {
        int32_t start = g->calls[k].rule;
        if (start >= 0 && mark[start] == 0 && finds_itself(g, start, mark, way, next_call)) {
            whim_gb_fail(b, WHIM_ERR_INVALID,
                         "%s refers to itself with nothing in between: no value can be written",
                         b->rules[g->states[start].rule].path);
        }
    }
    whim_free(mark);
    whim_free(way);
    whim_free(next_call);
    return !whim_gb_failed(b);
}

/* --- life ------------------------------------------------------------------------------------- */

/* No answer is left; the schema may still have one, of a part that cannot be written. */
static void fail_impossible(whim_grammar_builder *b)
{
    const char *key = b->left_out;
    whim_gb_fail(b, WHIM_ERR_INVALID, "%s%s%s%s%s%s",
                 b->limits.bytes == NULL
                     ? "no answer can satisfy what is asked for"
                     : "no answer that this model's tokens can write satisfies what is asked for",
                 b->impossible.text[0] != '\0' ? ": " : "", b->impossible.text,
                 *key != '\0' ? " (perhaps because the opposite of " : "", key,
                 *key != '\0' ? " is not supported)" : "");
}

static bool compile(whim_grammar_builder *b, int32_t root, whim_grammar *g)
{
    g->root_rule = whim_gb_rule(b, NULL, "the answer");
    if (g->root_rule < 0 || whim_gb_json_string(b) < 0) {
        return false;
    }
    b->rules[g->root_rule].node = root;
    g->n_rule = (int32_t)b->n_rule;
    g->tables = whim_gb_alloc(b, g->n_rule, sizeof *g->tables);
    if (g->tables == NULL || !whim_grammar_share_rules(b) || !make_tables(b, g) ||
        !join_tables(b, g) || !clean(b, g)) {
        return false;
    }
    if (g->start < 0) {
        fail_impossible(b);
        return false;
    }
    whim_grammar_find_free(b, g);
    return check_calls(b, g) && whim_grammar_find_alike(b, g);
}

whim_err whim_grammar_build(whim_grammar_builder *b, whim_grammar_node root, whim_grammar **out,
                            whim_diag *diag)
{
    if (root < 0 && !whim_gb_failed(b)) {
        whim_gb_fail(b, WHIM_ERR_INVALID, "the grammar has no root");
    }
    whim_grammar *g = whim_gb_failed(b) ? NULL : whim_alloc(sizeof *g);
    if (g == NULL) {
        return whim_gb_failed(b) ? whim_fail(diag, b->err, "%s", b->diag.text) : WHIM_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->n_ref = 1;
    if (!compile(b, root, g)) {
        whim_grammar_unref(g);
        return whim_fail(diag, b->err, "%s", b->diag.text);
    }
    g->marks = b->marks;
    g->n_mark = b->n_mark;
    b->marks = NULL;
    b->n_mark = b->cap_mark = 0;
    *out = g;
    return WHIM_ERR_OK;
}

whim_grammar *whim_grammar_ref(whim_grammar *g)
{
    __atomic_add_fetch(&g->n_ref, 1, __ATOMIC_RELAXED);
    return g;
}

int64_t whim_grammar_bytes(whim_grammar *g)
{
    const void *arrays[] = {g,          g->marks,   g->tables,  g->states, g->calls,
                            g->entries, g->counted, g->partner, g->alike};
    int64_t n = 0;
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        n += whim_heap_bytes(arrays[i]);
    }
    n += g->entry_bytes;
    pthread_mutex_unlock(&g->lock);
    for (int32_t r = 0; r < g->n_rule; r++) {
        const gdfa *d = &g->tables[r];
        n += whim_heap_bytes(d->next) + whim_heap_bytes(d->accepts) +
             whim_heap_bytes(d->call_begin) + whim_heap_bytes(d->calls);
    }
    return n;
}

void whim_grammar_unref(whim_grammar *g)
{
    if (g == NULL || __atomic_sub_fetch(&g->n_ref, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (int64_t i = 0; i < g->cap_entry; i++) {
        whim_entry_free(g->entries[i].entry);
    }
    for (int32_t r = 0; r < g->n_rule && g->tables != NULL; r++) {
        whim_dfa_deinit(&g->tables[r]);
    }
    for (int64_t i = 0; i < g->n_mark; i++) {
        whim_free(g->marks[i]);
    }
    pthread_mutex_destroy(&g->lock);
    whim_free(g->marks);
    whim_free(g->tables);
    whim_free(g->states);
    whim_free(g->calls);
    whim_free(g->entries);
    whim_free(g->counted);
    whim_free(g->partner);
    whim_free(g->alike);
    whim_free(g);
}
