/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON on one line. The library's own writer gives doubles 17 digits: 0.2 becomes
 * 0.20000000000000001. */
#include "base/json.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Make digits such as 1.25e+07 the next larger of as many digits. False when all are nines. */
static bool step_up(char *digits)
{
    for (char *c = strchr(digits, 'e') - 1; c >= digits; c--) {
        if (*c >= '0' && *c < '9') {
            ++*c;
            return true;
        }
        *c = *c == '9' ? '0' : *c;
    }
    return false;
}

/* The shortest digits of a finite number that read back the same, as 1.25e+07, and how many stand
 * behind the point. */
static int shortest_digits(char out[32], double x)
{
    /* 15 digits give back whatever was written with so many; only numbers below DBL_MIN hold
     * fewer. */
    int precision = fabs(x) < DBL_MIN ? 0 : 14;
    for (;; precision++) {
        snprintf(out, 32, "%.*e", precision, x);
        if (precision == 16 || strtod(out, NULL) == x) {
            return precision;
        }
        /* Below a power of two doubles are twice as dense as above: the nearest digits may be too
         * far down, where those above are near enough. */
        if (precision == 15 && step_up(out) && strtod(out, NULL) == x) {
            return precision;
        }
    }
}

void whim_format_real(char out[WHIM_REAL_ROOM], double x)
{
    if (!isfinite(x)) {
        strcpy(out, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    char digits[32];
    int precision = shortest_digits(digits, x);
    char *mark = strchr(digits, 'e');
    int exponent = atoi(mark + 1);
    char *end = mark;
    while (end[-1] == '0' && precision > 0) {
        end--;
        precision--;
    }
    end -= end[-1] == '.';
    if (exponent >= -4 && exponent < 16) {
        int decimals =
            precision - exponent; /* the same digits: here powers of two are exact in 16 */
        snprintf(out, WHIM_REAL_ROOM, "%.*f", decimals < 1 ? 1 : decimals, x);
        return;
    }
    snprintf(out, WHIM_REAL_ROOM, "%.*se%c%02d", (int)(end - digits), digits,
             exponent < 0 ? '-' : '+', abs(exponent));
}

int whim_json_escape(char c, char out[8])
{
    static const char values[] = "\"\\\n\r\t", names[] = "\"\\nrt";
    const char *known = c != '\0' ? strchr(values, c) : NULL;
    if (known != NULL) {
        return snprintf(out, 8, "\\%c", names[known - values]);
    }
    out[0] = c;
    return (unsigned char)c >= 0x20 ? 1 : snprintf(out, 8, "\\u%04x", (unsigned char)c);
}

void whim_json_write_escaped(whim_str *out, const char *text, int64_t n)
{
    for (int64_t i = 0, plain; i < n; i++) {
        for (plain = i;
             i < n && (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\';) {
            i++;
        }
        whim_str_append_n(out, text + plain, i - plain);
        if (i < n) {
            char escape[8];
            whim_str_append_n(out, escape, whim_json_escape(text[i], escape));
        }
    }
}

static void write_text(whim_str *out, const char *text, int64_t n)
{
    whim_str_append_char(out, '"');
    whim_json_write_escaped(out, text, n);
    whim_str_append_char(out, '"');
}

static void write_object(whim_str *out, const json_t *object)
{
    whim_json_iter it = {.obj = object};
    for (char before = '{'; whim_json_next(&it); before = ',') {
        whim_str_append_char(out, before);
        write_text(out, it.key, (int64_t)strlen(it.key));
        whim_str_append_char(out, ':');
        whim_json_write(out, it.value);
    }
    whim_str_append(out, json_object_size(object) == 0 ? "{}" : "}");
}

static void write_array(whim_str *out, const json_t *array)
{
    whim_str_append_char(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0) {
            whim_str_append_char(out, ',');
        }
        whim_json_write(out, json_array_get(array, i));
    }
    whim_str_append_char(out, ']');
}

void whim_json_write(whim_str *out, const whim_json *value)
{
    char real[WHIM_REAL_ROOM];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(out, value);
        break;
    case JSON_ARRAY:
        write_array(out, value);
        break;
    case JSON_STRING:
        write_text(out, json_string_value(value), (int64_t)json_string_length(value));
        break;
    case JSON_INTEGER:
        whim_str_printf(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        whim_format_real(real, json_real_value(value));
        whim_str_append(out, real);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        whim_str_append(out, json_is_true(value) ? "true" : "false");
        break;
    default:
        whim_str_append(out, "null");
    }
}
