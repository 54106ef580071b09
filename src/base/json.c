/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of JSON documents, over jansson. */
#include "base/json.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/heap/budget.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

whim_err whim_json_parse(whim_json **out, const char *text, int64_t n, whim_json_limits limits,
                         const char *path, whim_diag *diag)
{
    whim_diag why = {{0}};
    json_t *json;
    whim_err err = whim_json_read(&json, text, n, limits, &why);
    *out = NULL;
    if (err != WHIM_ERR_OK) {
        const char *other = err == WHIM_ERR_CORRUPT ? whim_file_stand_in(text, n) : NULL;
        return whim_fail(diag, err, "%s: %s", path, other != NULL ? other : why.text);
    }
    if (!json_is_object(json)) {
        const char *kind = whim_json_kind(json);
        json_decref(json);
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: the top level is %s, expected an object",
                         path, kind);
    }
    *out = json;
    return WHIM_ERR_OK;
}

void whim_json_count_memory(void)
{
    json_set_alloc_funcs(whim_alloc_plain, whim_free);
}

void whim_json_free(whim_json *json)
{
    json_decref(json);
}

static bool has_nul(const json_t *string)
{
    return strlen(json_string_value(string)) != json_string_length(string);
}

bool whim_json_is_beyond(const whim_json *value)
{
    return fabs(json_real_value(value)) == WHIM_JSON_BEYOND;
}

double whim_json_largest_real(const whim_json *value)
{
    double largest = fabs(json_real_value(value));
    for (size_t i = 0; i < json_array_size(value); i++) {
        largest = fmax(largest, whim_json_largest_real(json_array_get(value, i)));
    }
    for (whim_json_iter it = {.obj = value}; json_is_object(value) && whim_json_next(&it);) {
        largest = fmax(largest, whim_json_largest_real(it.value));
    }
    return largest;
}

const char *whim_json_kind(const whim_json *value)
{
    if (value == NULL) {
        return "missing";
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return has_nul(value) ? "a string with U+0000 in it" : "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return whim_json_is_beyond(value) ? "NaN, infinite or too large for a double"
                                          : "a number with a fraction or beyond 64 bits";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

const whim_json *whim_json_get(const whim_json_scope *scope, const char *key)
{
    const json_t *value = json_object_get(scope->obj, key);
    return json_is_null(value) ? NULL : value;
}

bool whim_json_has(const whim_json_scope *scope, const char *key)
{
    return whim_json_get(scope, key) != NULL;
}

bool whim_json_is_null(const whim_json_scope *scope, const char *key)
{
    return json_is_null(json_object_get(scope->obj, key));
}

whim_err whim_json_require(const whim_json_scope *scope, const char *key)
{
    if (whim_json_has(scope, key)) {
        return WHIM_ERR_OK;
    }
    return whim_fail(scope->diag, WHIM_ERR_CORRUPT, "%s: \"%s%s\" is missing", scope->path,
                     scope->prefix, key);
}

whim_err whim_json_get_int(const whim_json_scope *scope, const char *key, int64_t min, int64_t max,
                           int64_t *out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    int64_t number;
    char found[32];
    bool is_int = whim_json_as_int(value, &number);
    if (!is_int || number < min || number > max) {
        if (is_int) {
            snprintf(found, sizeof found, "%lld", (long long)number);
        }
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" is %s, expected an integer between %lld and %lld",
                         scope->path, scope->prefix, key, is_int ? found : whim_json_kind(value),
                         (long long)min, (long long)max);
    }
    *out = number;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_int32(const whim_json_scope *scope, const char *key, int32_t min,
                             int32_t max, int32_t *out)
{
    int64_t number = *out;
    WHIM_TRY(whim_json_get_int(scope, key, min, max, &number));
    *out = (int32_t)number;
    return WHIM_ERR_OK;
}

/* The value of a key, if it is there, and of one of the kinds (bits of json_type). */
static whim_err get_of(const whim_json_scope *scope, const char *key, uint32_t kinds,
                       const char *expected, const json_t **out)
{
    const json_t *value = whim_json_get(scope, key);
    const char *text;
    if (value != NULL && ((kinds >> json_typeof(value) & 1) == 0 || whim_json_is_beyond(value) ||
                          (json_is_string(value) && !whim_json_as_string(value, &text)))) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT, "%s: \"%s%s\" is %s, expected %s",
                         scope->path, scope->prefix, key, whim_json_kind(value), expected);
    }
    *out = value != NULL ? value : *out;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_real(const whim_json_scope *scope, const char *key, double min, double max,
                            double *out)
{
    const json_t *value = NULL;
    WHIM_TRY(get_of(scope, key, 1u << JSON_INTEGER | 1u << JSON_REAL, "a number", &value));
    double number = json_number_value(value);
    if (value != NULL && !(number >= min && number <= max)) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" is %g, expected a number between %g and %g", scope->path,
                         scope->prefix, key, number, min, max);
    }
    *out = value != NULL ? number : *out;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_bool(const whim_json_scope *scope, const char *key, bool *out)
{
    const json_t *value = NULL;
    WHIM_TRY(get_of(scope, key, 1u << JSON_TRUE | 1u << JSON_FALSE, "true or false", &value));
    *out = value != NULL ? json_is_true(value) : *out;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_string(const whim_json_scope *scope, const char *key, const char **out)
{
    const json_t *value = NULL;
    WHIM_TRY(get_of(scope, key, 1u << JSON_STRING, "a string", &value));
    *out = value != NULL ? json_string_value(value) : *out;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_object(const whim_json_scope *scope, const char *key, const whim_json **out)
{
    return get_of(scope, key, 1u << JSON_OBJECT, "an object", out);
}

whim_err whim_json_get_array(const whim_json_scope *scope, const char *key, const whim_json **out)
{
    return get_of(scope, key, 1u << JSON_ARRAY, "an array", out);
}

int64_t whim_json_size(const whim_json *array)
{
    return (int64_t)json_array_size(array);
}

const whim_json *whim_json_at(const whim_json *array, int64_t i)
{
    return json_array_get(array, (size_t)i);
}

bool whim_json_is_object(const whim_json *value)
{
    return json_is_object(value);
}

bool whim_json_is_array(const whim_json *value)
{
    return json_is_array(value);
}

bool whim_json_as_int(const whim_json *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (json_is_real(value)) {
        double number = json_real_value(value);
        /* Up to 2^53 a double holds every integer. */
        if (fabs(number) <= 9007199254740992.0 && number == floor(number)) {
            *out = (int64_t)number;
            return true;
        }
    }
    return false;
}

bool whim_json_as_string(const whim_json *value, const char **out)
{
    if (!json_is_string(value) || has_nul(value)) {
        return false;
    }
    *out = json_string_value(value);
    return true;
}

bool whim_json_next(whim_json_iter *iter)
{
    /* Jansson's iterators take a mutable object but only read it. */
    json_t *obj = (json_t *)iter->obj;
    iter->at = iter->key == NULL ? json_object_iter(obj) : json_object_iter_next(obj, iter->at);
    if (iter->at == NULL) {
        return false;
    }
    iter->key = json_object_iter_key(iter->at);
    iter->value = json_object_iter_value(iter->at);
    return true;
}
