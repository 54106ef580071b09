/* SPDX-License-Identifier: Apache-2.0 */
/* Source to tokens, with Jinja's white-space rules under trim_blocks and lstrip_blocks:
 *  - the line end right after a block or comment is dropped, and spaces between a line's start and
 *    a block or comment too;
 *  - `-` at a tag strips all white space on that side, `+` keeps it. */
#include "jinja/ast.h"

#include <string.h>

typedef struct lexer {
    whim_jinja *j;
    const char *s;
    int64_t n, at;
    bool line_starting; /* what was read last ended a line */
    /* Where positions were counted to, so that all of them cost one pass. */
    int64_t mark;
    whim_jpos mark_pos;
    whim_jtok *toks;
    int64_t n_tok, cap_tok;
    char open[WHIM_JINJA_PARSE_DEPTH]; /* brackets to be closed in this tag */
    int32_t n_open;
} lexer;

static whim_jpos pos_of(lexer *lx, int64_t at)
{
    for (; lx->mark < at; lx->mark++) {
        if (lx->s[lx->mark] == '\n') {
            lx->mark_pos.line++;
            lx->mark_pos.col = 1;
        } else if (((uint8_t)lx->s[lx->mark] & 0xc0) != 0x80) {
            lx->mark_pos.col++;
        }
    }
    return lx->mark_pos;
}

static whim_jtok *add_tok(lexer *lx, whim_jtok_kind kind, int64_t at)
{
    whim_jinja_grow(lx->j, &lx->toks, lx->n_tok, &lx->cap_tok, lx->n_tok + 1, sizeof *lx->toks);
    whim_jtok *tok = &lx->toks[lx->n_tok++];
    *tok = (whim_jtok){.kind = kind, .pos = pos_of(lx, at)};
    return tok;
}

static bool looking_at(const lexer *lx, int64_t at, const char *word)
{
    int64_t n = (int64_t)strlen(word);
    return at + n <= lx->n && memcmp(lx->s + at, word, (size_t)n) == 0;
}

static int64_t skip_space(const lexer *lx, int64_t at)
{
    while (at < lx->n) {
        int64_t next = at;
        if (!whim_jchar_is_space(whim_jutf8_next(lx->s, lx->n, &next))) {
            break;
        }
        at = next;
    }
    return at;
}

static bool all_space(const lexer *lx, int64_t from, int64_t to)
{
    return from < to && skip_space(lx, from) >= to;
}

/* The text [from, to) in front of a tag with this sign, as far as it is kept. */
static void add_data(lexer *lx, int64_t from, int64_t to, char sign, bool is_print)
{
    if (sign == '-') {
        const whim_jstr text = {.s = lx->s + from, .n = to - from};
        to = from + whim_jstr_strip(lx->j, &text, NULL, false, true).str->n;
    } else if (sign != '+' && !is_print) {
        int64_t line = to;
        while (line > from && lx->s[line - 1] != '\n') {
            line--;
        }
        if ((line > from || lx->line_starting) && all_space(lx, line, to)) {
            to = line;
        }
    }
    if (to > from) {
        whim_jval v = whim_jval_str(lx->j, lx->s + from, to - from, true);
        add_tok(lx, WHIM_JT_DATA, from)->v = v;
    }
}

static void set_at(lexer *lx, int64_t at)
{
    lx->line_starting = at > 0 && lx->s[at - 1] == '\n';
    lx->at = at;
}

/* The end of a tag at `at`, or -1: `-%}` and space, `+%}`, or `%}` and a line end. */
static int64_t tag_end(const lexer *lx, int64_t at, const char *end, bool is_print)
{
    if (looking_at(lx, at, end)) {
        at += 2;
        return !is_print && at < lx->n && lx->s[at] == '\n' ? at + 1 : at;
    }
    if (at < lx->n && lx->s[at] == '-' && looking_at(lx, at + 1, end)) {
        return skip_space(lx, at + 3);
    }
    if (!is_print && at < lx->n && lx->s[at] == '+' && looking_at(lx, at + 1, end)) {
        return at + 3;
    }
    return -1;
}

static char sign_at(const lexer *lx, int64_t at)
{
    return at < lx->n && (lx->s[at] == '-' || lx->s[at] == '+') ? lx->s[at] : '\0';
}

static void lex_comment(lexer *lx, int64_t begin)
{
    int64_t at = begin + 2 + (sign_at(lx, begin + 2) != '\0');
    for (; at < lx->n; at++) {
        int64_t end = tag_end(lx, at, "#}", false);
        if (end >= 0) {
            set_at(lx, end);
            return;
        }
    }
    lx->j->pos = pos_of(lx, begin);
    whim_jinja_fail(lx->j, "the comment that begins here has no end: expected \"#}\"");
}

/* {% raw %} at `begin`: false when it is another tag, else reads up to after {% endraw %}. */
static bool lex_raw(lexer *lx, int64_t begin)
{
    int64_t at = skip_space(lx, begin + 2 + (sign_at(lx, begin + 2) != '\0'));
    if (!looking_at(lx, at, "raw")) {
        return false;
    }
    at = skip_space(lx, at + 3);
    if (looking_at(lx, at, "-%}")) {
        at = skip_space(lx, at + 3);
    } else if (looking_at(lx, at, "%}")) {
        at += 2;
    } else {
        return false;
    }
    set_at(lx, at);
    for (int64_t to = at; to < lx->n; to++) {
        if (!looking_at(lx, to, "{%")) {
            continue;
        }
        char sign = sign_at(lx, to + 2);
        int64_t word = skip_space(lx, to + 2 + (sign != '\0'));
        if (!looking_at(lx, word, "endraw")) {
            continue;
        }
        int64_t end = tag_end(lx, skip_space(lx, word + 6), "%}", false);
        if (end >= 0) {
            add_data(lx, at, to, sign, false);
            set_at(lx, end);
            return true;
        }
    }
    lx->j->pos = pos_of(lx, begin);
    whim_jinja_fail(lx->j, "the raw block that begins here has no end: expected {%% endraw %%}");
}

