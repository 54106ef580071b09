/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and their fields. */
#include "server/body/body.h"

#include "base/utf8.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* As FastAPI's servers do, whose bodies go through Python's json: duplicate keys, integers of any
 * size, and also NaN and infinities are read; a field that we use refuses them by its range. */
json_t *whim_body_parse(const char *text, int64_t n, whim_fault *fault)
{
    static const char mark[] = "\xEF\xBB\xBF";
    int64_t left = WHIM_JSON_VALUES;
    const whim_json_limits limits = {
        .max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH, .values_left = &left};
    if (n == 0 || (n == 3 && memcmp(text, mark, 3) == 0)) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                       "the body is empty; a JSON object is expected");
        return NULL;
    }
    int64_t valid = whim_utf8_valid_prefix(text, n);
    if (valid < n) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                       "the body is not UTF-8: byte %" PRId64 " is not part of a character", valid);
        return NULL;
    }
    json_t *json;
    whim_diag why = {{0}};
    whim_err err = whim_json_read(&json, text, n, limits, &why);
    if (err == WHIM_ERR_NO_MEMORY) {
        whim_fault_no_memory(fault);
    } else if (err != WHIM_ERR_OK) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL, "the body is %s%s", why.text,
                       left < 0 ? "; send less at once" : "");
    } else if (!json_is_object(json)) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                       "the body must be a JSON object, not %s", whim_json_kind(json));
        json_decref(json);
        json = NULL;
    }
    return json;
}

/* --- fields ----------------------------------------------------------------------------------- */

bool whim_field_is_looked_at(const whim_looked_at *at, const json_t *obj, const char *key)
{
    for (int32_t i = 0; i < at->n_field; i++) {
        if (at->fields[i].obj == obj && strcmp(at->fields[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

json_t *whim_field(const whim_fields *f, const char *key)
{
    whim_looked_at *at = f->looked_at;
    json_t *value = whim_peek(f->obj, key);
    if (at != NULL && value != NULL && !whim_field_is_looked_at(at, f->obj, key) &&
        at->n_field < WHIM_MAX_LOOKED_AT) {
        at->fields[at->n_field].obj = f->obj;
        at->fields[at->n_field++].key = key;
    }
    return value;
}

bool whim_field_refuse(const whim_fields *f, const char *key, const char *fmt, ...)
{
    char why[768], param[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(param, sizeof param, "%s%s", f->prefix, key);
    return whim_fault_set(f->fault, WHIM_FAULT_BAD_VALUE, param, "\"%s\" %s", param, why);
}

bool whim_value_is_off(const json_t *value, double lo, double hi)
{
    double x = json_number_value(value);
    return value == NULL || json_is_false(value) || (json_is_number(value) && x >= lo && x <= hi) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

bool whim_value_int(const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (json_is_real(value)) {
        double real = json_real_value(value);
        if (real >= -0x1p53 && real <= 0x1p53 && real == floor(real)) {
            *out = (int64_t)real;
            return true;
        }
    }
    return false;
}

bool whim_field_int(const whim_fields *f, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = whim_field(f, key);
    int64_t got;
    if (value == NULL) {
        return true;
    }
    if (!whim_value_int(value, &got)) {
        return whim_field_refuse(f, key, "must be an integer, not %s", whim_json_kind(value));
    }
    if (got < min || got > max) {
        return whim_field_refuse(f, key, "is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                                 got, min, max);
    }
    *out = got;
    return true;
}

bool whim_field_real(const whim_fields *f, const char *key, double min, double max, float *out)
{
    const json_t *value = whim_field(f, key);
    if (value == NULL) {
        return true;
    }
    if (!json_is_number(value) || whim_json_is_beyond(value)) {
        return whim_field_refuse(f, key, "must be a number, not %s", whim_json_kind(value));
    }
    double got = json_number_value(value);
    if (got < min && max >= FLT_MAX) {
        return whim_field_refuse(f, key, "is %g; it must be %s", got,
                                 min > 0 ? "greater than 0" : "at least 0");
    }
    if (!(got >= min && got <= max)) {
        return whim_field_refuse(f, key, "is %g; it must be from %g to %g", got, min, max);
    }
    *out = (float)got;
    return true;
}

bool whim_field_bool(const whim_fields *f, const char *key, bool *out)
{
    const json_t *value = whim_field(f, key);
    if (value != NULL && !json_is_boolean(value)) {
        return whim_field_refuse(f, key, "must be true or false, not %s", whim_json_kind(value));
    }
    if (value != NULL) {
        *out = json_is_true(value);
    }
    return true;
}

bool whim_field_string(const whim_fields *f, const char *key, const char **out)
{
    const json_t *value = whim_field(f, key);
    if (value == NULL) {
        return true;
    }
    if (!json_is_string(value)) {
        return whim_field_refuse(f, key, "must be a string, not %s", whim_json_kind(value));
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return whim_field_refuse(f, key, "must not hold the character U+0000");
    }
    *out = json_string_value(value);
    return true;
}

static bool take(const whim_fields *f, const char *key, json_type type, const char *wanted,
                 json_t **out)
{
    json_t *value = whim_field(f, key);
    if (value == NULL) {
        return true;
    }
    *out = json_typeof(value) == type ? value : *out;
    return json_typeof(value) == type ||
           whim_field_refuse(f, key, "must be %s, not %s", wanted, whim_json_kind(value));
}

bool whim_field_object(const whim_fields *f, const char *key, json_t **out)
{
    return take(f, key, JSON_OBJECT, "an object", out);
}

bool whim_field_array(const whim_fields *f, const char *key, json_t **out)
{
    return take(f, key, JSON_ARRAY, "an array", out);
}

static void note_inside(whim_looked_at *at, const whim_fields *in)
{
    for (int32_t i = 0; i < at->n_inside; i++) {
        if (at->inside[i].obj == in->obj) {
            return;
        }
    }
    if (at->n_inside < WHIM_MAX_INSIDE) {
        at->inside[at->n_inside].obj = in->obj;
        memcpy(at->inside[at->n_inside++].prefix, in->prefix, sizeof in->prefix);
    }
}

bool whim_field_inside(const whim_fields *f, const char *key, whim_fields *out)
{
    json_t *obj = NULL;
    bool ok = whim_field_object(f, key, &obj);
    *out = (whim_fields){.obj = obj, .fault = f->fault, .looked_at = f->looked_at};
    snprintf(out->prefix, sizeof out->prefix, "%.40s%.38s.", f->prefix, key);
    if (obj != NULL && f->looked_at != NULL) {
        note_inside(f->looked_at, out);
    }
    return ok;
}

whim_fields whim_field_item(const whim_fields *f, const char *key, const json_t *list, size_t i)
{
    whim_fields item = {.obj = json_array_get(list, i), .fault = f->fault};
    snprintf(item.prefix, sizeof item.prefix, "%.40s%.16s[%zu].", f->prefix, key, i);
    return item;
}
