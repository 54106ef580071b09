/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from outside, with limits and messages, and out again. Reading takes what Python's json
 * takes, because published files are written by it: integers of any size, NaN and infinities, a
 * byte order mark, a key twice. The getters check type and range and name the field when they
 * refuse it. A getter whose field is absent or null leaves its output as it was, so that the caller
 * sets the default first.
 * Invariants: 1. strings that getters hand out, and keys, hold no NUL; 2. numbers are finite; 3.
 * everything that a getter hands out is borrowed from the document and lives until whim_json_free.
 * Threads: a document belongs to its caller. Documents are on the heap of the JSON library. */
#ifndef WHIM_BASE_JSON_H
#define WHIM_BASE_JSON_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct json_t whim_json;

/* What stands for NaN, infinities and numbers that no double holds, with the sign of the latter
 * two: a number that is in no field's range, and that nobody writes (the last but one of all
 * doubles). */
#define WHIM_JSON_BEYOND 0x1.ffffffffffffep+1023

/* Doubles from here on may have been integers beyond 64 bits, of which they hold the first digits
 * only. */
#define WHIM_JSON_ROUNDED 0x1p63

/* Let the JSON library take its memory from whim_alloc_plain, so that it is counted and may be
 * refused. Before the first document, and only in programs that nobody shares the library with. */
void whim_json_count_memory(void);

/* What one request or one file may hold. A value takes up to 100 bytes of memory, a list or an
 * object several times that, so it counts as WHIM_JSON_GROUP values. */
enum { WHIM_JSON_DEPTH = 128, WHIM_JSON_VALUES = 2 << 20, WHIM_JSON_GROUP = 8 };

typedef struct whim_json_limits {
    int64_t max_bytes;
    int32_t max_depth;    /* nested objects and arrays */
    bool unique_keys;     /* a key that stands twice is refused; else the last counts */
    int64_t *values_left; /* how many may come, less those that came; NULL: WHIM_JSON_VALUES */
    bool *is_changed; /* may be NULL; set where a number is not what Python's json would hold: an
                             integer beyond 64 bits, NaN, an infinity or what no double holds */
} whim_json_limits;

/* Read one value of `n` bytes. CORRUPT, or NO_MEMORY; the message has no subject ("not valid JSON
 * at line 1 ..."). Half of a surrogate pair alone is read as U+FFFD, and so is U+0000 in a key. The
 * caller frees. */
WHIM_MUST_CHECK whim_err whim_json_read(whim_json **out, const char *text, int64_t n,
                                        whim_json_limits limits, whim_diag *diag);

/* The same for a file whose top level must be an object. `path` is for messages. */
WHIM_MUST_CHECK whim_err whim_json_parse(whim_json **out, const char *text, int64_t n,
                                         whim_json_limits limits, const char *path,
                                         whim_diag *diag);

/* A large object member by member, so that nothing of it is kept but the member at hand: open,
 * `next` until there is no more, and for each member `value` (or `enter`, which continues with the
 * members of an object inside until it has no more), then close. A key may stand twice: whoever
 * minds must look. */
typedef struct whim_json_members {
    const char *text;
    int64_t n, at;
    whim_json_limits limits;
    const char *path;
    whim_diag *diag;
    whim_str key; /* of the member at hand */
    int32_t depth;
    bool first;
} whim_json_members;

/* What one member may hold. */
enum { WHIM_JSON_MEMBER_VALUES = 4096 };

/* `path` is for messages; the limit of values is not that of `limits`. Close it also when it
 * fails. */
WHIM_MUST_CHECK whim_err whim_json_members_open(whim_json_members *w, const char *text, int64_t n,
                                                whim_json_limits limits, const char *path,
                                                whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_json_members_next(whim_json_members *w, bool *more);
WHIM_MUST_CHECK whim_err whim_json_members_enter(whim_json_members *w);
/* The member's value, which the caller frees; `out` NULL: pass over it, whatever its size. */
WHIM_MUST_CHECK whim_err whim_json_members_value(whim_json_members *w, whim_json **out);
void whim_json_members_close(whim_json_members *w);

/* Append a value on one line without spaces. Numbers read back the same. */
void whim_json_write(whim_str *out, const whim_json *value);

/* The character of the escape that `text` begins with, and how many of its n bytes it takes; 0 when
 * it is none. Two halves of a pair are one character; half of one alone is itself. */
int32_t whim_json_unescape(const char *text, int64_t n, int32_t *cp);

/* A byte of valid UTF-8 as it stands between the quotes of a string; returns its length. */
int whim_json_escape(char c, char out[8]);

/* Append valid UTF-8 as it stands between the quotes of a string. */
void whim_json_write_escaped(whim_str *out, const char *text, int64_t n);

/* The shortest digits that give the number back, in the form of Python's repr. */
enum { WHIM_REAL_ROOM = 40 };
void whim_format_real(char out[WHIM_REAL_ROOM], double x);

/* The largest magnitude of the doubles in a value; 0 without any. */
double whim_json_largest_real(const whim_json *value);

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

/* Whether it is a number that stands for NaN, an infinity or more than a double holds. */
bool whim_json_is_beyond(const whim_json *value);

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
