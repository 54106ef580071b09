/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON layer over jansson. */
#include "base/json.h"

#include <jansson.h>
#include <math.h>

/* Jansson's own depth limit is fixed and large; this one is the caller's. Text that is not JSON at
 * all is left for the parser to describe. */
static bool depth_within(const char *text, int64_t n, int32_t max_depth)
{
    int32_t depth = 0;
    bool in_string = false;
    for (int64_t i = 0; i < n; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth) {
                return false;
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return true;
}

whim_err whim_json_parse(whim_json **out, const char *text, int64_t n, whim_json_limits limits,
                         const char *path, whim_diag *diag)
{
    *out = NULL;
    if (n > limits.max_bytes) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: %lld bytes of JSON, expected at most %lld",
                         path, (long long)n, (long long)limits.max_bytes);
    }
    if (!depth_within(text, n, limits.max_depth)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: JSON nested deeper than %d levels", path,
                         limits.max_depth);
    }
    json_error_t error;
    json_t *json = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return whim_fail(diag, WHIM_ERR_NO_MEMORY, "%s: out of memory while parsing", path);
        }
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: not valid JSON at line %d column %d: %s",
                         path, error.line, error.column, error.text);
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

void whim_json_free(whim_json *json)
{
    json_decref(json);
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
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
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

static whim_err wrong_kind(const whim_json_scope *scope, const char *key, const json_t *value,
                           const char *expected)
{
    return whim_fail(scope->diag, WHIM_ERR_CORRUPT, "%s: \"%s%s\" is %s, expected %s", scope->path,
                     scope->prefix, key, whim_json_kind(value), expected);
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
    if (!whim_json_as_int(value, &number)) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" is %s, expected an integer between %lld and %lld",
                         scope->path, scope->prefix, key, whim_json_kind(value), (long long)min,
                         (long long)max);
    }
    if (number < min || number > max) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" is %lld, expected an integer between %lld and %lld",
                         scope->path, scope->prefix, key, (long long)number, (long long)min,
                         (long long)max);
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

whim_err whim_json_get_real(const whim_json_scope *scope, const char *key, double min, double max,
                            double *out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (!json_is_number(value)) {
        return wrong_kind(scope, key, value, "a number");
    }
    double number = json_number_value(value);
    if (!(number >= min && number <= max)) {
        return whim_fail(scope->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" is %g, expected a number between %g and %g", scope->path,
                         scope->prefix, key, number, min, max);
    }
    *out = number;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_bool(const whim_json_scope *scope, const char *key, bool *out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (!json_is_boolean(value)) {
        return wrong_kind(scope, key, value, "true or false");
    }
    *out = json_is_true(value);
    return WHIM_ERR_OK;
}

whim_err whim_json_get_string(const whim_json_scope *scope, const char *key, const char **out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value != NULL && !whim_json_as_string(value, out)) {
        return wrong_kind(scope, key, value, "a string");
    }
    return WHIM_ERR_OK;
}

whim_err whim_json_get_object(const whim_json_scope *scope, const char *key, const whim_json **out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (!json_is_object(value)) {
        return wrong_kind(scope, key, value, "an object");
    }
    *out = value;
    return WHIM_ERR_OK;
}

whim_err whim_json_get_array(const whim_json_scope *scope, const char *key, const whim_json **out)
{
    const json_t *value = whim_json_get(scope, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    if (!json_is_array(value)) {
        return wrong_kind(scope, key, value, "an array");
    }
    *out = value;
    return WHIM_ERR_OK;
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
    if (!json_is_string(value)) {
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
