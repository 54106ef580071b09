/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text: what {{ v }} prints, and Python's repr, which it uses inside lists and dicts. */
#include "base/json.h"
#include "jinja/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_printable(int32_t c)
{
    utf8proc_category_t cat = utf8proc_category(c < 0 ? 0 : c);
    return c >= 0 && cat != UTF8PROC_CATEGORY_CN && cat < UTF8PROC_CATEGORY_ZL &&
           (cat != UTF8PROC_CATEGORY_ZS || c == ' ');
}

static void repr_str(whim_jinja *j, whim_jbuf *buf, const whim_jstr *str)
{
    bool single = str->n > 0 && memchr(str->s, '\'', (size_t)str->n) != NULL;
    bool twice = str->n > 0 && memchr(str->s, '"', (size_t)str->n) != NULL;
    char quote = single && !twice ? '"' : '\'';
    whim_jinja_pay(j, str->n / 2);
    whim_jbuf_add(j, buf, &quote, 1, false);
    for (int64_t at = 0; at < str->n;) {
        int32_t c = whim_jutf8_next(str->s, str->n, &at);
        char out[16];
        int n = 0;
        if (c == quote || c == '\\') {
            n = snprintf(out, sizeof out, "\\%c", (char)c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            n = snprintf(out, sizeof out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        } else if (is_printable(c)) {
            n = whim_jutf8_put(out, c);
        } else if (c <= 0xff) {
            n = snprintf(out, sizeof out, "\\x%02x", (unsigned)(c & 0xff));
        } else {
            n = snprintf(out, sizeof out, c <= 0xffff ? "\\u%04x" : "\\U%08x", (unsigned)c);
        }
        whim_jbuf_add(j, buf, out, n, false);
    }
    whim_jbuf_add(j, buf, &quote, 1, false);
}

static void add_word(whim_jinja *j, whim_jbuf *buf, const char *word)
{
    whim_jbuf_add(j, buf, word, (int64_t)strlen(word), false);
}

/* The values of a list, or of a dict behind their keys. */
static void repr_items(whim_jinja *j, whim_jbuf *buf, const whim_jval *keys, const whim_jval *vals,
                       int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) {
            add_word(j, buf, ", ");
        }
        if (keys != NULL) {
            whim_jbuf_repr(j, buf, keys[i]);
            add_word(j, buf, ": ");
        }
        whim_jbuf_repr(j, buf, vals[i]);
    }
}

static void repr_list(whim_jinja *j, whim_jbuf *buf, const whim_jlist *list)
{
    static const char *const brackets[][2] = {
        [WHIM_JL_LIST] = {"[", "]"},
        [WHIM_JL_TUPLE] = {"(", ")"},
        [WHIM_JL_RANGE] = {"range(", ")"},
        [WHIM_JL_KEYS] = {"dict_keys([", "])"},
        [WHIM_JL_VALUES] = {"dict_values([", "])"},
        [WHIM_JL_ITEMS] = {"dict_items([", "])"},
        [WHIM_JL_STREAM] = {"<generator", ">"},
    };
    add_word(j, buf, brackets[list->kind][0]);
    if (list->kind == WHIM_JL_RANGE) {
        char text[80];
        int n = snprintf(text, sizeof text, "%lld, %lld", (long long)list->start,
                         (long long)list->stop);
        if (list->step != 1) {
            snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)list->step);
        }
        add_word(j, buf, text);
    } else if (list->kind != WHIM_JL_STREAM) {
        repr_items(j, buf, NULL, list->v, list->n);
        if (list->kind == WHIM_JL_TUPLE && list->n == 1) {
            add_word(j, buf, ",");
        }
    }
    add_word(j, buf, brackets[list->kind][1]);
}

static void repr_dict(whim_jinja *j, whim_jbuf *buf, whim_jval v)
{
    add_word(j, buf, v.kind == WHIM_J_NAMESPACE ? "<Namespace {" : "{");
    repr_items(j, buf, v.dict->keys, v.dict->vals, v.dict->n);
    add_word(j, buf, v.kind == WHIM_J_NAMESPACE ? "}>" : "}");
}

static void print_scalar(whim_jinja *j, whim_jbuf *buf, whim_jval v)
{
    char text[40];
    switch (v.kind) {
    case WHIM_J_NONE:
        strcpy(text, "None");
        break;
    case WHIM_J_BOOL:
        strcpy(text, v.b ? "True" : "False");
        break;
    case WHIM_J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        break;
    case WHIM_J_FLOAT:
        whim_jinja_pay(j, 8);
        whim_format_real(text, v.f);
        break;
    default:
        snprintf(text, sizeof text, "<%s>", whim_jval_type(v));
        break;
    }
    whim_jbuf_add(j, buf, text, (int64_t)strlen(text), whim_jval_trusted(j, v));
}

void whim_jbuf_repr(whim_jinja *j, whim_jbuf *buf, whim_jval v)
{
    whim_jinja_enter(j);
    if (v.kind == WHIM_J_STR) {
        repr_str(j, buf, v.str);
    } else if (v.kind == WHIM_J_UNDEF) {
        add_word(j, buf, "Undefined");
    } else if (v.kind == WHIM_J_LIST) {
        repr_list(j, buf, v.list);
    } else if (v.kind == WHIM_J_DICT || v.kind == WHIM_J_NAMESPACE) {
        repr_dict(j, buf, v);
    } else {
        print_scalar(j, buf, v);
    }
    j->depth--;
}

void whim_jbuf_print(whim_jinja *j, whim_jbuf *buf, whim_jval v)
{
    if (v.kind == WHIM_J_STR) {
        whim_jbuf_add_str(j, buf, v.str);
    } else if (v.kind != WHIM_J_UNDEF) {
        whim_jbuf_repr(j, buf, v);
    }
}

const whim_jstr *whim_jval_to_str(whim_jinja *j, whim_jval v)
{
    if (v.kind == WHIM_J_STR) {
        return v.str;
    }
    whim_jbuf buf = {0};
    whim_jbuf_print(j, &buf, v);
    return whim_jbuf_take(j, &buf).str;
}
