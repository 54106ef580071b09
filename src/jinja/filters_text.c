/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on texts and numbers. */
#include "jinja/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const whim_jstr *text_of(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_to_str(j, c->self);
}

static whim_jval filter_abs(whim_jinja *j, const whim_jcall *c)
{
    if (!whim_jval_is_number(c->self)) {
        whim_jinja_fail(j, "abs wants a number, not a %s", whim_jval_type(c->self));
    }
    whim_jval zero = whim_jval_int(0, true);
    return whim_jinja_negate(j, whim_jinja_compare(j, '<', c->self, zero) ? '-' : '+', c->self);
}

static whim_jval filter_attr(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *name = whim_jarg_str(j, c->a[0], "the name of an attribute");
    if (c->self.kind == WHIM_J_DICT && whim_jentry_find(whim_jmethods_dict, name) == NULL) {
        return whim_jval_undef(j, name->s, name->n); /* attr looks at no keys */
    }
    return whim_jinja_attr(j, c->self, name);
}

static whim_jval filter_case(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, text_of(j, c), c->mode);
}

static whim_jval filter_center(whim_jinja *j, const whim_jcall *c)
{
    return whim_jlib_pad(j, text_of(j, c), whim_jarg_int(j, c->a[0], 80, "the width"), ' ', 'c');
}

static whim_jval filter_default(whim_jinja *j, const whim_jcall *c)
{
    bool replaced =
        c->self.kind == WHIM_J_UNDEF || (whim_jval_truth(c->a[1]) && !whim_jval_truth(c->self));
    if (!replaced) {
        return c->self;
    }
    return whim_jarg_or(c->a[0], whim_jval_str(j, "", 0, true));
}

static whim_jval filter_escape(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_escape(j, text_of(j, c));
}

static whim_jval filter_float(whim_jinja *j, const whim_jcall *c)
{
    double f = 0;
    int64_t i;
    if (c->self.kind == WHIM_J_UNDEF) {
        whim_jinja_fail(j, "float wants a value, found something undefined");
    }
    if (whim_jval_is_number(c->self)) {
        (void)whim_jval_as_number(c->self, &i, &f);
        return whim_jval_float(f, c->self.trusted);
    }
    if (c->self.kind == WHIM_J_STR && whim_jlib_parse_float(j, c->self.str, &f)) {
        return whim_jval_float(f, whim_jval_trusted(j, c->self));
    }
    return whim_jarg_or(c->a[0], whim_jval_float(0, true));
}

static whim_jval filter_int(whim_jinja *j, const whim_jcall *c)
{
    int64_t base = whim_jarg_int(j, c->a[1], 10, "the base"), i = 0;
    double f = 0;
    bool trusted = whim_jval_trusted(j, c->self), good = false;
    if (c->self.kind == WHIM_J_UNDEF || base < 0 || base > 36 || base == 1) {
        whim_jinja_fail(j, "int wants a value and a base from 2 to 36");
    }
    if (whim_jval_is_number(c->self)) {
        if (whim_jval_as_number(c->self, &i, &f)) {
            return whim_jval_int(i, trusted);
        }
        good = true;
    } else if (c->self.kind == WHIM_J_STR) {
        if (whim_jlib_parse_int(j, c->self.str, (int)base, &i)) {
            return whim_jval_int(i, trusted);
        }
        good = whim_jlib_parse_float(j, c->self.str, &f) && isfinite(f);
    }
    if (good) {
        if (!(fabs(f) < 9.2e18)) {
            whim_jinja_fail(j, "the number does not fit into 64 bits");
        }
        return whim_jval_int((int64_t)f, trusted);
    }
    return whim_jarg_or(c->a[0], whim_jval_int(0, true));
}

static whim_jval filter_format(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *format = text_of(j, c);
    if (c->raw->named.n > 0) {
        if (c->raw->pos.n > 0) {
            whim_jinja_fail(j, "format takes either positional or named arguments");
        }
        whim_jval dict = whim_jval_dict(j, WHIM_J_DICT);
        *dict.dict = c->raw->named;
        return whim_jinja_percent(j, format, dict);
    }
    whim_jval tuple = whim_jval_list(j, WHIM_JL_TUPLE);
    whim_jlist_extend(j, tuple.list, &c->raw->pos);
    return whim_jinja_percent(j, format, tuple);
}

static whim_jval filter_indent(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = whim_jarg_str(j, c->self, "what indent works on");
    whim_jval width =
        c->a[0].kind == WHIM_J_STR
            ? c->a[0]
            : whim_jinja_binary(j, '*', whim_jval_str(j, " ", 1, true),
                                whim_jval_int(whim_jarg_int(j, c->a[0], 4, "the width"), true));
    bool blank = whim_jval_truth(c->a[2]), trusted = whim_jval_trusted(j, c->self);
    whim_jbuf buf = {0};
    whim_jbuf_add_str(j, &buf, str);
    whim_jbuf_add(j, &buf, "\n", 1, true);
    const whim_jlist *lines = whim_jlib_splitlines(j, whim_jbuf_take(j, &buf).str, false).list;
    for (int64_t i = 0; i < lines->n; i++) {
        whim_jinja_pay(j, 1);
        if (i > 0) {
            whim_jbuf_add(j, &buf, "\n", 1, trusted);
        }
        if (i == 0 ? whim_jval_truth(c->a[1]) : blank || lines->v[i].str->n > 0) {
            whim_jbuf_add_str(j, &buf, width.str);
        }
        whim_jbuf_add_str(j, &buf, lines->v[i].str);
    }
    return whim_jbuf_take(j, &buf);
}

