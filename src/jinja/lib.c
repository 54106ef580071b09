/* SPDX-License-Identifier: Apache-2.0 */
/* What filters and methods share. */
#include "jinja/eval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

whim_jval whim_jlib_replace(whim_jinja *j, const whim_jstr *str, const whim_jstr *old,
                            const whim_jstr *with, int64_t count)
{
    whim_jbuf buf = {0};
    int64_t from = 0, at = 0;
    while (count != 0 && (at = whim_jstr_find(j, str, old, at)) >= 0) {
        whim_jinja_pay(j, 1);
        whim_jbuf_add_str(j, &buf, whim_jval_slice(j, str, from, at).str);
        whim_jbuf_add_str(j, &buf, with);
        from = at;
        at += old->n;
        if (old->n == 0) { /* between all characters */
            if (at == str->n) {
                break;
            }
            (void)whim_jutf8_next(str->s, str->n, &at);
        } else {
            from = at;
        }
        count -= count > 0;
    }
    whim_jbuf_add_str(j, &buf, whim_jval_slice(j, str, from, str->n).str);
    return whim_jbuf_take(j, &buf);
}

static bool ends_line(int32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

whim_jval whim_jlib_splitlines(whim_jinja *j, const whim_jstr *str, bool keep_ends)
{
    whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
    int64_t from = 0;
    whim_jinja_pay(j, str->n / 8);
    for (int64_t at = 0; at < str->n;) {
        int64_t end = at;
        int32_t c = whim_jutf8_next(str->s, str->n, &at);
        if (!ends_line(c)) {
            continue;
        }
        whim_jinja_pay(j, 1);
        if (c == '\r' && at < str->n && str->s[at] == '\n') {
            at++;
        }
        whim_jlist_push(j, out.list, whim_jval_slice(j, str, from, keep_ends ? at : end));
        from = at;
    }
    if (from < str->n) {
        whim_jlist_push(j, out.list, whim_jval_slice(j, str, from, str->n));
    }
    return out;
}

static void reverse_list(whim_jlist *list)
{
    for (int64_t i = 0, k = list->n - 1; i < k; i++, k--) {
        whim_jval v = list->v[i];
        list->v[i] = list->v[k];
        list->v[k] = v;
    }
}

static void split_space(whim_jinja *j, const whim_jstr *str, int64_t max, whim_jlist *out)
{
    for (int64_t at = 0; at < str->n;) {
        int64_t next = at;
        if (whim_jchar_is_space(whim_jutf8_next(str->s, str->n, &next))) {
            at = next;
            continue;
        }
        if (max >= 0 && out->n >= max) {
            whim_jlist_push(j, out, whim_jval_slice(j, str, at, str->n));
            return;
        }
        int64_t from = at;
        whim_jinja_pay(j, 1);
        do {
            at = next;
        } while (at < str->n && !whim_jchar_is_space(whim_jutf8_next(str->s, str->n, &next)));
        whim_jlist_push(j, out, whim_jval_slice(j, str, from, at));
    }
}

/* The last `max` words; what stands before them is the first item. */
static void split_space_right(whim_jinja *j, const whim_jstr *str, int64_t max, whim_jlist *out)
{
    whim_jlist words = {0};
    split_space(j, str, -1, &words);
    int64_t first = max >= 0 && words.n > max ? words.n - max : 0;
    if (first > 0) {
        const whim_jstr *last = words.v[first - 1].str;
        whim_jlist_push(j, out, whim_jval_slice(j, str, 0, last->s + last->n - str->s));
    }
    for (int64_t i = first; i < words.n; i++) {
        whim_jlist_push(j, out, words.v[i]);
    }
}

whim_jval whim_jlib_split(whim_jinja *j, const whim_jstr *str, const whim_jstr *sep, int64_t max,
                          bool from_right)
{
    whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
    if (sep == NULL) {
        whim_jinja_pay(j, str->n / 8);
        (from_right ? split_space_right : split_space)(j, str, max, out.list);
        return out;
    }
    if (sep->n == 0) {
        whim_jinja_fail(j, "the separator of split must not be empty");
    }
    int64_t from = 0, to = str->n, at = 0;
    while (max < 0 || out.list->n < max) {
        at = from_right ? whim_jstr_find_last(j, str, sep, to) : whim_jstr_find(j, str, sep, from);
        if (at < 0) {
            break;
        }
        whim_jinja_pay(j, 1);
        if (from_right) {
            whim_jlist_push(j, out.list, whim_jval_slice(j, str, at + sep->n, to));
            to = at;
        } else {
            whim_jlist_push(j, out.list, whim_jval_slice(j, str, from, at));
            from = at + sep->n;
        }
    }
    whim_jlist_push(j, out.list, whim_jval_slice(j, str, from, to));
    if (from_right) {
        reverse_list(out.list);
    }
    return out;
}

whim_jval whim_jlib_pad(whim_jinja *j, const whim_jstr *str, int64_t width, int32_t fill,
                        char align)
{
    int64_t missing = width - whim_jstr_chars(j, str);
    if (missing <= 0) {
        return (whim_jval){.kind = WHIM_J_STR, .str = str};
    }
    /* Python's str.center puts the odd one on the left when the width is odd; '^' of format not. */
    int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
    left += align == 'c' && (missing & width & 1) != 0;
    bool trusted = whim_jval_trusted(j, (whim_jval){.kind = WHIM_J_STR, .str = str});
    whim_jbuf buf = {0};
    for (int64_t i = 0; i < missing; i++) {
        if (i == left) {
            whim_jbuf_add_str(j, &buf, str);
        }
        whim_jinja_pay(j, 1);
        whim_jbuf_add_char(j, &buf, fill, trusted);
    }
    if (left == missing) {
        whim_jbuf_add_str(j, &buf, str);
    }
    return whim_jbuf_take(j, &buf);
}

whim_jval whim_jlib_join(whim_jinja *j, const whim_jstr *sep, const whim_jlist *items)
{
    whim_jbuf buf = {0};
    for (int64_t i = 0; i < items->n; i++) {
        whim_jinja_pay(j, 1);
        if (i > 0) {
            whim_jbuf_add_str(j, &buf, sep);
        }
        whim_jbuf_print(j, &buf, items->v[i]);
    }
    return whim_jbuf_take(j, &buf);
}

void whim_jlib_sort(whim_jinja *j, whim_jval *items, whim_jval *keys, int64_t n, bool reverse)
{
    int64_t *order = whim_jinja_alloc_array(j, n, sizeof *order);
    int64_t *other = whim_jinja_alloc_array(j, n, sizeof *other);
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t mid = low + width < n ? low + width : n,
                    high = mid + width < n ? mid + width : n;
            int64_t a = low, b = mid;
            for (int64_t k = low; k < high; k++) {
                bool right = a >= mid;
                if (a < mid && b < high) {
                    whim_jinja_pay(j, 1);
                    int c = whim_jval_order(j, keys[order[b]], keys[order[a]]);
                    right = reverse ? c > 0 : c < 0;
                }
                other[k] = right ? order[b++] : order[a++];
            }
        }
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    whim_jval *sorted = whim_jinja_alloc_array(j, 2 * n, sizeof *sorted);
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = items[order[i]];
        sorted[n + i] = keys[order[i]];
    }
    for (int64_t i = 0; i < n; i++) {
        items[i] = sorted[i];
        keys[i] = sorted[n + i];
    }
}

