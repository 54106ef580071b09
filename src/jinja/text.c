/* SPDX-License-Identifier: Apache-2.0 */
/* Texts with the trust of every byte: building, searching, stripping, changing case. */
#include "jinja/value.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

int32_t whim_jutf8_next(const char *s, int64_t n, int64_t *at)
{
    int32_t used, c;
    if (whim_utf8_next(s + *at, n - *at, &used, &c) != WHIM_UTF8_WHOLE) {
        c = (int32_t)(uint8_t)s[*at] - 256;
        used = 1;
    }
    *at += used;
    return c;
}

int whim_jutf8_put(char out[4], int32_t codepoint)
{
    if (codepoint < 0) {
        out[0] = (char)(codepoint + 256);
        return 1;
    }
    return whim_utf8_encode(codepoint, out);
}

bool whim_jchar_is_space(int32_t c)
{
    return whim_char_is_space(c) || (c >= 28 && c < 32);
}

bool whim_jchar_is_word(int32_t c)
{
    utf8proc_category_t cat = utf8proc_category(c < 0 ? 0 : c);
    return c == '_' || (cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO) ||
           (cat >= UTF8PROC_CATEGORY_ND && cat <= UTF8PROC_CATEGORY_NO);
}

static void buf_reserve(whim_jinja *j, whim_jbuf *buf, int64_t more)
{
    if (more > WHIM_JINJA_OUTPUT - buf->n) {
        whim_jinja_exceed(j, "the template makes a text of more than %d MiB",
                          (int)(WHIM_JINJA_OUTPUT >> 20));
    }
    int64_t cap = buf->cap;
    whim_jinja_grow(j, &buf->s, buf->n, &cap, buf->n + more, 1);
    whim_jinja_grow(j, &buf->mask, buf->n, &buf->cap, buf->n + more, 1);
}

void whim_jbuf_add(whim_jinja *j, whim_jbuf *buf, const char *s, int64_t n, bool trusted)
{
    if (n <= 0) {
        return;
    }
    whim_jinja_pay(j, n / 64);
    buf_reserve(j, buf, n);
    memcpy(buf->s + buf->n, s, (size_t)n);
    memset(buf->mask + buf->n, trusted, (size_t)n);
    buf->n += n;
}

void whim_jbuf_add_str(whim_jinja *j, whim_jbuf *buf, const whim_jstr *str)
{
    whim_jbuf_add(j, buf, str->s, str->n, str->trusted);
    if (str->mask != NULL && str->n > 0) {
        memcpy(buf->mask + buf->n - str->n, str->mask, (size_t)str->n);
    }
}

void whim_jbuf_add_char(whim_jinja *j, whim_jbuf *buf, int32_t codepoint, bool trusted)
{
    char out[4];
    whim_jbuf_add(j, buf, out, whim_jutf8_put(out, codepoint), trusted);
}

whim_jval whim_jbuf_take(whim_jinja *j, whim_jbuf *buf)
{
    whim_jstr *str = whim_jinja_alloc(j, sizeof *str);
    *str = (whim_jstr){.s = buf->s, .n = buf->n, .mask = buf->mask, .trusted = true};
    if (buf->n == 0) {
        str->s = "";
        str->mask = NULL;
    } else if (memchr(buf->mask, !buf->mask[0], (size_t)buf->n) == NULL) {
        str->trusted = buf->mask[0];
        str->mask = NULL;
    }
    *buf = (whim_jbuf){0};
    return (whim_jval){.kind = WHIM_J_STR, .str = str};
}

whim_jval whim_jstr_safe(whim_jinja *j, const whim_jstr *str)
{
    whim_jstr *safe = whim_jinja_alloc(j, sizeof *safe);
    *safe = *str;
    safe->safe = true;
    return (whim_jval){.kind = WHIM_J_STR, .str = safe};
}

whim_jval whim_jstr_escape(whim_jinja *j, const whim_jstr *str)
{
    static const struct {
        char c;
        const char *text;
    } names[] = {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    whim_jbuf buf = {0};
    if (str->safe) {
        return (whim_jval){.kind = WHIM_J_STR, .str = str};
    }
    whim_jinja_pay(j, str->n / 4);
    for (int64_t i = 0; i < str->n; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            text = str->s[i] == names[k].c ? names[k].text : text;
        }
        bool trusted = whim_jstr_trust(str, i, i + 1);
        whim_jbuf_add(j, &buf, text != NULL ? text : str->s + i,
                      text != NULL ? (int64_t)strlen(text) : 1, trusted);
    }
    return whim_jstr_safe(j, whim_jbuf_take(j, &buf).str);
}

bool whim_jstr_trust(const whim_jstr *str, int64_t from, int64_t to)
{
    if (from >= to) {
        return true; /* nothing is there that could be forged */
    }
    return str->mask == NULL ? str->trusted
                             : memchr(str->mask + from, 0, (size_t)(to - from)) == NULL;
}

bool whim_jstr_is(const whim_jstr *str, const char *word)
{
    return (int64_t)strlen(word) == str->n && memcmp(str->s, word, (size_t)str->n) == 0;
}

/* What memmem takes for each byte that it looks at depends on the needle up to this length. */
enum { SHORT_NEEDLE = 256 };

/* In windows that grow: a needle that is found soon costs little however long the text is, which is
 * often cut at each line or each space. */
