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
#define GK_MARK '\xff'
#define GK_CHOICES "\xff_choices"           /* [{"anyOf" or "oneOf": [...]}, ...]: one of each */
#define GK_PATTERNS "\xff_patterns"         /* patterns beside `pattern` */
#define GK_ABSENT "\xff_absent"             /* keys that do not come */
#define GK_HELD "\xff_held"                 /* schemas of keys that are not thereby listed */
#define GK_NOT_VALUES "\xff_not_values"     /* what a value is not */
#define GK_NOT_PATTERNS "\xff_not_patterns" /* what a text does not match */
#define GK_NOT_MULTIPLE "\xff_not_multiple" /* of this a whole number is none */

/* What two schemas allow together, each NULL where none is said; owned by the builder. */
const json_t *whim_gb_schema_both(whim_grammar_builder *b, const json_t *one, const json_t *two);
/* Put a value that the call takes over; false: failed. */
bool whim_gb_put(whim_grammar_builder *b, json_t *object, const char *key, json_t *value);

/* The choices (a list that the caller frees) of which one holds where the schema does not; empty:
 * every value fits it. NULL: failed. */
json_t *whim_gb_schema_negate(whim_grammar_builder *b, const json_t *s, const gplace *place,
                              int32_t depth);

/* Whether a value fits a schema: 1, 0, or -1 where that is not known. */
int32_t whim_gb_schema_fits(whim_grammar_builder *b, const json_t *s, const json_t *value,
                            const gplace *place, int32_t depth);

/* Whether two values are the same, numbers however they are written; and whether one has a type. */
bool whim_schema_same(const json_t *a, const json_t *b);
bool whim_schema_is_type(const json_t *value, const char *type);
/* The type that a keyword speaks about; NULL: all, or none. */
const char *whim_schema_speaks_of(const char *key);

/* Whether surely no answer to a merged schema fits another merged one. */
bool whim_schema_excludes(const json_t *mine, const json_t *other);

/* The list of values, or the one, that a schema names itself or in allOf; both NULL: none. */
typedef struct gnamed {
    const json_t *list, *one;
} gnamed;
gnamed whim_schema_named(const json_t *s);
/* Those that fit what the schema says besides. `surely`: -1 without a failure where that is not
 * known of all of them. */
int32_t whim_gb_schema_constants(whim_grammar_builder *b, const json_t *s, gnamed values,
                                 bool surely, const gplace *place, int32_t depth);

/* The types of a schema that says none: those that its keywords speak about, or all where it only
 * says what a value is not; empty: it says nothing. Owned by the builder; NULL: failed. */
const json_t *whim_gb_types_meant(whim_grammar_builder *b, const json_t *s);
/* Any, or exactly one, of a list of schemas, with what is said besides (NULL: nothing). */
int32_t whim_gb_schema_any_of(whim_grammar_builder *b, const json_t *list, const json_t *rest,
                              const gplace *place, int32_t depth);
int32_t whim_gb_schema_one_of(whim_grammar_builder *b, const json_t *list, const json_t *rest,
                              const gplace *place, int32_t depth);
/* A merged schema that has lists of choices. */
int32_t whim_gb_schema_choices(whim_grammar_builder *b, const json_t *s, const gplace *place,
                               int32_t depth);

/* `lo` to `hi` items of an array, or free keys with their values, all of one schema. */
int32_t whim_gb_equal_items(whim_grammar_builder *b, int32_t item, int64_t lo, int64_t hi);

/* A schema that no value fits: a node for nothing, and its reason kept for the case that nothing
 * else can be answered. */
int32_t whim_gb_impossible(whim_grammar_builder *b, const gplace *place, const char *key,
                           const char *what);

/* Whether a part without calls takes a text; false also when the builder failed. */
bool whim_gb_takes(whim_grammar_builder *b, int32_t node, const char *text, int64_t n);
/* Whether a pattern is found in a text; false also when the builder failed. */
bool whim_gb_pattern_finds(whim_grammar_builder *b, const char *pattern, const char *text,
                           const gplace *place);

/* Whether all texts of a part surely have lo to hi characters; hi < 0: no limit. */
bool whim_gb_is_within(const whim_grammar_builder *b, int32_t node, int64_t lo, int64_t hi);

#endif