/* The text without white space around and underscores between digits; false: too long or odd. */
static bool plain_number(whim_jinja *j, const whim_jstr *str, char out[128])
{
    int64_t from = 0, to = str->n, n = 0;
    whim_jinja_pay(j, 1 + str->n / 8);
    while (from < to && whim_jchar_is_space((uint8_t)str->s[from])) {
        from++;
    }
    while (to > from && whim_jchar_is_space((uint8_t)str->s[to - 1])) {
        to--;
    }
    if (to == from || to - from > 120) {
        return false;
    }
    for (int64_t i = from; i < to; i++) {
        bool between = i > from && i + 1 < to && str->s[i - 1] != '_' && str->s[i + 1] != '_';
        if (str->s[i] == '_' && between) {
            continue;
        }
        if (str->s[i] == '\0' || strchr("_ ()", str->s[i]) != NULL) {
            return false;
        }
        out[n++] = str->s[i];
    }
    out[n] = '\0';
    return true;
}

bool whim_jlib_parse_int(whim_jinja *j, const whim_jstr *str, int base, int64_t *out)
{
    char text[128], *end;
    if (!plain_number(j, str, text)) {
        return false;
    }
    errno = 0;
    *out = strtoll(text, &end, base);
    return *end == '\0' && end != text && errno == 0;
}

bool whim_jlib_parse_float(whim_jinja *j, const whim_jstr *str, double *out)
{
    char text[128], *end;
    if (!plain_number(j, str, text) || strpbrk(text, "xXpP") != NULL) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0' && end != text;
}
