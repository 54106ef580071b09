/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers, each kept once: found again by a hash table over them. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

/* Where in the table a list stands, or the empty slot where it would. */
static int64_t slot_of(const gsets *s, const int32_t *list, int64_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < n; i++) {
        h = (h ^ (uint64_t)(uint32_t)list[i]) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    int64_t at = (int64_t)(h & (uint64_t)(s->cap_table - 1));
    for (; s->table[at] != 0; at = (at + 1) & (s->cap_table - 1)) {
        const int64_t *begin = s->begin + s->table[at] - 1;
        if (begin[1] - begin[0] == n &&
            memcmp(s->ints + begin[0], list, (size_t)n * sizeof *list) == 0) {
            break;
        }
    }
    return at;
}

static bool table_grow(whim_grammar_builder *b, gsets *s)
{
    int64_t cap = s->cap_table > 0 ? s->cap_table * 2 : 256;
    int32_t *table = whim_gb_alloc(b, cap, sizeof *table);
    if (table == NULL) {
        return false;
    }
    whim_free(s->table);
    s->table = table;
    s->cap_table = cap;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t at = slot_of(s, s->ints + s->begin[i], s->begin[i + 1] - s->begin[i]);
        s->table[at] = (int32_t)i + 1;
    }
    return true;
}

int32_t whim_sets_place(whim_grammar_builder *b, gsets *s, const int32_t *list, int64_t n)
{
    if (2 * (s->n + 1) >= s->cap_table && !table_grow(b, s)) {
        return -1;
    }
    int64_t at = slot_of(s, list, n);
    if (s->table[at] != 0) {
        return s->table[at] - 1;
    }
    if (!whim_gb_grow(b, &s->begin, s->n + 2, &s->cap_begin, sizeof *s->begin) ||
        whim_gb_append(b, &s->ints, &s->n_int, &s->cap_int, list, n, sizeof *list) < 0) {
        return -1;
    }
    s->begin[++s->n] = s->n_int;
    s->table[at] = (int32_t)s->n;
    return (int32_t)s->n - 1;
}

void whim_sets_deinit(gsets *s)
{
    whim_free(s->ints);
    whim_free(s->begin);
    whim_free(s->table);
}
