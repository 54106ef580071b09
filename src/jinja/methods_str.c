/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings. */
#include "jinja/eval.h"

#include <string.h>
#include <utf8proc.h>

static whim_jval str_case(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, c->mode);
}

/* Whether all characters are letters ('a'), decimal digits ('d'), either ('n') or white space
 * ('s'). */
static whim_jval str_all_are(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = c->self.str;
    bool all = str->n > 0;
    whim_jinja_pay(j, str->n / 8);
    for (int64_t at = 0; at < str->n && all;) {
        int32_t ch = whim_jutf8_next(str->s, str->n, &at);
        utf8proc_category_t cat = utf8proc_category(ch < 0 ? 0 : ch);
        bool letter = cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
        all = c->mode == 's'
                  ? whim_jchar_is_space(ch)
                  : (letter && c->mode != 'd') || (cat == UTF8PROC_CATEGORY_ND && c->mode != 'a');
    }
    return whim_jval_bool(all, false);
}

static whim_jval str_has_case(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(whim_jstr_has_case(j, c->self.str, c->mode == 'u'), false);
}

static whim_jval str_pad(whim_jinja *j, const whim_jcall *c)
{
    int32_t fill = ' ';
    if (c->a[1].kind != WHIM_J_MISSING) {
        const whim_jstr *str = whim_jarg_str(j, c->a[1], "the fill character");
        int64_t at = 0;
        fill = str->n == 0 ? ' ' : whim_jutf8_next(str->s, str->n, &at);
        if (at != str->n || str->n == 0) {
            whim_jinja_fail(j, "the fill must be one character");
        }
    }
    int64_t width = whim_jarg_int(j, c->a[0], 0, "the width");
    return whim_jlib_pad(j, c->self.str, width, fill, (char)c->mode);
}

static whim_jval str_zfill(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = c->self.str;
    int64_t sign = str->n > 0 && (str->s[0] == '-' || str->s[0] == '+');
    int64_t width = whim_jarg_int(j, c->a[0], 0, "the width");
    whim_jval digits =
        whim_jlib_pad(j, whim_jval_slice(j, str, sign, str->n).str, width - sign, '0', '>');
    return whim_jinja_binary(j, '+', whim_jval_slice(j, str, 0, sign), digits);
}

/* The part of the text that start and end (arguments 1 and 2) leave. */
static const whim_jstr *part_of(whim_jinja *j, const whim_jcall *c)
{
    if (c->a[1].kind == WHIM_J_MISSING && c->a[2].kind == WHIM_J_MISSING) {
        return c->self.str;
    }
    return whim_jinja_slice(j, c->self, c->a[1], c->a[2], whim_jval_int(1, true)).str;
}

static bool edge_is(whim_jinja *j, const whim_jstr *str, const whim_jstr *word, bool at_end)
{
    whim_jinja_pay(j, word->n <= str->n ? word->n / 64 : 0);
    return word->n <= str->n &&
           memcmp(str->s + (at_end ? str->n - word->n : 0), word->s, (size_t)word->n) == 0;
}

/* startswith, and endswith ('e'). */
static whim_jval str_edge(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = part_of(j, c);
    whim_jval edge = c->a[0];
    if (edge.kind != WHIM_J_LIST || edge.list->kind != WHIM_JL_TUPLE) {
        const whim_jstr *word = whim_jarg_str(j, edge, "what a string starts or ends with");
        return whim_jval_bool(edge_is(j, str, word, c->mode == 'e'), false);
    }
    bool found = false;
    whim_jinja_pay(j, edge.list->n / 8);
    for (int64_t i = 0; i < edge.list->n && !found; i++) {
        const whim_jstr *word = whim_jarg_str(j, edge.list->v[i], "an item of the tuple");
        found = edge_is(j, str, word, c->mode == 'e');
    }
    return whim_jval_bool(found, false);
}

/* From the right: 'r'. */
static whim_jval str_split(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *sep = whim_jarg_opt_str(j, c->a[0], "the separator");
    int64_t max = whim_jarg_int(j, c->a[1], -1, "maxsplit");
    return whim_jlib_split(j, c->self.str, sep, max, c->mode == 'r');
}

static whim_jval str_splitlines(whim_jinja *j, const whim_jcall *c)
{
    return whim_jlib_splitlines(j, c->self.str, whim_jval_truth(c->a[0]));
}

static whim_jval str_partition(whim_jinja *j, const whim_jcall *c)
{
    bool from_right = c->mode == 'r';
    const whim_jstr *sep = whim_jarg_str(j, c->a[0], "the separator");
    const whim_jlist *parts = whim_jlib_split(j, c->self.str, sep, 1, from_right).list;
    whim_jval out = whim_jval_list(j, WHIM_JL_TUPLE), empty = whim_jval_str(j, "", 0, true);
    bool found = parts->n == 2;
    whim_jlist_push(j, out.list, found || !from_right ? parts->v[0] : empty);
    whim_jlist_push(j, out.list, found ? c->a[0] : empty);
    whim_jlist_push(j, out.list, found ? parts->v[1] : from_right ? parts->v[0] : empty);
    return out;
}