static whim_jval filter_length(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_int(whim_jval_length(j, c->self), whim_jval_trusted(j, c->self));
}

static whim_jval filter_replace(whim_jinja *j, const whim_jcall *c)
{
    int64_t count = c->a[2].kind == WHIM_J_NONE ? -1 : whim_jarg_int(j, c->a[2], -1, "the count");
    return whim_jlib_replace(j, text_of(j, c), whim_jval_to_str(j, c->a[0]),
                             whim_jval_to_str(j, c->a[1]), count);
}

static double round_to(double f, int64_t digits, char method)
{
    if (method == 'c' && digits >= 0 && isfinite(f)) {
        char text[400]; /* printf rounds the exact value, as Python does */
        snprintf(text, sizeof text, "%.*f", (int)digits, f);
        return strtod(text, NULL);
    }
    double scale = pow(10, (double)digits);
    f *= scale;
    return (method == 'c' ? rint(f) : method == 'u' ? ceil(f) : floor(f)) / scale;
}

static whim_jval filter_round(whim_jinja *j, const whim_jcall *c)
{
    int64_t digits = whim_jarg_int(j, c->a[0], 0, "the precision"), i;
    double f;
    char method = 'c';
    whim_jinja_pay(j, 8); /* for printf's many digits */
    if (!whim_jval_is_number(c->self) || digits > 30 || digits < -30) {
        whim_jinja_fail(j, "round wants a number and a precision of at most 30");
    }
    if (c->a[1].kind != WHIM_J_MISSING) {
        const whim_jstr *name = whim_jarg_str(j, c->a[1], "the method");
        method = whim_jstr_is(name, "ceil")     ? 'u'
                 : whim_jstr_is(name, "floor")  ? 'd'
                 : whim_jstr_is(name, "common") ? 'c'
                                                : '\0';
        if (method == '\0') {
            whim_jinja_fail(j, "round knows the methods common, ceil and floor");
        }
    }
    if (whim_jval_as_number(c->self, &i, &f) && method == 'c' && digits >= 0) {
        return whim_jval_int(i, c->self.trusted);
    }
    return whim_jval_float(round_to(f, digits, method), c->self.trusted);
}

static whim_jval filter_string(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = text_of(j, c);
    return c->mode == 's' ? whim_jstr_safe(j, str) : (whim_jval){.kind = WHIM_J_STR, .str = str};
}

static whim_jval filter_trim(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *set = whim_jarg_opt_str(j, c->a[0], "what trim strips");
    return whim_jstr_strip(j, text_of(j, c), set, true, true);
}

static whim_jval filter_truncate(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = whim_jarg_str(j, c->self, "what truncate works on");
    int64_t length = whim_jarg_int(j, c->a[0], 255, "the length");
    int64_t leeway = whim_jarg_int(j, c->a[3], 5, "the leeway");
    whim_jval end = whim_jarg_or(c->a[2], whim_jval_str(j, "...", 3, true));
    int64_t keep = length - whim_jstr_chars(j, whim_jarg_str(j, end, "the end"));
    if (keep < 0 || leeway < 0) {
        whim_jinja_fail(j, "truncate wants a length of at least that of its end mark");
    }
    if (whim_jstr_chars(j, str) <= length + leeway) {
        return c->self;
    }
    whim_jval cut = whim_jval_slice(j, str, 0, whim_jstr_offset(j, str, keep));
    if (!whim_jval_truth(c->a[1])) {
        const whim_jstr space = {.s = " ", .n = 1};
        cut = whim_jlib_split(j, cut.str, &space, 1, true).list->v[0];
    }
    return whim_jinja_binary(j, '+', cut, end);
}

static whim_jval filter_wordcount(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = text_of(j, c);
    int64_t words = 0;
    bool inside = false;
    whim_jinja_pay(j, str->n / 8);
    for (int64_t at = 0; at < str->n;) {
        int32_t ch = whim_jutf8_next(str->s, str->n, &at);
        bool word = whim_jchar_is_word(ch);
        words += word && !inside;
        inside = word;
    }
    return whim_jval_int(words, whim_jval_trusted(j, c->self));
}

const whim_jentry whim_jfilters_text[] = {
    {"abs", "", 0, filter_abs, 0},
    {"attr", "name", 1, filter_attr, 0},
    {"capitalize", "", 0, filter_case, 'c'},
    {"center", "width", 0, filter_center, 0},
    {"default d", "default_value boolean", 0, filter_default, 0},
    {"escape e", "", 0, filter_escape, 0},
    {"float", "default", 0, filter_float, 0},
    {"format", NULL, 0, filter_format, 0},
    {"from_json", "", 0, whim_jinja_from_json, 0},
    {"indent", "width first blank", 0, filter_indent, 0},
    {"int", "default base", 0, filter_int, 0},
    {"length count", "", 0, filter_length, 0},
    {"lower", "", 0, filter_case, 'l'},
    {"pprint", "", 0, whim_jinja_pprint, 0},
    {"replace", "old new count", 2, filter_replace, 0},
    {"round", "precision method", 0, filter_round, 0},
    {"safe", "", 0, filter_string, 's'},
    {"string", "", 0, filter_string, 0},
    {"title", "", 0, filter_case, 'T'},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, whim_jinja_tojson, 0},
    {"trim", "chars", 0, filter_trim, 0},
    {"truncate", "length killwords end leeway", 0, filter_truncate, 0},
    {"upper", "", 0, filter_case, 'u'},
    {"wordcount", "", 0, filter_wordcount, 0},
    {NULL, NULL, 0, NULL, 0},
};
