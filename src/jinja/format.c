/* SPDX-License-Identifier: Apache-2.0 */
/* "..." % args and "...".format(...), as far as templates use them: texts and numbers with width,
 * precision, alignment, sign and zeros. The format's own bytes keep their trust, and so do those of
 * the arguments. */
#include "jinja/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct spec {
    int32_t fill;
    char align; /* '<' '>' '^' '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alt, zero, comma;
    int64_t width, precision; /* precision -1: not given */
    char type;                /* 0: not given */
} spec;

enum { MAX_WIDTH = 1000 };

/* A number in [0, MAX_WIDTH] at *at. */
static int64_t read_number(whim_jinja *j, const whim_jstr *str, int64_t *at)
{
    int64_t n = 0;
    while (*at < str->n && str->s[*at] >= '0' && str->s[*at] <= '9') {
        n = n * 10 + (str->s[(*at)++] - '0');
        if (n > MAX_WIDTH) {
            whim_jinja_fail(j, "a width or precision over %d in a format", (int)MAX_WIDTH);
        }
    }
    return n;
}

/* Take a byte if it comes next. */
static bool take(const whim_jstr *str, int64_t *at, char c)
{
    bool there = *at < str->n && str->s[*at] == c;
    *at += there;
    return there;
}

/* 1234567 -> 1,234,567 in place of the digits before a point or the end. */
static void add_commas(char *text, size_t size)
{
    size_t start = text[0] == '-' || text[0] == '+' || text[0] == ' ';
    size_t digits = strspn(text + start, "0123456789"), len = strlen(text);
    for (size_t i = digits; i > 3; i -= 3) {
        size_t at = start + i - 3;
        if (len + 2 > size) {
            return;
        }
        memmove(text + at + 1, text + at, len - at + 1);
        text[at] = ',';
        len++;
    }
}

