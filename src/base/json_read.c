/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON into the library's values. The reader is ours, because the library's own refuses
 * what Python's json reads, cannot be told limits, and does not say whether a text was bad or
 * memory ran out. */
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *text;
    int64_t n, at;
    int32_t depth;
    bool skip; /* look whether it is JSON, and keep nothing */
    whim_json_limits limits;
    whim_str scratch; /* a text with its escapes resolved, or a number with a NUL behind it */
    whim_str keys;    /* of the members that are being read, each with a NUL behind it */
    whim_err err;
    const char *why; /* of CORRUPT; NULL: there are too many values */
} reader;

/* The first thing that is wrong counts. */
static json_t *stop(reader *r, whim_err err, const char *why)
{
    if (r->err == WHIM_ERR_OK) {
        r->err = err;
        r->why = why;
    }
    return NULL;
}

static json_t *bad(reader *r, const char *why)
{
    return stop(r, WHIM_ERR_CORRUPT, why);
}

static json_t *made(reader *r, json_t *value)
{
    return value != NULL ? value : stop(r, WHIM_ERR_NO_MEMORY, NULL);
}

/* The next byte that is no white space, or 0 at the end. */
static char next(reader *r)
{
    for (; r->at < r->n; r->at++) {
        if (!whim_is_blank(r->text[r->at])) {
            return r->text[r->at];
        }
    }
    return '\0';
}

static bool take(reader *r, char c)
{
    bool there = next(r) == c;
    r->at += there;
    return there;
}

static bool take_word(reader *r, const char *word)
{
    int64_t n = (int64_t)strlen(word);
    bool there = r->n - r->at >= n && memcmp(r->text + r->at, word, (size_t)n) == 0;
    r->at += there ? n : 0;
    return there;
}

/* False: there are more values than may be. */
static bool count(reader *r, int64_t n)
{
    if (!r->skip && (*r->limits.values_left -= n) < 0) {
        bad(r, NULL);
        return false;
    }
    return true;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* The code of \uXXXX, or -1. */
static int32_t code_at(const char *text, int64_t n)
{
    int32_t code = 0;
    if (n < 6 || text[0] != '\\' || text[1] != 'u') {
        return -1;
    }
    for (int i = 2; i < 6; i++) {
        int digit = whim_hex_value(text[i]);
        if (digit < 0) {
            return -1;
        }
        code = code << 4 | digit;
    }
    return code;
}

int32_t whim_json_unescape(const char *text, int64_t n, int32_t *cp)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *known = n >= 2 && text[1] != '\0' ? strchr(names, text[1]) : NULL;
    if (known != NULL) {
        *cp = values[known - names];
        return 2;
    }
    *cp = code_at(text, n);
    if (*cp < 0xd800 || *cp >= 0xdc00) {
        return *cp < 0 ? 0 : 6;
    }
    int32_t low = code_at(text + 6, n - 6);
    if (low < 0xdc00 || low >= 0xe000) {
        return 6;
    }
    *cp = 0x10000 + ((*cp & 0x3ff) << 10 | (low & 0x3ff));
    return 12;
}

/* An escape. Half of a pair alone becomes U+FFFD: agents cut texts inside an emoji and would send
 * the same turn for ever. So does U+0000 in a key, because the library's keys end there. */
static bool read_escape(reader *r, bool key)
{
    char bytes[4];
    int32_t cp, used = whim_json_unescape(r->text + r->at, r->n - r->at, &cp);
    if (used == 0) {
        bad(r, "expected an escape such as \\n or \\u00e9");
        return false;
    }
    bool alone = cp >= 0xd800 && cp < 0xe000;
    int32_t n = whim_utf8_encode(alone || (key && cp == 0) ? 0xfffd : cp, bytes);
    whim_str_append_n(&r->scratch, bytes, n);
    r->at += used;
    return true;
}

/* Step over the bytes up to the next quote or backslash. False when one is not allowed. */
static bool skip_plain(reader *r)
{
    while (r->at < r->n && r->text[r->at] != '"' && r->text[r->at] != '\\') {
        const unsigned char c = (unsigned char)r->text[r->at];
        int32_t n = c < 0x80 ? 1 : whim_utf8_char_length(r->text + r->at, r->n - r->at);
        if (n == 0 || c < 0x20) {
            bad(r, n == 0 ? "a byte that is not UTF-8"
                          : "a control character in a string; it must be written as an escape");
            return false;
        }
        r->at += n;
    }
    return true;
}

