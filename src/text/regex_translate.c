/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting patterns from Oniguruma's reading to PCRE2's. */
#include "text/regex.h"

#include "base/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEPTH_MAX = 200 };

typedef struct translation {
    const char *in; /* what is left of the pattern */
    whim_str *out;
    whim_diag *diag;
    int64_t atom;            /* where the last atom starts in `out` */
    int64_t open[DEPTH_MAX]; /* where the open groups start */
    int32_t depth;
} translation;

/* Names that the other engine has and PCRE2 spells otherwise. */
static const char *const long_names[][2] = {
    {"Letter", "L"},          {"Mark", "M"},      {"Number", "N"}, {"Punctuation", "P"},
    {"Symbol", "S"},          {"Separator", "Z"}, {"Other", "C"},  {"Alpha", "Alphabetic"},
    {"Space", "White_Space"}, {"Digit", "Nd"},    {"Punct", "P"},  {"Upper", "Uppercase"},
    {"Lower", "Lowercase"},
};

/* Names that are properties of characters in both, not scripts. */
static const char *const properties[] = {
    "Any",
    "Alphabetic",
    "White_Space",
    "Uppercase",
    "Lowercase",
    "Emoji",
    "Ideographic",
    "Extended_Pictographic",
    "Emoji_Presentation",
    "Emoji_Modifier",
    "Emoji_Component",
};

/* \p{name}: PCRE2 matches a bare script name by script extensions, the other engine by script. */
static whim_err put_property(translation *t, char kind)
{
    char name[64];
    const char *end = t->in[0] == '{' ? strchr(t->in, '}') : NULL;
    bool negated = end != NULL && t->in[1] == '^';
    const char *begin = t->in + 1 + negated;
    if (end == NULL || end - begin < 1 || end - begin >= (int64_t)sizeof name) {
        return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED,
                         "\\%c without a name in braces is not supported", kind);
    }
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), begin);
    const char *shown = name;
    bool script = strlen(name) > 2;
    for (size_t i = 0; i < sizeof long_names / sizeof long_names[0]; i++) {
        if (strcasecmp(name, long_names[i][0]) == 0) {
            shown = long_names[i][1];
            script = false;
        }
    }
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        if (strcasecmp(name, properties[i]) == 0) {
            script = false;
        }
    }
    whim_str_printf(t->out, "\\%c{%s%s%s}", kind, negated ? "^" : "", script ? "sc:" : "", shown);
    t->in = end + 1;
    return WHIM_ERR_OK;
}

/* A class by the characters inside it, alone or inside a larger class. */
static whim_err put_class(translation *t, const char *inner, bool negated, bool in_class)
{
    if (!in_class) {
        whim_str_printf(t->out, "[%s%s]", negated ? "^" : "", inner);
        return WHIM_ERR_OK;
    }
    if (negated) {
        return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED,
                         "a negated class escape inside a class is not supported");
    }
    whim_str_append(t->out, inner);
    return WHIM_ERR_OK;
}

/* What follows a backslash. */
static whim_err put_escape(translation *t, bool in_class)
{
    char c = *t->in;
    if (c == '\0') {
        return whim_fail(t->diag, WHIM_ERR_CORRUPT, "the pattern ends in a backslash");
    }
    t->in++;
    switch (c) {
    case 's':
        whim_str_append(t->out, "\\p{White_Space}");
        return WHIM_ERR_OK;
    case 'S':
        whim_str_append(t->out, "\\P{White_Space}");
        return WHIM_ERR_OK;
    case 'w':
    case 'W':
        return put_class(t, "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}", c == 'W', in_class);
    case 'h':
    case 'H':
        return put_class(t, "0-9a-fA-F", c == 'H', in_class);
    case 'p':
    case 'P':
        return put_property(t, c);
    case 'u':
        for (int i = 0; i < 4; i++) {
            if (!isxdigit((unsigned char)t->in[i])) {
                return whim_fail(t->diag, WHIM_ERR_CORRUPT, "\\u without four hex digits");
            }
        }
        whim_str_printf(t->out, "\\x{%.4s}", t->in);
        t->in += 4;
        return WHIM_ERR_OK;
    default: {
        int32_t n = whim_utf8_len(c);
        whim_str_append_char(t->out, '\\');
        whim_str_append_n(t->out, t->in - 1, n);
        t->in += n - 1;
        return WHIM_ERR_OK;
    }
    }
}