static void number_text(whim_jinja *j, const spec *s, whim_jval v, char *out, size_t size)
{
    int64_t i;
    double f;
    bool is_int = whim_jval_as_number(v, &i, &f);
    bool decimal = strchr("diu", s->type) != NULL, bits = strchr("xXo", s->type) != NULL;
    char sign[2] = {s->sign, '\0'}, format[16];
    if (decimal && !is_int && !(fabs(f) < 9e18)) {
        whim_jinja_fail(j, "the number does not fit into 64 bits");
    }
    if (bits && !is_int) {
        whim_jinja_fail(j, "the format %%%c wants an integer", s->type);
    }
    snprintf(format, sizeof format, "%s%%%s%s%s%c", bits && i < 0 ? "-" : "", bits ? "" : sign,
             s->alt && !decimal ? "#" : "", decimal || bits ? "ll" : ".*", decimal ? 'd' : s->type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (decimal) {
        snprintf(out, size, format, (long long)(is_int ? i : (int64_t)f));
    } else if (bits) {
        snprintf(out, size, format, i < 0 ? -(unsigned long long)i : (unsigned long long)i);
    } else {
        snprintf(out, size, format, s->precision < 0 ? 6 : (int)s->precision, f);
    }
#pragma GCC diagnostic pop
    if (s->comma) {
        add_commas(out, size);
    }
}

static void put_padded(whim_jinja *j, whim_jbuf *buf, const spec *s, whim_jval text, bool number)
{
    char align = s->align != 0 ? s->align : number ? '>' : '<';
    if (number && (s->zero || align == '=')) {
        const whim_jstr *str = text.str;
        int64_t sign = str->n > 0 && strchr("+- ", str->s[0]) != NULL;
        whim_jbuf_add_str(j, buf, whim_jval_slice(j, str, 0, sign).str);
        text = whim_jlib_pad(j, whim_jval_slice(j, str, sign, str->n).str, s->width - sign,
                             s->zero ? '0' : s->fill, '>');
    } else {
        text = whim_jlib_pad(j, text.str, s->width, s->fill, align);
    }
    whim_jbuf_add_str(j, buf, text.str);
}

/* A value under a spec whose type is settled: s for texts, a letter of printf for numbers. */
static void put_value(whim_jinja *j, whim_jbuf *buf, const spec *s, whim_jval v)
{
    if (s->type == 's' || s->type == 'r') {
        whim_jbuf text = {0};
        (s->type == 'r' ? whim_jbuf_repr : whim_jbuf_print)(j, &text, v);
        whim_jval str = whim_jbuf_take(j, &text);
        if (s->precision >= 0) {
            str = whim_jval_slice(j, str.str, 0, whim_jstr_offset(j, str.str, s->precision));
        }
        put_padded(j, buf, s, str, false);
        return;
    }
    if (!whim_jval_is_number(v)) {
        whim_jinja_fail(j, "the format %c wants a number, not a %s", s->type, whim_jval_type(v));
    }
    char out[1500], *copy;
    whim_jinja_pay(j, 8 + (s->precision > 0 ? s->precision / 8 : 0));
    number_text(j, s, v, out, sizeof out);
    int64_t n = (int64_t)strlen(out);
    copy = whim_jinja_alloc(j, n + 1);
    memcpy(copy, out, (size_t)n + 1);
    put_padded(j, buf, s, whim_jval_str(j, copy, n, whim_jval_trusted(j, v)), true);
}

/* --- % --- */

typedef struct percent {
    whim_jval args;
    int64_t used;
} percent;

static whim_jval next_arg(whim_jinja *j, percent *p)
{
    bool tuple = p->args.kind == WHIM_J_LIST && p->args.list->kind == WHIM_JL_TUPLE;
    if (p->used >= (tuple ? p->args.list->n : 1)) {
        whim_jinja_fail(j, "there are fewer arguments than the format wants");
    }
    return tuple ? p->args.list->v[p->used++] : (p->used++, p->args);
}

static whim_jval named_arg(whim_jinja *j, const percent *p, const whim_jstr *format, int64_t *at)
{
    const char *close = memchr(format->s + *at, ')', (size_t)(format->n - *at));
    if (close == NULL || p->args.kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "%%(name) in a format wants a \")\" and a dict");
    }
    const char *name = format->s + *at + 1;
    const whim_jval *v = whim_jdict_get(j, p->args.dict, name, close - name);
    if (v == NULL) {
        whim_jinja_fail(j, "the format's name %.*s is not in the dict",
                        (int)(close - name > 60 ? 60 : close - name), name);
    }
    *at = close - format->s + 1;
    return *v;
}

/* The directive behind a % at `at`; returns where it ends. */
static int64_t put_percent(whim_jinja *j, whim_jbuf *buf, const whim_jstr *format, int64_t at,
                           percent *p)
{
    spec s = {.fill = ' ', .precision = -1};
    whim_jval v = {.kind = WHIM_J_MISSING};
    if (at < format->n && format->s[at] == '(') {
        v = named_arg(j, p, format, &at);
    }
    for (; at < format->n && format->s[at] != '\0' && strchr("-+ #0", format->s[at]) != NULL;
         at++) {
        char c = format->s[at];
        s.align = c == '-' ? '<' : s.align;
        s.sign = c == '+' || (c == ' ' && s.sign == 0) ? c : s.sign;
        s.alt |= c == '#';
        s.zero |= c == '0';
    }
    s.zero &= s.align == 0;
    s.align = s.align == 0 ? '>' : s.align;
    s.width = read_number(j, format, &at);
    s.precision = take(format, &at, '.') ? read_number(j, format, &at) : -1;
    s.type = at < format->n ? format->s[at++] : '\0';
    if (s.type == '%') {
        whim_jbuf_add(j, buf, "%", 1, whim_jstr_trust(format, at - 1, at));
        return at;
    }
    if (s.type == '\0' || strchr("srcdiuxXofFeEgG", s.type) == NULL) {
        whim_jinja_fail(j, "an unknown directive in a format: expected one of %%s %%r %%d %%x %%o "
                           "%%f %%e %%g");
    }
    v = v.kind == WHIM_J_MISSING ? next_arg(j, p) : v;
    if (s.type == 'c') {
        if (v.kind != WHIM_J_STR || whim_jstr_chars(j, v.str) != 1) {
            whim_jinja_fail(j, "%%c in a format wants one character");
        }
        s.type = 's';
    }
    put_value(j, buf, &s, v);
    return at;
}

