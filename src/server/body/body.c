/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and their fields. The bytes are looked at once before the JSON library sees them: for UTF-8, depth, and what
 * is legal JSON but more than the library takes. */
#include "server/body/body.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The code of an escape \uXXXX at `at`, or -1. */
static int32_t escape_at(const char *text, int64_t n, int64_t at)
{
    int32_t code = 0;
    if (at + 6 > n || text[at] != '\\' || text[at + 1] != 'u') {
        return -1;
    }
    for (int i = 2; i < 6; i++) {
        int digit = whim_hex_value(text[at + i]);
        if (digit < 0) {
            return -1;
        }
        code = code << 4 | digit;
    }
    return code;
}

static bool is_high(int32_t code)
{
    return code >= 0xD800 && code < 0xDC00;
}
static bool is_low(int32_t code)
{
    return code >= 0xDC00 && code < 0xE000;
}

/* The walk over a text before it is parsed. Repairs go into `copy`, made when it is first needed, and keep lengths. */
typedef struct walk {
    const char *text;
    int64_t n;
    char *copy;
    int64_t
        n_value; /* no fewer than the text holds; a list or an object is WHIM_BODY_GROUP of them */
    int32_t depth;
    bool is_object[WHIM_BODY_DEPTH + 1]; /* of each level */
    bool in_string, in_key, failed;
    char before; /* the last character outside strings that is no white space */
} walk;

static bool make_copy(walk *w)
{
    if (w->copy == NULL && !w->failed) {
        w->copy = whim_alloc(w->n + 1);
        w->failed = w->copy == NULL;
        if (!w->failed) {
            memcpy(w->copy, w->text, (size_t)w->n);
            w->copy[w->n] = '\0';
        }
    }
    return !w->failed;
}

static void repair(walk *w, int64_t at, const char *with, int64_t n)
{
    if (make_copy(w)) {
        memcpy(w->copy + at, with, (size_t)n);
    }
}

/* Step over an escape at `at`. A half of a character alone becomes U+FFFD: agents cut texts inside an emoji and would
 * send the same turn for ever. So does U+0000 in a key, which the library takes in texts only. */
static int64_t skip_escape(walk *w, int64_t at)
{
    int32_t code = escape_at(w->text, w->n, at);
    if (is_high(code) && is_low(escape_at(w->text, w->n, at + 6))) {
        return at + 12;
    }
    if (is_high(code) || is_low(code) || (code == 0 && w->in_key)) {
        repair(w, at, "\\uFFFD", 6);
        return at + 6;
    }
    return at + 2;
}

static int64_t skip_digits(const walk *w, int64_t at)
{
    while (at < w->n && w->text[at] >= '0' && w->text[at] <= '9') {
        at++;
    }
    return at;
}

/* A number: where its digits begin, its whole part ends, and it ends. False: it is none, and `end` is where to go on. */
typedef struct number {
    int64_t digits, whole, end;
    bool scaled;
} number;

static bool find_number(const walk *w, int64_t at, number *out)
{
    int64_t digits = at + (w->text[at] == '-'), whole = skip_digits(w, digits), end = whole;
    bool ok = whole > digits && (w->text[digits] != '0' || whole == digits + 1);
    if (end < w->n && w->text[end] == '.') {
        int64_t begin = ++end;
        end = skip_digits(w, begin);
        ok = ok && end > begin;
    }
    bool scaled = ok && end < w->n && (w->text[end] == 'e' || w->text[end] == 'E');
    if (scaled) {
        int64_t begin = ++end;
        begin += begin < w->n && (w->text[begin] == '+' || w->text[begin] == '-');
        end = skip_digits(w, begin);
        ok = end > begin;
    }
    *out = (number){.digits = digits, .whole = whole, .end = end, .scaled = scaled};
    return ok && end < w->n; /* where the text ends in it, the body is cut off anyway */
}

/* Step over a number at `at`. The library refuses the whole text for one that fits neither an int64_t nor a double, and
 * it may stand in a field that nobody reads: it becomes a double. Read from the copy, which ends in a NUL as strtod
 * wants; the text does not. */
