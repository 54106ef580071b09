/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from outside, with limits and messages. Parsing checks size, depth and duplicate keys; the
 * getters check type and range and name the field when they refuse it. A getter whose field is
 * absent or null leaves its output as it was, so that the caller sets the default first.
 * Invariants: 1. strings and keys hold no NUL; 2. numbers are finite; 3. everything that a getter
 * hands out is borrowed from the document and lives until whim_json_free.
 * Threads: a document belongs to its caller. Documents are on the heap of the JSON library. */
#ifndef WHIM_BASE_JSON_H
#define WHIM_BASE_JSON_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct json_t whim_json;

typedef struct whim_json_limits {
    int64_t max_bytes;
    int32_t max_depth; /* nested objects and arrays */
} whim_json_limits;

/* Parse `n` bytes; the top level must be an object. `path` is for messages. The caller frees. */
WHIM_MUST_CHECK whim_err whim_json_parse(whim_json **out, const char *text, int64_t n,
                                         whim_json_limits limits, const char *path,
                                         whim_diag *diag);

/* NULL is legal. */
void whim_json_free(whim_json *json);

/* One object of a document and how messages call it: `path: "prefix.key" is ...`. */
typedef struct whim_json_scope {
    const whim_json *obj;
    const char *path;
    const char *prefix; /* "" at the top level, else "rope_scaling." */
    whim_diag *diag;
} whim_json_scope;

/* The value of a key as it is, or NULL when absent or null. */
const whim_json *whim_json_get(const whim_json_scope *scope, const char *key);

/* Whether the key is there and not null. */
bool whim_json_has(const whim_json_scope *scope, const char *key);

/* Whether the key is there and null, where that differs from absence. */
bool whim_json_is_null(const whim_json_scope *scope, const char *key);

/* CORRUPT with a message when the key is absent or null. */
WHIM_MUST_CHECK whim_err whim_json_require(const whim_json_scope *scope, const char *key);

/* Typed fields. An integer is also accepted for a real, and a real without fraction (1e6) for an
 * integer, because writers mix them. Bounds are inclusive. */
WHIM_MUST_CHECK whim_err whim_json_get_int(const whim_json_scope *scope, const char *key,
                                           int64_t min, int64_t max, int64_t *out);
WHIM_MUST_CHECK whim_err whim_json_get_int32(const whim_json_scope *scope, const char *key,
                                             int32_t min, int32_t max, int32_t *out);
WHIM_MUST_CHECK whim_err whim_json_get_real(const whim_json_scope *scope, const char *key,
                                            double min, double max, double *out);
WHIM_MUST_CHECK whim_err whim_json_get_bool(const whim_json_scope *scope, const char *key,
                                            bool *out);
WHIM_MUST_CHECK whim_err whim_json_get_string(const whim_json_scope *scope, const char *key,
                                              const char **out);
WHIM_MUST_CHECK whim_err whim_json_get_object(const whim_json_scope *scope, const char *key,
                                              const whim_json **out);
WHIM_MUST_CHECK whim_err whim_json_get_array(const whim_json_scope *scope, const char *key,
                                             const whim_json **out);

/* Values without a field around them. */
int64_t whim_json_size(const whim_json *array);
const whim_json *whim_json_at(const whim_json *array, int64_t i);
bool whim_json_is_object(const whim_json *value);
bool whim_json_is_array(const whim_json *value);
bool whim_json_as_int(const whim_json *value, int64_t *out);
bool whim_json_as_string(const whim_json *value, const char **out);

/* "a string", "an object", ...: for messages. NULL is "missing". */
const char *whim_json_kind(const whim_json *value);

/* The keys of an object in file order: start with `{.obj = ...}`. */
typedef struct whim_json_iter {
    const whim_json *obj;
    void *at;
    const char *key;
    const whim_json *value;
} whim_json_iter;

bool whim_json_next(whim_json_iter *iter);

#endif