whim_jval whim_jinja_percent(whim_jinja *j, const whim_jstr *format, whim_jval args)
{
    whim_jbuf buf = {0};
    percent p = {.args = args};
    whim_jinja_pay(j, format->n / 8);
    for (int64_t at = 0; at < format->n;) {
        const char *mark = memchr(format->s + at, '%', (size_t)(format->n - at));
        int64_t to = mark == NULL ? format->n : mark - format->s;
        whim_jbuf_add_str(j, &buf, whim_jval_slice(j, format, at, to).str);
        whim_jinja_pay(j, 1);
        at = mark == NULL ? to : put_percent(j, &buf, format, to + 1, &p);
    }
    bool tuple = args.kind == WHIM_J_LIST && args.list->kind == WHIM_JL_TUPLE;
    if (tuple ? p.used < args.list->n
              : p.used == 0 && args.kind != WHIM_J_DICT && args.kind != WHIM_J_LIST) {
        whim_jinja_fail(j, "there are more arguments than the format wants");
    }
    return whim_jbuf_take(j, &buf);
}

/* --- format --- */

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static spec parse_spec(whim_jinja *j, const whim_jstr *str)
{
    spec s = {.fill = ' ', .precision = -1};
    int64_t at = 0;
    if (str->n > 0) {
        int64_t second = 0;
        int32_t first = whim_jutf8_next(str->s, str->n, &second);
        if (second < str->n && is_align(str->s[second])) {
            s.fill = first;
            s.align = str->s[second];
            at = second + 1;
        } else if (is_align(str->s[0])) {
            s.align = str->s[at++];
        }
    }
    if (at < str->n && strchr("+- ", str->s[at]) != NULL) {
        s.sign = str->s[at] == '-' ? '\0' : str->s[at];
        at++;
    }
    s.alt = take(str, &at, '#');
    s.zero = take(str, &at, '0') && s.align == 0;
    s.width = read_number(j, str, &at);
    s.comma = take(str, &at, ',');
    s.precision = take(str, &at, '.') ? read_number(j, str, &at) : -1;
    s.type = at < str->n ? str->s[at++] : '\0';
    if (at < str->n || (s.type != '\0' && strchr("sdxXofFeEgG%", s.type) == NULL)) {
        whim_jinja_fail(j, "the format \"%.*s\" is not known", WHIM_JSHOWN(str));
    }
    return s;
}

static void put_with_spec(whim_jinja *j, whim_jbuf *buf, const whim_jstr *text, whim_jval v)
{
    spec s = parse_spec(j, text);
    bool is_float = v.kind == WHIM_J_FLOAT, number = whim_jval_is_number(v);
    if (text->n > 0 && v.kind != WHIM_J_STR && !number) {
        whim_jinja_fail(j, "a %s cannot be formatted with \"%.*s\"", whim_jval_type(v),
                        WHIM_JSHOWN(text));
    }
    if (s.type == '%') {
        whim_jinja_fail(j, "the format %% is not supported");
    }
    if (s.type == '\0' && number && v.kind != WHIM_J_BOOL) {
        if (is_float && s.precision < 0) {
            whim_jval str = {.kind = WHIM_J_STR, .str = whim_jval_to_str(j, v)};
            put_padded(j, buf, &s, str, true);
            return;
        }
        s.type = is_float ? 'g' : 'd';
    }
    s.type = s.type == '\0' ? 's' : s.type;
    if ((s.type == 's') != !number && !(s.type == 's' && v.kind == WHIM_J_BOOL)) {
        whim_jinja_fail(j, "the format %c does not fit a %s", s.type, whim_jval_type(v));
    }
    put_value(j, buf, &s, v);
}