int64_t whim_jstr_find(whim_jinja *j, const whim_jstr *hay, const whim_jstr *needle, int64_t from)
{
    if (needle->n == 0) {
        return from <= hay->n ? from : -1;
    }
    const int64_t hard = needle->n < SHORT_NEEDLE ? needle->n : SHORT_NEEDLE;
    int64_t window = 128 + needle->n;
    while (from <= hay->n - needle->n) {
        int64_t n = window < hay->n - from ? window : hay->n - from;
        whim_jinja_pay(j, 1 + n / 64 * (1 + hard / 32));
        const char *at = memmem(hay->s + from, (size_t)n, needle->s, (size_t)needle->n);
        if (at != NULL) {
            return at - hay->s;
        }
        from += n - needle->n + 1;
        window *= 2;
    }
    return -1;
}

int64_t whim_jstr_find_last(whim_jinja *j, const whim_jstr *hay, const whim_jstr *needle,
                            int64_t end)
{
    for (int64_t at = end - needle->n; at >= 0; at--) {
        if ((at & 7) == 0) {
            whim_jinja_pay(j, 1);
        }
        if (needle->n == 0) {
            return at;
        }
        if (hay->s[at] == needle->s[0]) {
            whim_jinja_pay(j, needle->n / 64);
            if (memcmp(hay->s + at, needle->s, (size_t)needle->n) == 0) {
                return at;
            }
        }
    }
    return -1;
}

int64_t whim_jstr_chars(whim_jinja *j, const whim_jstr *str)
{
    int64_t chars = 0;
    whim_jinja_pay(j, str->n / 64);
    for (int64_t i = 0; i < str->n; i++) {
        chars += ((uint8_t)str->s[i] & 0xc0) != 0x80;
    }
    return chars;
}

int64_t whim_jstr_offset(whim_jinja *j, const whim_jstr *str, int64_t chars)
{
    int64_t i = 0;
    whim_jinja_pay(j, (chars < str->n ? chars : str->n) / 16);
    for (; i < str->n; i++) {
        if (((uint8_t)str->s[i] & 0xc0) != 0x80 && chars-- == 0) {
            break;
        }
    }
    return i;
}

static bool in_set(int32_t c, const whim_jstr *set)
{
    if (set == NULL) {
        return whim_jchar_is_space(c);
    }
    for (int64_t at = 0; at < set->n;) {
        if (whim_jutf8_next(set->s, set->n, &at) == c) {
            return true;
        }
    }
    return false;
}

whim_jval whim_jstr_strip(whim_jinja *j, const whim_jstr *str, const whim_jstr *set, bool left,
                          bool right)
{
    int64_t from = 0, to = str->n;
    const int64_t cost = set == NULL ? 1 : 1 + set->n / 8; /* of a character */
    while (left && from < to) {
        int64_t at = from;
        whim_jinja_pay(j, cost);
        if (!in_set(whim_jutf8_next(str->s, to, &at), set)) {
            break;
        }
        from = at;
    }
    while (right && to > from) {
        int64_t last = to - 1;
        whim_jinja_pay(j, cost);
        while (last > from && ((uint8_t)str->s[last] & 0xc0) == 0x80) {
            last--;
        }
        int64_t at = last;
        if (!in_set(whim_jutf8_next(str->s, to, &at), set)) {
            break;
        }
        to = last;
    }
    return whim_jval_slice(j, str, from, to);
}

bool whim_jstr_has_case(whim_jinja *j, const whim_jstr *str, bool upper)
{
    bool any = false;
    whim_jinja_pay(j, str->n / 8);
    for (int64_t at = 0; at < str->n;) {
        int32_t c = whim_jutf8_next(str->s, str->n, &at);
        bool is_upper = c >= 0 && utf8proc_tolower(c) != c;
        bool is_lower = c >= 0 && utf8proc_toupper(c) != c;
        if (upper ? is_lower : is_upper) {
            return false;
        }
        any |= is_upper || is_lower;
    }
    return any;
}

static bool is_cased(int32_t c)
{
    utf8proc_category_t cat = utf8proc_category(c);
    return cat == UTF8PROC_CATEGORY_LU || cat == UTF8PROC_CATEGORY_LL ||
           cat == UTF8PROC_CATEGORY_LT;
}

/* What separates words: for the filter `title` (mode 'T') dashes, brackets and space, else all but
 * letters, as in Python. */
static bool starts_word(int32_t before, int mode)
{
    if (mode == 'T') {
        return before == -1 || whim_jchar_is_space(before) ||
               (before > 0 && before < 128 && strchr("-({[<", before) != NULL);
    }
    return before == -1 || !is_cased(before);
}

static void add_upper(whim_jinja *j, whim_jbuf *buf, int32_t c, bool trusted)
{
    if (c == 0xdf) { /* the one common letter whose capital is two */
        whim_jbuf_add(j, buf, "SS", 2, trusted);
    } else {
        whim_jbuf_add_char(j, buf, c < 0 ? c : utf8proc_toupper(c), trusted);
    }
}

whim_jval whim_jstr_case(whim_jinja *j, const whim_jstr *str, int mode)
{
    whim_jbuf buf = {0};
    whim_jinja_pay(j, str->n / 4);
    int32_t before = -1;
    for (int64_t at = 0, from = 0; at < str->n; from = at) {
        int32_t c = whim_jutf8_next(str->s, str->n, &at);
        bool trusted = whim_jstr_trust(str, from, at);
        bool upper = mode == 'u' || (mode == 'c' && from == 0) ||
                     ((mode == 't' || mode == 'T') && starts_word(before, mode)) ||
                     (mode == 's' && c > 0 && utf8proc_tolower(c) == c);
        if (upper) {
            add_upper(j, &buf, c, trusted);
        } else {
            whim_jbuf_add_char(j, &buf, c < 0 ? c : utf8proc_tolower(c), trusted);
        }
        before = c < 0 ? 0 : c;
    }
    return whim_jbuf_take(j, &buf);
}