static whim_err put_bracket(translation *t)
{
    whim_str_append_char(t->out, '[');
    if (*t->in == '^') {
        whim_str_append_char(t->out, *t->in++);
    }
    if (*t->in == ']') {
        whim_str_append(t->out, "\\]");
        t->in++;
    }
    while (*t->in != ']') {
        char c = *t->in;
        if (c == '\0') {
            return whim_fail(t->diag, WHIM_ERR_CORRUPT, "a class is not closed");
        }
        if (c == '[' && t->in[1] != ':') {
            return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED, "a class in a class is not supported");
        }
        if (c == '&' && t->in[1] == '&') {
            return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED, "\"&&\" in a class is not supported");
        }
        t->in++;
        if (c == '\\') {
            WHIM_TRY(put_escape(t, true));
        } else if (c == '[') {
            const char *end = strstr(t->in, ":]");
            if (end == NULL) {
                return whim_fail(t->diag, WHIM_ERR_CORRUPT, "\"[:\" without \":]\"");
            }
            whim_str_append_n(t->out, t->in - 1, end + 2 - (t->in - 1));
            t->in = end + 2;
        } else {
            whim_str_append_char(t->out, c);
        }
    }
    whim_str_append_char(t->out, *t->in++);
    return WHIM_ERR_OK;
}

static whim_err put_open(translation *t)
{
    if (t->depth == DEPTH_MAX) {
        return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED, "groups nested deeper than %d", DEPTH_MAX);
    }
    /* (?m) means something else there, (?~ and (?{ and (* are not shared. */
    const char *flags = t->in[0] == '?' ? t->in + 1 : "";
    size_t n = strspn(flags, "imxs-");
    if (t->in[0] == '*' || flags[0] == '~' || flags[0] == '{' || flags[0] == 'C' ||
        (n > 0 && (flags[n] == ':' || flags[n] == ')') && memchr(flags, 'm', n) != NULL)) {
        return whim_fail(t->diag, WHIM_ERR_UNSUPPORTED, "the group \"(%.4s\" is not supported",
                         t->in);
    }
    t->open[t->depth++] = t->out->len;
    whim_str_append_char(t->out, '(');
    if (t->in[0] == '?') { /* not a quantifier */
        whim_str_append_char(t->out, *t->in++);
    }
    return WHIM_ERR_OK;
}

/* {n,m} after an atom; a plus after it repeats it there and makes it possessive here. */
static void put_interval(translation *t)
{
    const char *at = t->in + strspn(t->in, "0123456789,");
    whim_str_append_char(t->out, '{');
    if (*at != '}' || at == t->in) {
        return; /* a plain brace */
    }
    whim_str_append_n(t->out, t->in, at + 1 - t->in);
    t->in = at + 1;
    if (*t->in != '+') {
        return;
    }
    whim_str tail = {0};
    whim_str_append(&tail, whim_str_text(t->out) + t->atom);
    t->out->len = t->atom;
    whim_str_printf(t->out, "(?:%s)", whim_str_text(&tail));
    t->out->failed |= tail.failed;
    whim_str_deinit(&tail);
}

static whim_err put_next(translation *t)
{
    char c = *t->in++;
    switch (c) {
    case '\\':
        t->atom = t->out->len;
        return put_escape(t, false);
    case '[':
        t->atom = t->out->len;
        return put_bracket(t);
    case '(':
        return put_open(t);
    case ')':
        t->atom = t->depth > 0 ? t->open[--t->depth] : t->out->len;
        break;
    case '{':
        if (t->out->len > 0) {
            put_interval(t);
            return WHIM_ERR_OK;
        }
        break;
    case '*':
    case '+':
    case '?':
        break;
    default:
        t->atom = t->out->len;
        whim_str_append_n(t->out, t->in - 1, whim_utf8_len(c));
        t->in += whim_utf8_len(c) - 1;
        return WHIM_ERR_OK;
    }
    whim_str_append_char(t->out, c);
    return WHIM_ERR_OK;
}

whim_err whim_regex_translate(const char *pattern, whim_str *out, whim_diag *diag)
{
    translation t = {.in = pattern, .out = out, .diag = diag};
    int64_t n = (int64_t)strlen(pattern);
    if (whim_utf8_valid_prefix(pattern, n) != n) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "the pattern is not valid UTF-8");
    }
    while (*t.in != '\0' && !out->failed) {
        WHIM_TRY(put_next(&t));
    }
    return out->failed ? WHIM_ERR_NO_MEMORY : WHIM_ERR_OK;
}
