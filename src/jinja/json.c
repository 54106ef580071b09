/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in and out. What comes in is untrusted, and so is everything tojson writes. The text is that
 * of Python's json.dumps. */
#include "base/json.h"
#include "jinja/eval.h"
#include "jinja/template.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_string(const void *key, const void *item)
{
    uintptr_t a = (uintptr_t)key, b = (uintptr_t)((const whim_marked_text *)item)->string;
    return (a > b) - (a < b);
}

static whim_jval import_string(whim_jinja *j, const json_t *json)
{
    const whim_marked_text *marked =
        j->n_marked == 0
            ? NULL
            : bsearch(json, j->marked, (size_t)j->n_marked, sizeof *j->marked, by_string);
    if (marked == NULL) {
        return whim_jval_str(j, json_string_value(json), (int64_t)json_string_length(json), false);
    }
    whim_jbuf buf = {0};
    for (int64_t i = 0; i < marked->text->n_span; i++) {
        const whim_text_span *span = &marked->text->spans[i];
        whim_jbuf_add(j, &buf, marked->text->text.text + span->begin, span->end - span->begin,
                      span->trusted);
    }
    return whim_jbuf_take(j, &buf);
}

static whim_jval import(whim_jinja *j, const json_t *json, int32_t depth)
{
    if (depth > WHIM_JINJA_DATA_DEPTH) {
        whim_jinja_fail(j, "the data nests deeper than %d levels", (int)WHIM_JINJA_DATA_DEPTH);
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        whim_jval out = whim_jval_dict(j, WHIM_J_DICT);
        int64_t n = (int64_t)json_object_size(json);
        out.dict->keys = whim_jinja_alloc_array(j, n, sizeof *out.dict->keys);
        out.dict->vals = whim_jinja_alloc_array(j, n, sizeof *out.dict->vals);
        out.dict->n = out.dict->cap = n;
        void *it = json_object_iter((json_t *)json); /* which changes nothing */
        for (int64_t i = 0; i < n; i++, it = json_object_iter_next((json_t *)json, it)) {
            const char *key = json_object_iter_key(it);
            out.dict->keys[i] = whim_jval_str(j, key, (int64_t)strlen(key), false);
            out.dict->vals[i] = import(j, json_object_iter_value(it), depth + 1);
        }
        return out;
    }
    case JSON_ARRAY: {
        whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
        for (size_t i = 0; i < json_array_size(json); i++) {
            whim_jlist_push(j, out.list, import(j, json_array_get(json, i), depth + 1));
        }
        return out;
    }
    case JSON_STRING:
        return import_string(j, json);
    case JSON_INTEGER:
        return whim_jval_int((int64_t)json_integer_value(json), false);
    case JSON_REAL:
        return whim_jval_float(json_real_value(json), false);
    case JSON_TRUE:
    case JSON_FALSE:
        return whim_jval_bool(json_is_true(json), false);
    default:
        return whim_jval_none(false);
    }
}

whim_jval whim_jval_from_json(whim_jinja *j, const json_t *json)
{
    return json == NULL ? whim_jval_none(true) : import(j, json, 0);
}

/* Copies all strings into the arena, so that the document can go. */
static whim_jval own(whim_jinja *j, whim_jval v)
{
    if (v.kind == WHIM_J_STR) {
        whim_jbuf buf = {0};
        whim_jbuf_add_str(j, &buf, v.str);
        return whim_jbuf_take(j, &buf);
    }
    int64_t n = v.kind == WHIM_J_LIST ? v.list->n : v.kind == WHIM_J_DICT ? v.dict->n : 0;
    for (int64_t i = 0; i < n; i++) {
        if (v.kind == WHIM_J_LIST) {
            v.list->v[i] = own(j, v.list->v[i]);
        } else {
            v.dict->keys[i] = own(j, v.dict->keys[i]);
            v.dict->vals[i] = own(j, v.dict->vals[i]);
        }
    }
    return v;
}