/* The value that the name of a field stands for: "", "0", "key", "key.attr[item]". */
static whim_jval field_value(whim_jinja *j, const whim_jstr *field, const whim_jargs *args,
                             int64_t *next)
{
    int64_t end = 0;
    while (end < field->n && field->s[end] != '.' && field->s[end] != '[') {
        end++;
    }
    const whim_jstr name = {.s = field->s, .n = end};
    int64_t place = 0;
    bool number = whim_jlib_parse_int(j, &name, 10, &place) || end == 0;
    place = end == 0 ? (*next)++ : place;
    const whim_jval *named = number ? NULL : whim_jdict_get(j, &args->named, name.s, name.n);
    if (number ? place < 0 || place >= args->pos.n : named == NULL) {
        whim_jinja_fail(j, "format has no argument for {%.*s}", WHIM_JSHOWN(field));
    }
    whim_jval v = number ? args->pos.v[place] : *named;
    while (end < field->n) {
        bool item = field->s[end] == '[';
        int64_t from = ++end;
        while (end < field->n &&
               (item ? field->s[end] != ']' : field->s[end] != '.' && field->s[end] != '[')) {
            end++;
        }
        whim_jval key = whim_jval_slice(j, field, from, end);
        if (item) {
            bool digits = whim_jlib_parse_int(j, key.str, 10, &place);
            v = whim_jinja_item(j, v, digits ? whim_jval_int(place, true) : key);
            end++;
        } else {
            v = whim_jinja_attr(j, v, key.str);
        }
    }
    return v;
}

/* The field behind a { at `at`; returns where it ends. */
static int64_t put_field(whim_jinja *j, whim_jbuf *buf, const whim_jstr *format, int64_t at,
                         const whim_jargs *args, int64_t *next)
{
    const char *close = memchr(format->s + at, '}', (size_t)(format->n - at));
    if (close == NULL) {
        whim_jinja_fail(j, "a \"{\" in a format has no \"}\"");
    }
    int64_t end = close - format->s, colon = at;
    while (colon < end && format->s[colon] != ':') {
        colon++;
    }
    int64_t name_end = colon;
    bool repr = colon - at >= 2 && format->s[colon - 2] == '!' && format->s[colon - 1] == 'r';
    bool text = colon - at >= 2 && format->s[colon - 2] == '!' && format->s[colon - 1] == 's';
    name_end -= repr || text ? 2 : 0;
    whim_jval v = field_value(j, whim_jval_slice(j, format, at, name_end).str, args, next);
    if (repr || text) {
        whim_jbuf as_text = {0};
        (repr ? whim_jbuf_repr : whim_jbuf_print)(j, &as_text, v);
        v = whim_jbuf_take(j, &as_text);
    }
    const whim_jstr *rest = whim_jval_slice(j, format, colon + (colon < end), end).str;
    if (rest->n == 0) {
        whim_jbuf_print(j, buf, v);
    } else {
        put_with_spec(j, buf, rest, v);
    }
    return end + 1;
}

whim_jval whim_jinja_braces(whim_jinja *j, const whim_jstr *format, const whim_jargs *args)
{
    whim_jbuf buf = {0};
    int64_t next = 0;
    for (int64_t at = 0; at < format->n;) {
        char c = format->s[at];
        bool twice = at + 1 < format->n && format->s[at + 1] == c;
        whim_jinja_pay(j, 1);
        if ((c == '{' || c == '}') && twice) {
            whim_jbuf_add(j, &buf, &c, 1, whim_jstr_trust(format, at, at + 1));
            at += 2;
        } else if (c == '{') {
            at = put_field(j, &buf, format, at + 1, args, &next);
        } else if (c == '}') {
            whim_jinja_fail(j, "a \"}\" in a format has no \"{\"");
        } else {
            whim_jbuf_add(j, &buf, &c, 1, whim_jstr_trust(format, at, at + 1));
            at++;
        }
    }
    return whim_jbuf_take(j, &buf);
}
