/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of some lengths. Written out they would have dozens of states for each character, so that
 * a state is a number that says how many characters there were and in which state of plain strings
 * the walk stands; what a byte leads to is found from the two. The closing quote leads to the last
 * state of plain strings itself. */
#include "grammar/impl.h"

#include "base/alloc.h"

bool whim_counted_table(whim_grammar_builder *b, const gdfa *string, gdfa *out)
{
    *out = *string;
    out->n_state = out->cap_state = 1;
    out->n_call = out->cap_call = 0;
    out->calls = NULL;
    out->next = whim_gb_alloc(b, string->n_class, sizeof *out->next);
    out->accepts = whim_gb_alloc(b, 1, 1);
    out->call_begin = whim_gb_alloc(b, 2, sizeof *out->call_begin);
    for (int32_t c = 0; c < string->n_class && out->next != NULL; c++) {
        out->next[c] = -1;
    }
    return !whim_gb_failed(b);
}

bool whim_counted_join(whim_grammar_builder *b, whim_grammar *g)
{
    int64_t begin = g->n_state, cap = 0;
    for (int64_t s = 0; s < g->n_state; s++) {
        gstate *state = &g->states[s];
        const grule *rule = &b->rules[state->rule];
        if (!rule->counts) {
            continue;
        }
        int64_t most = rule->hi >= 0 ? rule->hi : rule->lo;
        int64_t n_state = (most + 1) * g->n_string;
        if (begin + n_state > INT32_MAX) {
            whim_gb_fail(b, WHIM_ERR_INVALID,
                         "the grammar is too large: the lengths of its strings add up to more than "
                         "%lld characters; use smaller bounds",
                         (long long)(INT32_MAX / g->n_string));
            return false;
        }
        if (!whim_gb_grow(b, &g->counted, g->n_counted + 1, &cap, sizeof *g->counted)) {
            return false;
        }
        int32_t body = g->string_body - g->string_begin;
        int32_t *row = g->tables[state->rule].next;
        row[state->class_of['"']] = (int32_t)begin + body;
        g->counted[g->n_counted++] = (gcounted){.rule = state->rule,
                                                .begin = (int32_t)begin,
                                                .lo = rule->lo,
                                                .hi = rule->hi,
                                                .most = most};
        begin += n_state;
    }
    return true;
}

const gcounted *whim_counted_find(const whim_grammar *g, int32_t state, int64_t *count,
                                  int32_t *inner)
{
    int32_t lo = 0, hi = g->n_counted;
    while (hi - lo > 1) {
        int32_t mid = (lo + hi) / 2;
        if (g->counted[mid].begin <= state) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    int32_t place = state - g->counted[lo].begin;
    *count = place / g->n_string;
    *inner = g->string_begin + place % g->n_string;
    return &g->counted[lo];
}

bool whim_counted_is_live(const whim_grammar *g, const uint8_t *live, int32_t state)
{
    int64_t count;
    int32_t body;
    const gcounted *rule = whim_counted_find(g, state, &count, &body);
    const gstate *s = &g->states[body];
    bool a_character = rule->lo == 0;
    for (int32_t c = 0; c < g->tables[s->rule].n_class; c++) {
        int32_t to = s->next[c];
        a_character = a_character || (to >= 0 && live[to] && !g->states[to].accepts);
    }
    return live[body] && a_character;
}

int32_t whim_counted_next(const whim_grammar *g, int32_t state, uint8_t byte)
{
    int64_t count;
    int32_t from;
    const gcounted *rule = whim_counted_find(g, state, &count, &from);
    const gstate *s = &g->states[from];
    int32_t to = s->next[s->class_of[byte]];
    if (to < 0) {
        return -1;
    }
    if (g->states[to].accepts) {
        return count >= rule->lo ? to : -1;
    }
    if (from == g->string_body && count == rule->hi) {
        return -1;
    }
    count += to == g->string_body && count < rule->most;
    return rule->begin + (int32_t)count * g->n_string + to - g->string_begin;
}

int32_t whim_counted_partner(const whim_grammar *g, int32_t state)
{
    int64_t count;
    int32_t inner;
    (void)whim_counted_find(g, state, &count, &inner);
    return inner;
}

uint16_t whim_counted_alike(const whim_grammar *g, int32_t state)
{
    int64_t count;
    int32_t inner;
    const gcounted *rule = whim_counted_find(g, state, &count, &inner);
    int64_t more = inner != g->string_body; /* bytes until a character may begin, at least */
    count += more > 0 && count < rule->most;
    int64_t length = count < rule->lo ? 1 : rule->hi < 0 ? GA_NEVER : rule->hi - count + 1;
    return (uint16_t)(length >= GA_NEVER ? (rule->hi < 0 ? GA_NEVER : GA_NEVER - 1)
                                         : length + more);
}