/* A text behind its opening quote, or NULL. It lies in the bytes themselves or in the scratch. */
static const char *read_text(reader *r, bool key, int64_t *n)
{
    int64_t begin = r->at;
    whim_str_clear(&r->scratch);
    for (bool whole = true; skip_plain(r);) {
        if (r->at == r->n) {
            bad(r, "the text ends inside a string");
            return NULL;
        }
        bool end = r->text[r->at] == '"';
        if (end && whole && !key) {
            *n = r->at++ - begin;
            return r->text + begin;
        }
        whim_str_append_n(&r->scratch, r->text + begin, r->at - begin);
        whole = false;
        if (!end && !read_escape(r, key)) {
            return NULL;
        }
        r->at += end;
        begin = r->at;
        if (r->scratch.failed) {
            stop(r, WHIM_ERR_NO_MEMORY, NULL);
            return NULL;
        }
        if (end) {
            *n = r->scratch.len;
            return whim_str_text(&r->scratch);
        }
    }
    return NULL;
}

static json_t *read_string(reader *r)
{
    int64_t n;
    const char *text = read_text(r, false, &n);
    return text == NULL ? NULL
           : r->skip    ? json_true()
                        : made(r, json_stringn_nocheck(text, (size_t)n));
}

/* --- numbers ---------------------------------------------------------------------------------- */

static bool skip_digits(reader *r)
{
    int64_t begin = r->at;
    while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        r->at++;
    }
    return r->at > begin;
}

static void note_change(const reader *r)
{
    if (r->limits.is_changed != NULL) {
        *r->limits.is_changed = true;
    }
}

/* An integer beyond 64 bits becomes a double. What no double holds, and what is no number at all
 * (NaN), becomes one that no field takes: the library has finite doubles only, and it may stand in
 * a field that nobody reads. */
static json_t *beyond(reader *r, bool negative)
{
    note_change(r);
    return made(r, json_real(negative ? -WHIM_JSON_BEYOND : WHIM_JSON_BEYOND));
}

static json_t *number_value(reader *r, int64_t begin, bool whole)
{
    whim_str_clear(&r->scratch);
    whim_str_append_n(&r->scratch, r->text + begin, r->at - begin);
    if (r->scratch.failed) {
        return made(r, NULL);
    }
    const char *text = whim_str_text(&r->scratch);
    if (whole) {
        errno = 0;
        long long integer = strtoll(text, NULL, 10);
        if (errno == 0) {
            return made(r, json_integer(integer));
        }
        note_change(r);
    }
    double real = strtod(text, NULL);
    return isinf(real) ? beyond(r, real < 0) : made(r, json_real(real));
}

static json_t *read_number(reader *r)
{
    int64_t begin = r->at;
    bool negative = r->text[r->at] == '-', whole = true;
    r->at += negative;
    if (take_word(r, "Infinity")) {
        return beyond(r, negative);
    }
    int64_t digits = r->at;
    bool ok = skip_digits(r) && (r->text[digits] != '0' || r->at == digits + 1);
    if (ok && r->at < r->n && r->text[r->at] == '.') {
        r->at++;
        whole = false;
        ok = skip_digits(r);
    }
    if (ok && r->at < r->n && (r->text[r->at] == 'e' || r->text[r->at] == 'E')) {
        r->at++;
        r->at += r->at < r->n && (r->text[r->at] == '+' || r->text[r->at] == '-');
        whole = false;
        ok = skip_digits(r);
    }
    return ok ? number_value(r, begin, whole) : bad(r, "expected a number such as -1.5e3");
}

/* --- values ----------------------------------------------------------------------------------- */

static json_t *read_value(reader *r);

/* Put the key behind those that wait for their values; false when there is none. */
static bool read_key(reader *r)
{
    int64_t n;
    if (!take(r, '"')) {
        bad(r, "expected a key in quotes");
        return false;
    }
    const char *text = read_text(r, true, &n);
    if (text == NULL) {
        return false;
    }
    whim_str_append_n(&r->keys, text, r->skip ? 0 : n + 1);
    return !r->keys.failed || made(r, NULL) != NULL;
}

/* Of a key that stands twice the last value counts. */
static bool read_member(reader *r, json_t *object)
{
    const int64_t begin = r->keys.len;
    if (!read_key(r)) {
        return false;
    }
    if (r->limits.unique_keys && !r->skip &&
        json_object_get(object, r->keys.text + begin) != NULL) {
        bad(r, "a duplicate key");
        return false;
    }
    if (!take(r, ':')) {
        bad(r, "expected \":\"");
        return false;
    }
    json_t *value = read_value(r);
    if (value == NULL || r->skip) {
        json_decref(value);
        return value != NULL;
    }
    int set = json_object_set_new_nocheck(object, r->keys.text + begin, value);
    r->keys.len = begin;
    return set == 0 || made(r, NULL) != NULL;
}

