/* SPDX-License-Identifier: Apache-2.0 */
/* The joining of schemas that hold together, for the files that do it. */
#ifndef WHIM_GRAMMAR_SCHEMA_MERGE_H
#define WHIM_GRAMMAR_SCHEMA_MERGE_H

#include "grammar/schema/schema.h"

typedef struct gmerge {
    whim_grammar_builder *b;
    const gplace *place;
    json_t *out;
    bool never;         /* no value fits */
    bool listed_by_not; /* what `not` led to lists properties or items */
} gmerge;

/* Refuse the schemas; always false. */
bool whim_merge_fail(gmerge *m, const char *key, const char *what);
/* Note that no value fits; always true. */
bool whim_merge_never(gmerge *m, const char *key, const char *what);
/* Set a key of what was joined so far. Takes the value. */
bool whim_merge_put(gmerge *m, const char *key, json_t *value);
/* A new reference to what both allow; NULL where neither is said. */
json_t *whim_merge_both(json_t *one, json_t *two);

/* Join what a schema says of members and of items with what was said so far. */
bool whim_merge_objects(gmerge *m, const json_t *s);
bool whim_merge_arrays(gmerge *m, const json_t *s);
/* Which items an array has, and how many of them: one schema says so, or all alike. */
bool whim_merge_contains(gmerge *m, const json_t *s);

#endif
