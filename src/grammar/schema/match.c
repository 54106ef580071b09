/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a text that is known while a schema is compiled fits a part of a grammar: keys that
 * patterns may speak about, and constants. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"

#include <string.h>

static bool table_takes(const gdfa *table, const char *text, int64_t n)
{
    int32_t at = table->n_state > 0 ? 0 : -1;
    for (int64_t i = 0; i < n && at >= 0; i++) {
        at = table->next[at * table->n_class + table->class_of[(uint8_t)text[i]]];
    }
    return at >= 0 && table->accepts[at];
}

bool whim_gb_takes(whim_grammar_builder *b, int32_t node, const char *text, int64_t n)
{
    gdfa table = {0};
    bool takes =
        node >= 0 && whim_dfa_of_node(b, node, false, &table) && table_takes(&table, text, n);
    whim_dfa_deinit(&table);
    return takes;
}

/* The table of a pattern, which is kept: one pattern is asked about many keys. */
static const gdfa *table_of(whim_grammar_builder *b, const char *pattern, const gplace *place)
{
    char buf[GPLACE_ROOM];
    for (int64_t i = 0; i < b->n_matcher; i++) {
        if (strcmp(b->matchers[i].pattern, pattern) == 0) {
            return &b->matchers[i].table;
        }
    }
    gmatcher made = {0};
    int32_t node =
        whim_gb_regex(b, pattern, (gregex_mode){.search = true}, whim_gplace_text(place, buf));
    if (node < 0 || !whim_dfa_of_node(b, node, false, &made.table)) {
        whim_dfa_deinit(&made.table);
        return NULL;
    }
    made.pattern = whim_gb_alloc(b, (int64_t)strlen(pattern) + 1, 1);
    int32_t at = made.pattern == NULL ? -1
                                      : whim_gb_append(b, &b->matchers, &b->n_matcher,
                                                       &b->cap_matcher, &made, 1, sizeof made);
    if (at < 0) {
        whim_free(made.pattern);
        whim_dfa_deinit(&made.table);
        return NULL;
    }
    memcpy(made.pattern, pattern, strlen(pattern));
    return &b->matchers[at].table;
}

bool whim_gb_pattern_finds(whim_grammar_builder *b, const char *pattern, const char *text,
                           const gplace *place)
{
    const gdfa *table = whim_gb_failed(b) ? NULL : table_of(b, pattern, place);
    return table != NULL && table_takes(table, text, (int64_t)strlen(text));
}

void whim_matchers_deinit(whim_grammar_builder *b)
{
    for (int64_t i = 0; i < b->n_matcher; i++) {
        whim_free(b->matchers[i].pattern);
        whim_dfa_deinit(&b->matchers[i].table);
    }
    whim_free(b->matchers);
}