whim_jval whim_jinja_from_json(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = whim_jarg_str(j, c->self, "what from_json reads");
    whim_diag why = {{0}};
    json_t *json;
    int64_t left = WHIM_JSON_VALUES;
    bool is_changed = false;
    const whim_json_limits limits = {.max_bytes = INT64_MAX,
                                     .max_depth = WHIM_JSON_DEPTH,
                                     .values_left = &left,
                                     .is_changed = &is_changed};
    whim_jinja_pay(j, str->n / 4);
    whim_err err = whim_json_read(&json, str->s, str->n, limits, &why);
    if (err != WHIM_ERR_OK) { /* a lack of memory is no fault of the text */
        whim_jinja_leave(j, err == WHIM_ERR_NO_MEMORY ? err : WHIM_ERR_INVALID, "from_json: %s",
                         why.text);
    }
    if (is_changed) {
        json_decref(json);
        whim_jinja_fail(j, "from_json: an integer is beyond 64 bits, or a number is not finite");
    }
    /* An error on the way must give the document back before it leaves for good. */
    jmp_buf outer;
    memcpy(&outer, &j->leave, sizeof outer);
    whim_jval v = {0};
    bool failed = setjmp(j->leave) != 0;
    if (!failed) {
        v = own(j, import(j, json, 0));
    }
    memcpy(&j->leave, &outer, sizeof outer);
    json_decref(json);
    if (failed) {
        longjmp(j->leave, 1);
    }
    return v;
}

typedef struct writer {
    whim_jinja *j;
    whim_jbuf buf;
    bool ascii, sorted;
    const whim_jstr *indent; /* NULL: all on one line */
    const whim_jstr *comma, *colon;
} writer;

static void put(writer *w, const char *text)
{
    whim_jbuf_add(w->j, &w->buf, text, (int64_t)strlen(text), false);
}

static void put_str(writer *w, const whim_jstr *str)
{
    whim_jbuf_add(w->j, &w->buf, str->s, str->n, false);
}

static void write_escape(writer *w, int32_t c)
{
    static const char letters[] = "\"\\\n\r\t\f\b", names[] = "\"\\nrtfb";
    const char *known = c > 0 && c < 128 ? strchr(letters, c) : NULL;
    char out[16] = {0};
    if (known != NULL) {
        snprintf(out, sizeof out, "\\%c", names[known - letters]);
    } else if (c < 0x20 || (w->ascii && c > '~' && c <= 0xffff)) {
        snprintf(out, sizeof out, "\\u%04x", (unsigned)c & 0xffff);
    } else if (w->ascii && c > '~') {
        unsigned rest = (unsigned)c - 0x10000;
        snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    } else {
        whim_jbuf_add_char(w->j, &w->buf, c, false);
    }
    put(w, out);
}

static void write_string(writer *w, const whim_jstr *str)
{
    whim_jinja_pay(w->j, str->n / 4);
    put(w, "\"");
    for (int64_t at = 0; at < str->n;) {
        write_escape(w, whim_jutf8_next(str->s, str->n, &at));
    }
    put(w, "\"");
}

static void write_scalar(writer *w, whim_jval v)
{
    char text[40];
    switch (v.kind) {
    case WHIM_J_NONE:
        put(w, "null");
        break;
    case WHIM_J_BOOL:
        put(w, v.b ? "true" : "false");
        break;
    case WHIM_J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        put(w, text);
        break;
    case WHIM_J_FLOAT:
        whim_jinja_pay(w->j, 8);
        whim_format_real(text, v.f);
        put(w, isnan(v.f) ? "NaN" : isinf(v.f) ? (v.f > 0 ? "Infinity" : "-Infinity") : text);
        break;
    default:
        whim_jinja_fail(w->j, "tojson cannot write a %s", whim_jval_type(v));
    }
}

