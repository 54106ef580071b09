/* SPDX-License-Identifier: Apache-2.0 */
/* A small strict JSON scanner. */
#include "text/files/json_scan.h"

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

enum { DEPTH_MAX = 64, WORD_MAX = 40 };

whim_err whim_json_unexpected(const whim_json_scan *scan, const char *expected)
{
    const char *other = scan->at == 0 ? whim_file_stand_in(scan->text, scan->end) : NULL;
    if (other != NULL) {
        return whim_fail(scan->diag, WHIM_ERR_CORRUPT, "%s: %s", scan->path, other);
    }
    return whim_fail(scan->diag, WHIM_ERR_CORRUPT,
                     "%s: %s%s%snot valid JSON at byte %lld: expected %s", scan->path,
                     scan->field != NULL ? "\"" : "", scan->field != NULL ? scan->field : "",
                     scan->field != NULL ? "\": " : "", (long long)scan->at, expected);
}

char whim_json_peek(whim_json_scan *scan)
{
    while (scan->at < scan->end) {
        if (!whim_is_blank(scan->text[scan->at])) {
            return scan->text[scan->at];
        }
        scan->at++;
    }
    return 0;
}

bool whim_json_take(whim_json_scan *scan, char c)
{
    if (whim_json_peek(scan) != c) {
        return false;
    }
    scan->at++;
    return true;
}

whim_err whim_json_scan_string(whim_json_scan *scan, char *out, int64_t *n)
{
    if (!whim_json_take(scan, '"')) {
        return whim_json_unexpected(scan, "a string");
    }
    int64_t used = 0;
    while (scan->at < scan->end) {
        uint8_t c = (uint8_t)scan->text[scan->at];
        int32_t len, cp;
        if (c == '"') {
            scan->at++;
            out[used] = '\0';
            *n = used;
            return WHIM_ERR_OK;
        }
        if (c == '\\') {
            len = whim_json_unescape(scan->text + scan->at, scan->end - scan->at, &cp);
            if (len == 0 || cp == 0 || (cp >= 0xD800 && cp < 0xE000)) {
                return whim_json_unexpected(scan, "an escape of JSON other than NUL and half a"
                                                  " surrogate pair");
            }
            used += whim_utf8_encode(cp, out + used);
            scan->at += len;
        } else if (c < 0x20 || whim_utf8_next(scan->text + scan->at, scan->end - scan->at, &len,
                                              &cp) != WHIM_UTF8_WHOLE) {
            return whim_json_unexpected(scan, "UTF-8 text");
        } else {
            memcpy(out + used, scan->text + scan->at, (size_t)len);
            used += len;
            scan->at += len;
        }
    }
    return whim_json_unexpected(scan, "the end of a string");
}

int32_t whim_json_scan_word(whim_json_scan *scan, const char **word)
{
    static const char marks[] = "+-.0123456789";
    (void)whim_json_peek(scan);
    *word = scan->text + scan->at;
    int64_t begin = scan->at;
    for (; scan->at < scan->end && scan->at - begin < WORD_MAX; scan->at++) {
        char c = scan->text[scan->at];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && (c == '\0' || strchr(marks, c) == NULL)) {
            break;
        }
    }
    return (int32_t)(scan->at - begin);
}

/* Past the closing quote of a string whose opening one was taken. */
static bool skip_string(whim_json_scan *scan)
{
    while (scan->at < scan->end) {
        const char *quote = memchr(scan->text + scan->at, '"', (size_t)(scan->end - scan->at));
        if (quote == NULL) {
            break;
        }
        /* It is escaped when an odd number of backslashes stands before it. */
        int64_t at = quote - scan->text, slashes = 0;
        while (at - slashes > scan->at && scan->text[at - slashes - 1] == '\\') {
            slashes++;
        }
        scan->at = at + 1;
        if (slashes % 2 == 0) {
            return true;
        }
    }
    scan->at = scan->end;
    return false;
}

