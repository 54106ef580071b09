/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of schemas share beside impl.h: merged schemas and their own keywords.
 *
 * Schemas that hold together are merged into one that has no $ref, allOf, not and the like any
 * more: what holds of every value is joined keyword by keyword, and what is a choice is put into a
 * list of choices, of which the compiler tries each. */
#ifndef WHIM_GRAMMAR_SCHEMA_SCHEMA_H
#define WHIM_GRAMMAR_SCHEMA_SCHEMA_H

#include "grammar/impl.h"

/* Keywords of merged schemas alone: no JSON text can hold their first byte. */
#define GK_CHOICES \
    "\xff"         \
    "choices" /* [{"anyOf" or "oneOf": [...]}, ...]: one of each list */
#define GK_PATTERNS \
    "\xff"          \
    "patterns" /* patterns beside `pattern` */

/* What two schemas allow together, each NULL where none is said; owned by the builder. */
const json_t *whim_gb_schema_both(whim_grammar_builder *b, const json_t *one, const json_t *two);
/* Put a value that the call takes over; false: failed. */
bool whim_gb_put(whim_grammar_builder *b, json_t *object, const char *key, json_t *value);

/* A schema that no value fits: a node for nothing, and its reason kept for the case that nothing
 * else can be answered. */
int32_t whim_gb_impossible(whim_grammar_builder *b, const gplace *place, const char *key,
                           const char *what);

/* Whether a part without calls takes a text; false also when the builder failed. */
bool whim_gb_takes(whim_grammar_builder *b, int32_t node, const char *text, int64_t n);
/* Whether a pattern is found in a text; false also when the builder failed. */
bool whim_gb_pattern_finds(whim_grammar_builder *b, const char *pattern, const char *text,
                           const gplace *place);

#endif