static bool read_item(reader *r, json_t *array)
{
    json_t *value = read_value(r);
    if (value == NULL || r->skip) {
        json_decref(value);
        return value != NULL;
    }
    return json_array_append_new(array, value) == 0 || made(r, NULL) != NULL;
}

static json_t *read_group(reader *r, bool object)
{
    const char close = object ? '}' : ']';
    json_t *group = r->skip ? json_true() : made(r, object ? json_object() : json_array());
    if (group == NULL || take(r, close)) {
        return group;
    }
    while (object ? read_member(r, group) : read_item(r, group)) {
        if (take(r, close)) {
            return group;
        }
        if (!take(r, ',')) {
            bad(r, object ? "expected \",\" or \"}\"" : "expected \",\" or \"]\"");
            break;
        }
    }
    json_decref(group);
    return NULL;
}

static json_t *read_value(reader *r)
{
    const char c = next(r);
    if (!count(r, c == '{' || c == '[' ? WHIM_JSON_GROUP : 1)) {
        return NULL;
    }
    if (c == '{' || c == '[') {
        if (r->depth == r->limits.max_depth) {
            return stop(r, WHIM_ERR_UNSUPPORTED, NULL);
        }
        r->at++;
        r->depth++;
        json_t *group = read_group(r, c == '{');
        r->depth--;
        return group;
    }
    if (take(r, '"')) {
        return read_string(r);
    }
    if (c == '-' || c == 'I' || (c >= '0' && c <= '9')) {
        return read_number(r);
    }
    if (take_word(r, "NaN")) {
        return beyond(r, false);
    }
    return take_word(r, "true")    ? json_true()
           : take_word(r, "false") ? json_false()
           : take_word(r, "null")  ? json_null()
                                  : bad(r, r->at == r->n ? "the text ends where a value is expected"
                                                         : "expected a value");
}

/* --- the whole -------------------------------------------------------------------------------- */

static whim_err describe(const reader *r, int64_t max_values, whim_diag *diag)
{
    int64_t line = 1, column = 1;
    if (r->err == WHIM_ERR_NO_MEMORY) {
        return whim_fail(diag, r->err, "out of memory while reading JSON");
    }
    if (r->err == WHIM_ERR_UNSUPPORTED) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "JSON nested deeper than %d levels",
                         r->limits.max_depth);
    }
    if (r->why == NULL) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "JSON of more than %lld values (a list or an object counts as %d)",
                         (long long)max_values, WHIM_JSON_GROUP);
    }
    for (int64_t i = 0; i < r->at && i < r->n; i++) {
        bool starts = (r->text[i] & 0xc0) != 0x80; /* columns are characters */
        column = r->text[i] == '\n' ? 1 : column + starts;
        line += r->text[i] == '\n';
    }
    return whim_fail(diag, r->err, "not valid JSON at line %lld column %lld: %s", (long long)line,
                     (long long)column, r->why);
}

/* One value and no more of the text; NULL and an error that is told. */
static json_t *read_one(const char *text, int64_t n, int64_t *at, whim_json_limits limits,
                        bool skip, bool to_end, whim_err *err, whim_diag *diag)
{
    int64_t left = WHIM_JSON_VALUES;
    if (limits.values_left == NULL) {
        limits.values_left = &left;
    }
    const int64_t max_values = *limits.values_left;
    reader r = {.text = text, .n = n, .at = *at, .skip = skip, .limits = limits};
    json_t *json = read_value(&r);
    if (json != NULL && to_end && (next(&r) != '\0' || r.at < r.n)) {
        bad(&r, "text after the end");
    }
    whim_str_deinit(&r.scratch);
    whim_str_deinit(&r.keys);
    *at = r.at;
    *err = r.err;
    if (r.err != WHIM_ERR_OK) {
        json_decref(json);
        *err = describe(&r, max_values, diag);
        return NULL;
    }
    return json;
}

/* Where the text begins: Windows puts a mark before files. */
static int64_t first_byte(const char *text, int64_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

static whim_err check_bytes(int64_t n, whim_json_limits limits, whim_diag *diag)
{
    return n <= limits.max_bytes
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_CORRUPT, "%lld bytes of JSON, expected at most %lld",
                           (long long)n, (long long)limits.max_bytes);
}

