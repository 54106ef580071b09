/* SPDX-License-Identifier: Apache-2.0 */
/* JSON on the wire: bodies in, with limits and repair of lone surrogates; fields with type and
 * range checks; texts out. A null field is an absent one; an integral real is an integer; a text
 * that looks like a number is not.
 * Threads: stateless. */
#ifndef WHIM_SERVER_BODY_BODY_H
#define WHIM_SERVER_BODY_BODY_H

#include "base/json.h"
#include "base/report/log.h"
#include "base/str.h"
#include "server/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The object of a request's body (a new reference), or NULL with the fault set. */
json_t *whim_body_parse(const char *text, int64_t n, whim_fault *fault);

/* Which fields of a body were looked at: those of the body itself, and of the objects in it that
 * were gone into by whim_field_inside. Keys are borrowed: literals. */
enum { WHIM_MAX_LOOKED_AT = 320, WHIM_MAX_INSIDE = 16, WHIM_FIELD_PREFIX = 128 };
typedef struct whim_looked_at {
    struct {
        const json_t *obj;
        const char *key;
    } fields[WHIM_MAX_LOOKED_AT];
    struct {
        const json_t *obj;
        char prefix[WHIM_FIELD_PREFIX];
    } inside[WHIM_MAX_INSIDE];
    int32_t n_field, n_inside;
} whim_looked_at;

/* One object of the body and how messages call its fields: param is prefix + key. */
typedef struct whim_fields {
    const json_t *obj;
    char prefix[WHIM_FIELD_PREFIX]; /* "" at the top level, else "stream_options." */
    whim_fault *fault;
    whim_looked_at *looked_at; /* NULL: not wanted */
} whim_fields;

/* The value, or NULL when absent or null. Never refuses. */
json_t *whim_field(const whim_fields *f, const char *key);

/* Typed readers: false when refused (the fault is set); *out is left alone when absent. Bounds are
 * inclusive. */
bool whim_field_int(const whim_fields *f, const char *key, int64_t min, int64_t max, int64_t *out);
bool whim_field_real(const whim_fields *f, const char *key, double min, double max, float *out);
bool whim_field_bool(const whim_fields *f, const char *key, bool *out);
/* A text without NULs. */
bool whim_field_string(const whim_fields *f, const char *key, const char **out);
bool whim_field_object(const whim_fields *f, const char *key, json_t **out);
bool whim_field_array(const whim_fields *f, const char *key, json_t **out);
/* The fields of an object in a field; of NULL when absent. */
bool whim_field_inside(const whim_fields *f, const char *key, whim_fields *out);
/* Those of an entry of a list, which is called `key`. */
whim_fields whim_field_item(const whim_fields *f, const char *key, const json_t *list, size_t i);

/* Refuse a field: param is prefix + key, the message begins with it. Returns false. */
bool whim_field_refuse(const whim_fields *f, const char *key, const char *fmt, ...)
    WHIM_PRINTF(3, 4);

/* An integer, also when written as 100.0. */
bool whim_value_int(const json_t *value, int64_t *out);

/* Whether a value turns its field off: none, false, what is empty, a number from lo to hi. */
bool whim_value_is_off(const json_t *value, double lo, double hi);

/* Whether a field was looked at. */
bool whim_field_is_looked_at(const whim_looked_at *at, const json_t *obj, const char *key);

/* One line if the body has fields that were not looked at and that are not known to have no effect
 * on the route: how many, and the first 8 names, each cut to 64 bytes. */
void whim_unknown_fields_log(whim_log *log, const json_t *body, const whim_looked_at *at,
                             const char *path, const char *request_id);

/* --- looking into values of any kind, for readers that decide by what is there ---------------- */

/* The value of a key; NULL when absent, null, or when `value` is no object. */
static inline json_t *whim_peek(const json_t *value, const char *key)
{
    json_t *field = json_object_get(value, key);
    return json_is_null(field) ? NULL : field;
}

/* Whether it is this string. */
static inline bool whim_peek_is(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* The name in {"function":{"name":..}}, or NULL. */
static inline const char *whim_peek_function_name(const json_t *value)
{
    return json_string_value(whim_peek(whim_peek(value, "function"), "name"));
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Append a JSON string with its quotes; the bytes are valid UTF-8 (what is not becomes U+FFFD). */
void whim_put_text(whim_str *out, const char *text, int64_t n);
void whim_put_cstr(whim_str *out, const char *text); /* NULL: null */
/* Append a JSON value, compact, in its key order. */
void whim_put_json(whim_str *out, const json_t *value);
/* Append a number that round-trips a float. */
void whim_put_real(whim_str *out, double value);

/* JSON by a form, in which ' stands for a quote:
 *   %s  text as it is           %q  a text quoted, NULL: null     %n  the same with its length
 *   %d  an int32_t              %l  an int64_t                    %r  a real, as whim_put_real
 *   %t  a whim_str quoted       %j  a JSON value, NULL: null */
void whim_put_form(whim_str *out, const char *form, ...);

/* A named server-sent event whose data is an object with the same name as its "type": up to and
 * with the type; members follow, each begun with a comma, then the end. */
static inline void whim_sse_begin(whim_str *out, const char *name)
{
    whim_put_form(out, "event: %s\ndata: {'type':%q", name, name);
}
static inline void whim_sse_end(whim_str *out)
{
    whim_str_append(out, "}\n\n");
}

/* `prefix` and 24 random letters and digits into out[48]. */
void whim_make_id(char *out, const char *prefix);

#endif