/* On the left, on the right, or both: 'l', 'r', 'b'. */
static whim_jval str_strip(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *set = whim_jarg_opt_str(j, c->a[0], "what is stripped");
    return whim_jstr_strip(j, c->self.str, set, c->mode != 'r', c->mode != 'l');
}

static whim_jval str_replace(whim_jinja *j, const whim_jcall *c)
{
    return whim_jlib_replace(j, c->self.str, whim_jarg_str(j, c->a[0], "what is replaced"),
                             whim_jarg_str(j, c->a[1], "the replacement"),
                             whim_jarg_int(j, c->a[2], -1, "the count"));
}

/* removeprefix, and removesuffix ('e'). */
static whim_jval str_remove(whim_jinja *j, const whim_jcall *c)
{
    bool at_end = c->mode == 'e';
    const whim_jstr *str = c->self.str;
    const whim_jstr *word = whim_jarg_str(j, c->a[0], at_end ? "the suffix" : "the prefix");
    return !edge_is(j, str, word, at_end) ? c->self
           : at_end                       ? whim_jval_slice(j, str, 0, str->n - word->n)
                                          : whim_jval_slice(j, str, word->n, str->n);
}

static whim_jval str_join(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->a[0]);
    whim_jinja_pay(j, items->n / 8);
    for (int64_t i = 0; i < items->n; i++) {
        (void)whim_jarg_str(j, items->v[i], "an item to be joined");
    }
    return whim_jlib_join(j, c->self.str, items);
}

static whim_jval str_format(whim_jinja *j, const whim_jcall *c)
{
    return whim_jinja_braces(j, c->self.str, c->raw);
}

/* The character where the needle is first, or last (LAST), or -1 unless it must be there (MUST). */
enum { LAST = 1, MUST = 2 };

static whim_jval str_find(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *needle = whim_jarg_str(j, c->a[0], "what is looked for");
    const whim_jstr *str = part_of(j, c);
    int64_t found = (c->mode & LAST) != 0 ? whim_jstr_find_last(j, str, needle, str->n)
                                          : whim_jstr_find(j, str, needle, 0);
    if (found < 0 && (c->mode & MUST) != 0) {
        whim_jinja_fail(j, "the text that index looks for is not there");
    }
    const whim_jstr before = {.s = c->self.str->s, .n = str->s + found - c->self.str->s};
    return whim_jval_int(found < 0 ? -1 : whim_jstr_chars(j, &before), false);
}

static whim_jval str_count(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *needle = whim_jarg_str(j, c->a[0], "what is counted");
    const whim_jstr *str = part_of(j, c);
    if (needle->n == 0) {
        return whim_jval_int(whim_jstr_chars(j, str) + 1, false);
    }
    int64_t count = 0;
    for (int64_t at = 0; (at = whim_jstr_find(j, str, needle, at)) >= 0; at += needle->n) {
        count++;
    }
    return whim_jval_int(count, false);
}

const whim_jentry whim_jmethods_str[] = {
    {"startswith", "prefix start end", 1, str_edge, 'b'},
    {"endswith", "suffix start end", 1, str_edge, 'e'},
    {"split", "sep maxsplit", 0, str_split, 'l'},
    {"rsplit", "sep maxsplit", 0, str_split, 'r'},
    {"splitlines", "keepends", 0, str_splitlines, 0},
    {"partition", "sep", 1, str_partition, 'l'},
    {"rpartition", "sep", 1, str_partition, 'r'},
    {"strip", "chars", 0, str_strip, 'b'},
    {"lstrip", "chars", 0, str_strip, 'l'},
    {"rstrip", "chars", 0, str_strip, 'r'},
    {"replace", "old new count", 2, str_replace, 0},
    {"removeprefix", "prefix", 1, str_remove, 'b'},
    {"removesuffix", "suffix", 1, str_remove, 'e'},
    {"join", "iterable", 1, str_join, 0},
    {"format", NULL, 0, str_format, 0},
    {"find", "sub start end", 1, str_find, 0},
    {"rfind", "sub start end", 1, str_find, LAST},
    {"index", "sub start end", 1, str_find, MUST},
    {"rindex", "sub start end", 1, str_find, MUST | LAST},
    {"count", "sub start end", 1, str_count, 0},
    {"upper", "", 0, str_case, 'u'},
    {"lower casefold", "", 0, str_case, 'l'},
    {"capitalize", "", 0, str_case, 'c'},
    {"title", "", 0, str_case, 't'},
    {"swapcase", "", 0, str_case, 's'},
    {"isalpha", "", 0, str_all_are, 'a'},
    {"isdigit isdecimal isnumeric", "", 0, str_all_are, 'd'},
    {"isalnum", "", 0, str_all_are, 'n'},
    {"isspace", "", 0, str_all_are, 's'},
    {"isupper", "", 0, str_has_case, 'u'},
    {"islower", "", 0, str_has_case, 'l'},
    {"ljust", "width fillchar", 1, str_pad, '<'},
    {"rjust", "width fillchar", 1, str_pad, '>'},
    {"center", "width fillchar", 1, str_pad, 'c'},
    {"zfill", "width", 1, str_zfill, 0},
    {NULL, NULL, 0, NULL, 0},
};