/* Text up to the next tag, and the tag's beginning. Returns '%' or '{' inside a tag, 0 outside. */
static char lex_root(lexer *lx)
{
    int64_t from = lx->at, to = from;
    while (to < lx->n && !(lx->s[to] == '{' && to + 1 < lx->n &&
                           strchr("%{#", lx->s[to + 1]) != NULL && lx->s[to + 1] != '\0')) {
        to++;
    }
    if (to >= lx->n) {
        add_data(lx, from, lx->n, '+', true);
        lx->at = lx->n;
        return 0;
    }
    char kind = lx->s[to + 1], sign = sign_at(lx, to + 2);
    add_data(lx, from, to, sign, kind == '{');
    if (kind == '#') {
        lex_comment(lx, to);
        return 0;
    }
    if (kind == '%' && lex_raw(lx, to)) {
        return 0;
    }
    add_tok(lx, kind == '%' ? WHIM_JT_BLOCK_BEGIN : WHIM_JT_PRINT_BEGIN, to);
    lx->at = to + 2 + (sign != '\0');
    return kind;
}

static void check_bracket(lexer *lx, char c)
{
    const char *opens = "({[", *closes = ")}]";
    const char *open = strchr(opens, c), *close = strchr(closes, c);
    if (open != NULL) {
        if (lx->n_open == WHIM_JINJA_PARSE_DEPTH) {
            whim_jinja_fail(lx->j, "brackets nest deeper than %d levels",
                            (int)WHIM_JINJA_PARSE_DEPTH);
        }
        lx->open[lx->n_open++] = closes[open - opens];
    } else if (close != NULL) {
        char expected = lx->n_open > 0 ? lx->open[--lx->n_open] : '\0';
        if (expected == '\0') {
            whim_jinja_fail(lx->j, "found '%c' with nothing to close", c);
        } else if (expected != c) {
            whim_jinja_fail(lx->j, "found '%c', expected '%c'", c, expected);
        }
    }
}

static void lex_operator(lexer *lx, int64_t at)
{
    static const char pairs[][3] = {"//", "**", "==", "!=", ">=", "<="};
    char c = lx->s[at];
    lx->j->pos = pos_of(lx, at);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (looking_at(lx, at, pairs[i])) {
            add_tok(lx, WHIM_JT_OP, at)->op = WHIM_JOP2(pairs[i][0], pairs[i][1]);
            lx->at = at + 2;
            return;
        }
    }
    if (c == '\0' || strchr("+-/*%~[](){}><=.:|,;", c) == NULL) {
        int64_t end = at;
        (void)whim_jutf8_next(lx->s, lx->n, &end);
        whim_jinja_fail(lx->j, "unexpected character \"%.*s\"", (int)(end - at), lx->s + at);
    }
    check_bracket(lx, c);
    add_tok(lx, WHIM_JT_OP, at)->op = c;
    lx->at = at + 1;
}

/* One token inside a tag; returns true at the tag's end. */
static bool lex_inside(lexer *lx, char kind)
{
    int64_t at = lx->at = skip_space(lx, lx->at);
    if (at >= lx->n) {
        return true; /* the parser says what is missing */
    }
    int64_t end = lx->n_open > 0 ? -1 : tag_end(lx, at, kind == '%' ? "%}" : "}}", kind == '{');
    if (end >= 0) {
        add_tok(lx, kind == '%' ? WHIM_JT_BLOCK_END : WHIM_JT_PRINT_END, at);
        set_at(lx, end);
        return true;
    }
    lx->j->pos = pos_of(lx, at);
    whim_jval v = {0};
    if (whim_jlex_number(lx->j, lx->s, lx->n, &lx->at, &v)) {
        add_tok(lx, WHIM_JT_NUMBER, at)->v = v;
    } else if (whim_jlex_name(lx->j, lx->s, lx->n, &lx->at, &v)) {
        add_tok(lx, WHIM_JT_NAME, at)->v = v;
    } else if (whim_jlex_string(lx->j, lx->s, lx->n, &lx->at, &v)) {
        add_tok(lx, WHIM_JT_STRING, at)->v = v;
    } else {
        lex_operator(lx, at);
    }
    return false;
}

/* Line ends become \n, and the last one goes. */
static char *normalise(whim_jinja *j, const char *source, int64_t *n)
{
    char *s = whim_jinja_alloc(j, *n + 1);
    int64_t len = 0;
    for (int64_t i = 0; i < *n; i++) {
        if (source[i] == '\r') {
            i += i + 1 < *n && source[i + 1] == '\n';
            s[len++] = '\n';
        } else {
            s[len++] = source[i];
        }
    }
    len -= len > 0 && s[len - 1] == '\n';
    s[len] = '\0';
    *n = len;
    return s;
}

whim_jtok *whim_jinja_lex(whim_jinja *j, const char *source, int64_t n)
{
    lexer lx = {.j = j, .n = n, .line_starting = true, .mark_pos = {1, 1}};
    lx.s = normalise(j, source, &lx.n);
    while (lx.at < lx.n) {
        char kind = lex_root(&lx);
        lx.n_open = 0;
        while (kind != 0 && !lex_inside(&lx, kind)) {
        }
    }
    add_tok(&lx, WHIM_JT_EOF, lx.n);
    return lx.toks;
}
