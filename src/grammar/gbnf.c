/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars as texts: GBNF, and the EBNF that is nearly the same. A rule goes from `name ::=` to the
 * next one; line ends are blanks. What stands in a rule becomes nodes at once; other rules are
 * called (gbnf_rules.c makes them such as can be). */
#include "grammar/gbnf.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RULES = 4096, MAX_COUNT = 1000000 };

int32_t whim_gbnf_fail(const gbnf *p, int64_t at, const char *fmt, ...)
{
    char what[512];
    long long line = 1, column = 1;
    for (int64_t i = 0; i < at; i++) {
        bool ends = p->text[i] == '\n';
        line += ends;
        column = ends ? 1 : column + (((uint8_t)p->text[i] & 0xC0) != 0x80);
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return whim_gb_fail(p->b, WHIM_ERR_INVALID, "%s: line %lld, column %lld: %s", p->path, line,
                        column, what);
}

/* --- words ------------------------------------------------------------------------------------ */

/* The character here; '\0' behind the end, as the text has one there. */
static char here(const gbnf *p)
{
    return p->text[p->at];
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int64_t skip_from(const gbnf *p, int64_t at)
{
    while (is_blank(p->text[at]) || p->text[at] == '#') {
        bool is_comment = p->text[at] == '#';
        at += is_comment ? (int64_t)strcspn(p->text + at, "\n") : 1;
    }
    return at;
}

static void skip(gbnf *p)
{
    p->at = skip_from(p, p->at);
}

static bool is_name_char(char c)
{
    return whim_gbnf_is_letter(c) || c == '-' || c == '_';
}

static int64_t name_length(const gbnf *p)
{
    int64_t n = 0;
    while (is_name_char(p->text[p->at + n])) {
        n++;
    }
    return n;
}

/* Whether a name of n characters is the head of a rule. */
static bool is_head(const gbnf *p, int64_t n)
{
    return strncmp(p->text + skip_from(p, p->at + n), "::=", 3) == 0;
}

/* The name's place in the list of names, which it is added to; -1: failed. */
static int32_t name_place(gbnf *p, int64_t n)
{
    char path[160];
    const char *text = p->text + p->at;
    for (int64_t i = 0; i < p->n_name; i++) {
        if (p->names[i].n == n && memcmp(p->names[i].text, text, (size_t)n) == 0) {
            return (int32_t)i;
        }
    }
    if (p->n_name == MAX_RULES) {
        return whim_gbnf_fail(p, p->at, "there are more than %d rules", MAX_RULES);
    }
    snprintf(path, sizeof path, "%.40s: the rule \"%.*s\"", p->path, n < 80 ? (int)n : 80, text);
    gbnf_name name = {.text = text, .n = n, .used_at = p->at, .defined_at = -1};
    name.rule = whim_gb_rule(p->b, NULL, path);
    p->b->has_named_rules = true;
    return name.rule < 0
               ? -1
               : whim_gb_append(p->b, &p->names, &p->n_name, &p->cap_name, &name, 1, sizeof name);
}

/* --- rules ------------------------------------------------------------------------------------ */

static int32_t parse_any_of(gbnf *p);

static int32_t parse_group(gbnf *p)
{
    int64_t begin = p->at++;
    if (++p->depth > p->b->limits.max_depth) {
        return whim_gbnf_fail(p, begin, "groups are nested more than %d deep",
                              p->b->limits.max_depth);
    }
    if (here(p) == '=' || here(p) == '!') {
        return whim_gbnf_fail(p, begin, "look-ahead is not supported");
    }
    int32_t node = parse_any_of(p);
    p->depth--;
    if (node < 0) {
        return -1;
    }
    if (here(p) != ')') {
        return whim_gbnf_fail(p, begin, "this group is not closed: ) is missing");
    }
    p->at++;
    return node;
}

static int32_t parse_atom(gbnf *p)
{
    static const grange all = {0, GC_MAX};
    char c = here(p);
    int64_t n = name_length(p);
    if (n > 0) {
        int32_t place = name_place(p, n);
        p->at += n;
        return place < 0 ? -1 : whim_gb_call(p->b, p->names[place].rule);
    }
    switch (c) {
    case '"':
        return whim_gbnf_literal(p);
    case '[':
        return whim_gbnf_class(p);
    case '(':
        return parse_group(p);
    case '.':
        p->at++;
        return whim_gb_chars(p->b, &all, 1);
    case '<':
    case '!':
        return whim_gbnf_fail(p, p->at, "tokens (<name>, <[id]>) are not supported; write texts");
    case '*':
    case '+':
    case '?':
    case '{':
        return whim_gbnf_fail(p, p->at, "there is nothing to repeat before this");
    default:
        return whim_gbnf_fail(p, p->at,
                              "a text in \"..\", a class [..], a group (..) or the name of a rule "
                              "is expected");
    }
}

/* A number, which may be absent (-1); false: failed. */
static bool parse_count(gbnf *p, int64_t *out)
{
    int64_t begin = p->at;
    for (*out = -1; here(p) >= '0' && here(p) <= '9'; p->at++) {
        *out = (*out < 0 ? 0 : *out * 10) + (here(p) - '0');
        if (*out > MAX_COUNT) {
            return whim_gbnf_fail(p, begin, "this number is above %d", MAX_COUNT) >= 0;
        }
    }
    skip(p);
    return true;
}

/* {m}, {m,}, {,n}, {m,n} */
static bool parse_braces(gbnf *p, int64_t *lo, int64_t *hi)
{
    int64_t begin = p->at++;
    skip(p);
    if (!parse_count(p, lo)) {
        return false;
    }
    *hi = *lo;
    bool has_comma = here(p) == ',';
    if (has_comma) {
        p->at++;
        skip(p);
        if (!parse_count(p, hi)) {
            return false;
        }
    }
    if (here(p) != '}' || (*lo < 0 && *hi < 0)) {
        return whim_gbnf_fail(p, begin, "a repetition is {m}, {m,}, {,n} or {m,n}") >= 0;
    }
    p->at++;
    *lo = *lo < 0 ? 0 : *lo;
    return *hi < 0 || *hi >= *lo ||
           whim_gbnf_fail(p, begin, "this repetition ends before it begins") >= 0;
}

static int32_t parse_repeats(gbnf *p, int32_t node)
{
    for (int32_t depth = 0; node >= 0; depth++) {
        int64_t lo = 0, hi = -1, begin = p->at;
        skip(p); /* no part begins as a repetition does */
        char c = here(p);
        if (c == '*' || c == '+' || c == '?') {
            lo = c == '+';
            hi = c == '?' ? 1 : -1;
            p->at++;
        } else if (c != '{') {
            return node;
        } else if (!parse_braces(p, &lo, &hi)) {
            return -1;
        }
        if (depth > 0) {
            return whim_gbnf_fail(p, begin, "a repetition of a repetition needs a group");
        }
        node = hi == 0 ? whim_gb_text(p->b, "") : whim_grammar_repeat(p->b, node, lo, hi);
    }
    return node;
}

static int32_t parse_seq(gbnf *p)
{
    glist parts = {0};
    for (skip(p); p->at < p->n && here(p) != '|' && here(p) != ')'; skip(p)) {
        int64_t n = name_length(p);
        if (n > 0 && is_head(p, n)) {
            break;
        }
        int32_t part = parse_repeats(p, parse_atom(p));
        if (part < 0) {
            whim_free(parts.ids);
            return -1;
        }
        whim_glist_add(p->b, &parts, part);
    }
    if (parts.n == 0) {
        return whim_gb_text(p->b, "");
    }
    return whim_glist_node(p->b, &parts, GN_SEQ);
}

static int32_t parse_any_of(gbnf *p)
{
    glist parts = {0};
    for (bool more = true; more && !whim_gb_failed(p->b);) {
        whim_glist_add(p->b, &parts, parse_seq(p));
        more = !whim_gb_failed(p->b) && here(p) == '|';
        p->at += more;
    }
    return whim_glist_node(p->b, &parts, GN_ANY_OF);
}

static int32_t no_head(const gbnf *p, int64_t at)
{
    char c = p->text[at];
    bool is_lark = c == ':' || c == '%' || c == '?' || c == '!' || c == '/';
    return whim_gbnf_fail(p, at,
                          is_lark ? "this looks like Lark, which is not supported; write rules as "
                                    "name ::= .. (GBNF)"
                                  : "a rule is expected: name ::= ..");
}

static bool parse_rule(gbnf *p)
{
    int64_t n = name_length(p), begin = p->at;
    if (n == 0 || !is_head(p, n)) {
        return no_head(p, n == 0 ? p->at : skip_from(p, p->at + n)) >= 0;
    }
    int32_t place = name_place(p, n);
    if (place < 0) {
        return false;
    }
    if (p->names[place].defined_at >= 0) {
        return whim_gbnf_fail(p, begin, "the rule \"%.*s\" is there twice", n < 80 ? (int)n : 80,
                              p->text + begin) >= 0;
    }
    p->names[place].defined_at = begin;
    p->at = skip_from(p, p->at + n) + 3;
    int32_t body = parse_any_of(p);
    if (body >= 0 && here(p) == ')') {
        return whim_gbnf_fail(p, p->at, "this ) closes nothing") >= 0;
    }
    p->b->rules[p->names[place].rule].node = body;
    return body >= 0;
}

/* The node of the rule "root", all rules being there; -1: failed. */
static int32_t find_root(const gbnf *p)
{
    int32_t root = -1;
    for (int64_t i = 0; i < p->n_name; i++) {
        const gbnf_name *name = &p->names[i];
        if (name->defined_at < 0) {
            return whim_gbnf_fail(p, name->used_at, "there is no rule \"%.*s\"",
                                  name->n < 80 ? (int)name->n : 80, name->text);
        }
        if (name->n == 4 && memcmp(name->text, "root", 4) == 0) {
            root = name->rule;
        }
    }
    return root >= 0 ? root
                     : whim_gbnf_fail(p, 0, "there is no rule \"root\", which the answer follows");
}

whim_grammar_node whim_grammar_gbnf(whim_grammar_builder *b, const char *text, const char *path)
{
    gbnf p = {.b = b, .text = text, .n = (int64_t)strlen(text), .path = path};
    if (whim_gb_failed(b)) {
        return -1;
    }
    int64_t valid = whim_utf8_valid_prefix(text, p.n);
    bool ok = valid == p.n || whim_gbnf_fail(&p, valid, "this is no UTF-8") >= 0;
    p.first_node = b->n_node;
    for (skip(&p); ok && p.at < p.n; skip(&p)) {
        ok = parse_rule(&p);
    }
    int32_t root = ok ? find_root(&p) : -1;
    if (root >= 0 && whim_gbnf_settle(&p)) {
        root = b->rules[root].node;
    }
    whim_free(p.names);
    return whim_gb_failed(b) ? -1 : root;
}
