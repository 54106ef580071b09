/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into JSON values of any kind, for readers that decide by what is there; fields with one
 * right type are read by body.h.
 * Threads: stateless. */
#ifndef WHIM_SERVER_BODY_PEEK_H
#define WHIM_SERVER_BODY_PEEK_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

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

#endif
