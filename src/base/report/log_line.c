/* SPDX-License-Identifier: Apache-2.0 */
/* Fields as words or as JSON. */
#include "base/report/log_line.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 16, NUMBER = 64 };

/* How a character is written: itself, or escaped. */
typedef enum writing { AS_IT_IS, ESCAPED } writing;

/* All or nothing. */
static bool put(whim_log_line *line, const char *bytes, int64_t n, int64_t cap)
{
    if (line->at + n > cap) {
        line->is_cut = true;
        return false;
    }
    memcpy(line->buf + line->at, bytes, (size_t)n);
    line->at += n;
    return true;
}

static bool is_control(const unsigned char *c, int32_t n)
{
    return c[0] < 0x20 || c[0] == 0x7f || (n == 2 && c[0] == 0xc2 && c[1] < 0xa0);
}

/* The character of n bytes (0: a byte that is none) inside quotes. */
static writing write_char(const unsigned char *c, int32_t n, bool is_json, char *piece)
{
    if (n == 1 && (*c == '"' || *c == '\\')) {
        snprintf(piece, PIECE, "\\%c", *c);
    } else if (n == 1 && *c == '\n') {
        snprintf(piece, PIECE, "\\n");
    } else if (n == 0) {
        snprintf(piece, PIECE, is_json ? "\\ufffd" : "\\x%02x", *c);
    } else if (is_control(c, n) && is_json) {
        snprintf(piece, PIECE, "\\u%04x", n == 2 ? c[1] : c[0]);
    } else if (is_control(c, n)) {
        snprintf(piece, PIECE, n == 2 ? "\\x%02x\\x%02x" : "\\x%02x", c[0], c[1]);
    } else {
        return AS_IT_IS;
    }
    return ESCAPED;
}

/* Whether a text can stand as a word without quotes. */
static bool is_plain(const char *text, int64_t n)
{
    char piece[PIECE];
    for (int64_t i = 0; i < n;) {
        const unsigned char *c = (const unsigned char *)text + i;
        int32_t len = whim_utf8_char_length(text + i, n - i);
        if (len == 0 || *c == ' ' || *c == '=' || write_char(c, len, false, piece) == ESCAPED) {
            return false;
        }
        i += len;
    }
    return n > 0;
}

static void put_text(whim_log_line *line, const char *text, int64_t n)
{
    bool quotes = line->is_json || !is_plain(text, n);
    int64_t cap = line->cap - quotes;
    if (quotes && !put(line, "\"", 1, cap)) {
        return;
    }
    for (int64_t i = 0; i < n;) {
        char piece[PIECE];
        int32_t len = whim_utf8_char_length(text + i, n - i);
        bool escaped =
            write_char((const unsigned char *)text + i, len, line->is_json, piece) == ESCAPED;
        if (!put(line, escaped ? piece : text + i, escaped ? (int64_t)strlen(piece) : len, cap)) {
            break;
        }
        i += len == 0 ? 1 : len;
    }
    if (quotes) {
        line->buf[line->at++] = '"';
    }
}

static void put_number(whim_log_line *line, const whim_log_field *field)
{
    char number[NUMBER];
    if (field->kind == WHIM_LOG_INT) {
        snprintf(number, sizeof number, "%lld", (long long)field->n);
    } else if (isfinite(field->real) && fabs(field->real) < 1e18) {
        snprintf(number, sizeof number, "%.*f", field->digits, field->real);
    } else {
        snprintf(number, sizeof number, "null");
    }
    put(line, number, (int64_t)strlen(number), line->cap);
}

void whim_log_line_begin(whim_log_line *line, char *buf, int64_t n, bool is_json)
{
    *line = (whim_log_line){.buf = buf, .cap = n - WHIM_LOG_LINE_END, .is_json = is_json};
    if (is_json) {
        line->buf[line->at++] = '{';
    }
}

void whim_log_line_add(whim_log_line *line, const whim_log_field *field)
{
    char key[NUMBER];
    int64_t start = line->at;
    if (line->is_cut) {
        return;
    }
    int n = snprintf(key, sizeof key, line->is_json ? "%s\"%.40s\":" : "%s%.40s=",
                     !line->is_begun ? ""
                     : line->is_json ? ","
                                     : " ",
                     field->key);
    if (!put(line, key, n, line->cap)) {
        return;
    }
    bool is_text = field->kind == WHIM_LOG_TEXT && field->text != NULL;
    int64_t value = line->at;
    if (is_text) {
        put_text(line, field->text, field->n);
    } else if (field->kind == WHIM_LOG_TEXT) {
        put(line, line->is_json ? "null" : "-", line->is_json ? 4 : 1, line->cap);
    } else {
        put_number(line, field);
    }
    if (line->is_cut && (!is_text || line->at == value)) {
        line->at = start; /* a key without its value */
        return;
    }
    line->is_begun = true;
}

void whim_log_line_end(whim_log_line *line, int64_t dropped)
{
    char *end = line->buf + line->at;
    if (line->is_cut) {
        end += sprintf(end, line->is_json ? ",\"cut\":1" : " cut=1");
    }
    if (dropped > 0) {
        end +=
            sprintf(end, line->is_json ? ",\"dropped\":%lld" : " dropped=%lld", (long long)dropped);
    }
    end += sprintf(end, line->is_json ? "}\n" : "\n");
    line->at = end - line->buf;
}