static void new_line(writer *w, int32_t level)
{
    if (w->indent != NULL) {
        put(w, "\n");
        whim_jinja_pay(w->j, level / 4);
        for (int32_t i = 0; i < level; i++) {
            put_str(w, w->indent);
        }
    }
}

static void write_value(writer *w, whim_jval v, int32_t level);

static void write_key(writer *w, whim_jval key)
{
    if (key.kind == WHIM_J_STR) {
        write_string(w, key.str);
        return;
    }
    put(w, "\"");
    write_scalar(w, key);
    put(w, "\"");
}

/* The values of a list, or of a dict behind their keys. */
static void write_items(writer *w, const whim_jval *keys, const whim_jval *vals, int64_t n,
                        int32_t level)
{
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) {
            put_str(w, w->comma);
        }
        new_line(w, level + 1);
        if (keys != NULL) {
            write_key(w, keys[i]);
            put_str(w, w->colon);
        }
        write_value(w, vals[i], level + 1);
    }
    if (n > 0) {
        new_line(w, level);
    }
}

static void write_dict(writer *w, const whim_jdict *dict, int32_t level)
{
    whim_jdict copy = *dict;
    if (w->sorted && dict->n > 1) {
        copy.keys = whim_jinja_alloc_array(w->j, dict->n, sizeof *copy.keys);
        copy.vals = whim_jinja_alloc_array(w->j, dict->n, sizeof *copy.vals);
        memcpy(copy.keys, dict->keys, (size_t)dict->n * sizeof *copy.keys);
        memcpy(copy.vals, dict->vals, (size_t)dict->n * sizeof *copy.vals);
        whim_jlib_sort(w->j, copy.vals, copy.keys, copy.n, false);
    }
    put(w, "{");
    write_items(w, copy.keys, copy.vals, copy.n, level);
    put(w, "}");
}

static void write_value(writer *w, whim_jval v, int32_t level)
{
    whim_jinja_enter(w->j);
    if (v.kind == WHIM_J_STR) {
        write_string(w, v.str);
    } else if (v.kind == WHIM_J_DICT) {
        write_dict(w, v.dict, level);
    } else if (v.kind == WHIM_J_LIST && v.list->kind <= WHIM_JL_TUPLE) {
        put(w, "[");
        write_items(w, NULL, v.list->v, v.list->n, level);
        put(w, "]");
    } else {
        write_scalar(w, v);
    }
    w->j->depth--;
}

static void set_separators(writer *w, whim_jval pair)
{
    static const whim_jstr comma_space = {.s = ", ", .n = 2}, comma = {.s = ",", .n = 1};
    static const whim_jstr colon = {.s = ": ", .n = 2};
    w->comma = w->indent == NULL ? &comma_space : &comma;
    w->colon = &colon;
    if (whim_jarg_given(pair)) {
        const whim_jlist *two = whim_jval_iterate(w->j, pair);
        if (two->n != 2) {
            whim_jinja_fail(w->j, "tojson wants two separators");
        }
        w->comma = whim_jarg_str(w->j, two->v[0], "a separator");
        w->colon = whim_jarg_str(w->j, two->v[1], "a separator");
    }
}

whim_jval whim_jinja_tojson(whim_jinja *j, const whim_jcall *c)
{
    writer w = {.j = j, .ascii = whim_jval_truth(c->a[0]), .sorted = whim_jval_truth(c->a[3])};
    if (c->a[1].kind == WHIM_J_STR) {
        w.indent = c->a[1].str;
    } else if (whim_jarg_given(c->a[1])) {
        int64_t width = whim_jarg_int(j, c->a[1], 0, "the indent");
        w.indent =
            whim_jinja_binary(j, '*', whim_jval_str(j, " ", 1, true), whim_jval_int(width, true))
                .str;
    }
    set_separators(&w, c->a[2]);
    write_value(&w, c->self, 0);
    return whim_jbuf_take(j, &w.buf);
}