whim_err whim_json_read(whim_json **out, const char *text, int64_t n, whim_json_limits limits,
                        whim_diag *diag)
{
    int64_t at = first_byte(text, n);
    whim_err err;
    *out = NULL;
    WHIM_TRY(check_bytes(n, limits, diag));
    *out = read_one(text, n, &at, limits, false, true, &err, diag);
    return err;
}

/* --- member by member ------------------------------------------------------------------------- */

static whim_err walk_fail(whim_json_members *w, whim_err err, const char *why)
{
    return whim_fail(w->diag, err, "%s: %s", w->path, why);
}

/* As the reader tells what is wrong at a place. */
static whim_err walk_bad(whim_json_members *w, const char *why)
{
    whim_diag diag = {{0}};
    reader r = {.text = w->text, .n = w->n, .at = w->at, .limits = w->limits};
    bad(&r, why);
    (void)!describe(&r, 0, &diag);
    return walk_fail(w, WHIM_ERR_CORRUPT, diag.text);
}

static char walk_next_byte(whim_json_members *w)
{
    reader r = {.text = w->text, .n = w->n, .at = w->at};
    char c = next(&r);
    w->at = r.at;
    return c;
}

static bool walk_take(whim_json_members *w, char c)
{
    bool there = walk_next_byte(w) == c;
    w->at += there;
    return there;
}

whim_err whim_json_members_open(whim_json_members *w, const char *text, int64_t n,
                                whim_json_limits limits, const char *path, whim_diag *diag)
{
    whim_diag why = {{0}};
    *w = (whim_json_members){.text = text, .n = n, .limits = limits, .path = path, .diag = diag};
    if (check_bytes(n, limits, &why) != WHIM_ERR_OK) {
        return walk_fail(w, WHIM_ERR_CORRUPT, why.text);
    }
    w->at = first_byte(text, n);
    if (walk_next_byte(w) == '{') {
        return whim_json_members_enter(w);
    }
    const char *other = whim_file_stand_in(text, n);
    return other != NULL ? walk_fail(w, WHIM_ERR_CORRUPT, other)
                         : walk_bad(w, "the top level is expected to be an object");
}

whim_err whim_json_members_enter(whim_json_members *w)
{
    if (!walk_take(w, '{')) {
        return whim_fail(w->diag, WHIM_ERR_CORRUPT, "%s: \"%.200s\" is expected to be an object",
                         w->path, whim_str_text(&w->key));
    }
    w->first = true;
    w->depth++;
    return WHIM_ERR_OK;
}

whim_err whim_json_members_next(whim_json_members *w, bool *more)
{
    *more = false;
    if (walk_take(w, '}')) {
        w->first = false;
        bool ends = --w->depth == 0;
        return ends && (walk_next_byte(w) != '\0' || w->at < w->n)
                   ? walk_bad(w, "text after the end")
                   : WHIM_ERR_OK;
    }
    if (!w->first && !walk_take(w, ',')) {
        return walk_bad(w, "expected \",\" or \"}\"");
    }
    w->first = false;
    if (!walk_take(w, '"')) {
        return walk_bad(w, "expected a key in quotes");
    }
    int64_t n;
    whim_diag why = {{0}};
    reader r = {.text = w->text, .n = w->n, .at = w->at, .limits = w->limits};
    const char *key = read_text(&r, true, &n);
    whim_err err = key == NULL ? describe(&r, 0, &why) : WHIM_ERR_OK;
    whim_str_deinit(&w->key); /* the key takes the place of the one before */
    w->key = r.scratch;
    w->at = r.at;
    if (err != WHIM_ERR_OK) {
        return walk_fail(w, err, why.text);
    }
    *more = true;
    return walk_take(w, ':') ? WHIM_ERR_OK : walk_bad(w, "expected \":\"");
}

whim_err whim_json_members_value(whim_json_members *w, whim_json **out)
{
    whim_diag why = {{0}};
    whim_err err;
    int64_t left = WHIM_JSON_MEMBER_VALUES;
    whim_json_limits limits = w->limits;
    limits.values_left = &left;
    json_t *json = read_one(w->text, w->n, &w->at, limits, out == NULL, false, &err, &why);
    if (out != NULL) {
        *out = json;
    } else {
        json_decref(json);
    }
    return err == WHIM_ERR_OK ? WHIM_ERR_OK : walk_fail(w, err, why.text);
}

void whim_json_members_close(whim_json_members *w)
{
    whim_str_deinit(&w->key);
}