/* Past one value. Only nesting is looked at: what is skipped here is read with care elsewhere. */
static whim_err skip_value(whim_json_scan *scan)
{
    int32_t depth = 0;
    do {
        char c = whim_json_peek(scan);
        if (c == 0) {
            return whim_json_unexpected(scan, "a value");
        }
        scan->at++;
        if (c == '"' && !skip_string(scan)) {
            return whim_json_unexpected(scan, "the end of a string");
        }
        if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX) {
                return whim_json_unexpected(scan, "less nesting");
            }
        } else if (c == '}' || c == ']') {
            if (--depth < 0) {
                return whim_json_unexpected(scan, "a value");
            }
        }
        /* A number or word at the top ends before the next mark of punctuation. */
        while (depth == 0 && c != '"' && c != '}' && c != ']' && scan->at < scan->end &&
               strchr(",]} \t\r\n", scan->text[scan->at]) == NULL) {
            scan->at++;
        }
    } while (depth > 0);
    return WHIM_ERR_OK;
}

/* The next key of an object as it is spelled, with its colon; *key is NULL behind the last. */
static whim_err next_key(whim_json_scan *scan, bool first, const char **key, int64_t *n)
{
    *key = NULL;
    if (whim_json_take(scan, '}')) {
        return WHIM_ERR_OK;
    }
    if (!first && !whim_json_take(scan, ',')) {
        return whim_json_unexpected(scan, "\",\" or \"}\"");
    }
    if (!whim_json_take(scan, '"')) {
        return whim_json_unexpected(scan, "a key");
    }
    int64_t begin = scan->at;
    if (!skip_string(scan)) {
        return whim_json_unexpected(scan, "the end of a key");
    }
    *key = scan->text + begin;
    *n = scan->at - 1 - begin;
    return whim_json_take(scan, ':') ? WHIM_ERR_OK : whim_json_unexpected(scan, "\":\"");
}

static bool is_key(const char *key, int64_t n, const char *name)
{
    return (int64_t)strlen(name) == n && memcmp(key, name, (size_t)n) == 0;
}

/* Cut the value at the current position out of the rest, if it is of the kind wanted. */
static whim_err cut_value(whim_json_scan *scan, char open, const char *instead, int64_t *copied,
                          int64_t *begin, int64_t *end, whim_str *rest)
{
    bool wanted = whim_json_peek(scan) == open;
    int64_t at = scan->at;
    WHIM_TRY(skip_value(scan));
    *end = 0; /* of a key that stands twice the last value counts */
    if (wanted) {
        *begin = at;
        *end = scan->at;
        whim_str_append_n(rest, scan->text + *copied, at - *copied);
        whim_str_append(rest, instead);
        *copied = scan->at;
    }
    return WHIM_ERR_OK;
}

static whim_err cut_fields(whim_json_scan *scan, int64_t *copied, whim_json_cut *cut)
{
    cut->vocab_end = cut->merges_end = 0; /* of a key that stands twice the last value counts */
    if (whim_json_peek(scan) != '{') {
        return skip_value(scan);
    }
    const char *key;
    int64_t n;
    scan->at++;
    WHIM_TRY(next_key(scan, true, &key, &n));
    while (key != NULL) {
        if (is_key(key, n, "vocab")) {
            WHIM_TRY(cut_value(scan, '{', "{}", copied, &cut->vocab, &cut->vocab_end, &cut->rest));
        } else if (is_key(key, n, "merges")) {
            WHIM_TRY(
                cut_value(scan, '[', "[]", copied, &cut->merges, &cut->merges_end, &cut->rest));
        } else {
            WHIM_TRY(skip_value(scan));
        }
        WHIM_TRY(next_key(scan, false, &key, &n));
    }
    return WHIM_ERR_OK;
}

whim_err whim_json_cut_model(const char *text, int64_t n, const char *path, whim_json_cut *cut,
                             whim_diag *diag)
{
    whim_json_scan scan = {.text = text, .end = n, .path = path, .diag = diag};
    const char *key;
    int64_t copied = 0, n_key;
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        scan.at = 3; /* a byte order mark */
    }
    if (!whim_json_take(&scan, '{')) {
        return whim_json_unexpected(&scan, "an object");
    }
    WHIM_TRY(next_key(&scan, true, &key, &n_key));
    while (key != NULL) {
        if (is_key(key, n_key, "model")) {
            WHIM_TRY(cut_fields(&scan, &copied, cut));
        } else {
            WHIM_TRY(skip_value(&scan));
        }
        WHIM_TRY(next_key(&scan, false, &key, &n_key));
    }
    whim_str_append_n(&cut->rest, text + copied, n - copied);
    return cut->rest.failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
}