static int64_t skip_number(walk *w, int64_t at)
{
    number x;
    if (!find_number(w, at, &x) || (!x.scaled && x.whole - x.digits <= 18)) {
        return x.end;
    }
    if (!make_copy(w)) {
        return x.end;
    }
    if (isinf(strtod(w->copy + at, NULL))) {
        repair(w, x.digits, "1e308", 5); /* no number beyond the doubles is shorter */
        memset(w->copy + x.digits + 5, ' ', (size_t)(x.end - x.digits - 5));
        return x.end;
    }
    errno = 0;
    if (x.whole == x.end) {
        (void)strtoll(w->copy + at, NULL, 10);
    }
    if (errno == ERANGE) {
        repair(w, x.end - 3, "e03", 3);
    }
    return x.end;
}

/* Step over one character outside strings. False: too deep, or too much. */
static bool step(walk *w, char c)
{
    if (c == '"') {
        bool inside = w->depth > 0 && w->is_object[w->depth];
        w->in_string = true;
        w->in_key = inside && (w->before == '{' || w->before == ',');
    } else if (c == '{' || c == '[') {
        w->n_value += WHIM_BODY_GROUP;
        if (++w->depth > WHIM_BODY_DEPTH) {
            return false;
        }
        if (w->depth > 0) {
            w->is_object[w->depth] = c == '{';
        }
    } else if (c == '}' || c == ']') {
        w->depth--;
    } else if (c == ',') {
        w->n_value++;
    }
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
        w->before = c;
    }
    return w->n_value <= WHIM_BODY_VALUES;
}

/* Depth, number of values, escapes and numbers of the whole text. False with the fault set. */
static bool look_over(walk *w, whim_fault *fault)
{
    for (int64_t i = 0; i < w->n && !w->failed;) {
        char c = w->text[i];
        if (w->in_string && c == '\\') {
            i = skip_escape(w, i);
        } else if (w->in_string) {
            w->in_string = c != '"';
            i++;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            w->before = c;
            i = skip_number(w, i);
        } else if (step(w, c)) {
            i++;
        } else if (w->n_value > WHIM_BODY_VALUES) {
            return whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                                  "the body holds more than %d values (a list or an object counts "
                                  "as %d); send less at once",
                                  WHIM_BODY_VALUES, WHIM_BODY_GROUP);
        } else {
            return whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                                  "the body is nested deeper than %d levels", WHIM_BODY_DEPTH);
        }
    }
    return !w->failed || whim_fault_no_memory(fault);
}

json_t *whim_body_parse(const char *text, int64_t n, whim_fault *fault)
{
    json_error_t error;
    json_t *json = NULL;
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        n -= 3;
    }
    if (n == 0) {
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
    walk w = {.text = text, .n = n};
    if (!look_over(&w, fault)) {
        whim_free(w.copy);
        return NULL;
    }
    json = json_loadb(w.copy == NULL ? text : w.copy, (size_t)n, JSON_ALLOW_NUL, &error);
    whim_free(w.copy);
    if (json == NULL) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                       "the body is not valid JSON: line %d, column %d: %s", error.line,
                       error.column, error.text);
    } else if (!json_is_object(json)) {
        whim_fault_set(fault, WHIM_FAULT_BAD_REQUEST, NULL,
                       "the body must be a JSON object, not %s", whim_json_kind(json));
        json_decref(json);
        json = NULL;
    }
    return json;
}

/* --- fields ------------------------------------------------------------------------------------ */

json_t *whim_field(const whim_fields *f, const char *key)
{
    json_t *value = json_object_get(f->obj, key);
    return json_is_null(value) ? NULL : value;
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
        return whim_field_refuse(f, key, "must be an integer, not %s",
                                 json_is_real(value) ? "a number with a fraction or beyond 64 bits"
                                                     : whim_json_kind(value));
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
    if (!json_is_number(value)) {
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

bool whim_field_object(const whim_fields *f, const char *key, json_t **out)
{
    json_t *value = whim_field(f, key);
    if (value != NULL && !json_is_object(value)) {
        return whim_field_refuse(f, key, "must be an object, not %s", whim_json_kind(value));
    }
    if (value != NULL) {
        *out = value;
    }
    return true;
}

bool whim_field_array(const whim_fields *f, const char *key, json_t **out)
{
    json_t *value = whim_field(f, key);
    if (value != NULL && !json_is_array(value)) {
        return whim_field_refuse(f, key, "must be an array, not %s", whim_json_kind(value));
    }
    if (value != NULL) {
        *out = value;
    }
    return true;
}
