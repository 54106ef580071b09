/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are a list in Python, [f(city="Oslo", n=[1, 2]), g()]: between tags, or as the whole
 * answer. The JSON of the arguments is made here, byte by byte: texts may stand in either quote,
 * and True, False and None are words as well as those of JSON. A call is sure, and goes out, at its
 * first "=", or at its end. Arguments without a key make it none. */
#include "base/json.h"
#include "chat/tools/parser.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Before the list; where a call or an argument may begin; in a name or a key; behind a key; in a
 * value; behind a call; behind the list. */
enum { LIST, CALL, NAME, ARGUMENT, KEY, KEYED, VALUE, BEHIND, CLOSE };

static bool is_bare(const whim_chat_parser *p)
{
    return p->cfg.format.tools->open == NULL;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

void whim_python_start(whim_chat_parser *p, bool at_function)
{
    (void)at_function;
    p->python.state = LIST;
}

static void hold_or_break(whim_chat_parser *p, char c)
{
    if (!whim_tool_hold(p, &c, 1)) {
        whim_tool_break(p, c);
    }
}

static void call_begin(whim_python_call *t)
{
    whim_str_clear(&t->name);
    t->state = CALL;
    t->walk = (whim_json_walk){0};
    t->n_word = 0;
    t->quote = '\0';
    t->comma = t->escaped = false;
}

/* This is no call, or no longer one: what waits inside a value is text with c. */
static void fail(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    (void)whim_tool_hold(p, ",", t->comma && p->sent);
    (void)whim_tool_hold(p, "\\", t->escaped);
    (void)whim_tool_hold(p, t->word, t->n_word);
    whim_tool_break(p, c);
}

/* JSON of n bytes; false: it cannot come, and the call is broken at c. */
static bool put(whim_chat_parser *p, const char *json, int64_t n, char c)
{
    for (int64_t i = 0; i < n; i++) {
        if (!whim_json_walk_step(&p->python.walk, json[i])) {
            fail(p, c);
            return false;
        }
        whim_tool_emit(p, WHIM_CHAT_CALL_ARGS, json + i, 1);
    }
    return true;
}

static bool put_escaped(whim_chat_parser *p, char byte, char c)
{
    char escape[8];
    return put(p, escape, whim_json_escape(byte, escape), c);
}

/* The call is one: its name and the brace go out. */
static bool begin_arguments(whim_chat_parser *p, char c)
{
    if (p->sent) {
        return true;
    }
    whim_tool_send(p, p->python.name.text, p->python.name.len);
    return put(p, "{", 1, c);
}

static void call_end(whim_chat_parser *p, char c)
{
    if (begin_arguments(p, c) && put(p, "}", 1, c)) {
        whim_tool_end(p);
        p->python.state = BEHIND;
    }
}

/* --- texts ------------------------------------------------------------------------------------ */

/* What an escape of Python's with digits stands for, once it is whole. */
static void code_byte(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    unsigned long cp = 0;
    char text[16];
    if (t->n_word > 0 && !isxdigit((unsigned char)c)) {
        fail(p, c);
        return;
    }
    t->word[t->n_word++] = c;
    const int32_t wanted = t->word[0] == 'x' ? 2 : t->word[0] == 'u' ? 4 : 8;
    if (t->n_word <= wanted) {
        return;
    }
    t->word[t->n_word] = '\0';
    (void)sscanf(t->word + 1, "%8lx", &cp);
    int n = cp < 0x10000 ? snprintf(text, sizeof text, "\\u%04lx", cp)
            : cp < 0x110000
                ? snprintf(text, sizeof text, "\\u%04lx\\u%04lx", 0xd800 + ((cp - 0x10000) >> 10),
                           0xdc00 + ((cp - 0x10000) & 0x3ff))
                : 0;
    if (n == 0) {
        t->n_word--;
        fail(p, c);
        return;
    }
    t->n_word = 0;
    t->escaped = false;
    (void)put(p, text, n, c);
}

/* A backslash was before c. One that means nothing stands for itself. */
static void escape_byte(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (t->n_word > 0 || c == 'x' || c == 'u' || c == 'U') {
        code_byte(p, c);
        return;
    }
    t->escaped = false;
    const char both[] = {'\\', c};
    if (c != '\0' && strchr("\"\\/bfnrt", c) != NULL) {
        (void)put(p, both, 2, c);
    } else if (c == '\'') {
        (void)put(p, "'", 1, c);
    } else if (c != '\n' && put(p, "\\\\", 2, c)) { /* a line end after it is no part of the text */
        (void)put_escaped(p, c, c);
    }
}

static void text_byte(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (t->escaped) {
        escape_byte(p, c);
    } else if (c == '\\') {
        t->escaped = true;
    } else if (c == t->quote) {
        t->quote = '\0';
        (void)put(p, "\"", 1, c);
    } else {
        (void)put_escaped(p, c, c);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

/* The word that is over becomes JSON's; false: there is none such, and the call is broken. */
static bool word_ends(whim_chat_parser *p, char c)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    whim_python_call *t = &p->python;
    t->word[t->n_word] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i][0], t->word) == 0) {
            t->n_word = 0;
            return put(p, words[i][1], (int64_t)strlen(words[i][1]), c);
        }
    }
    fail(p, c);
    return false;
}

/* A number or a word ends where c is no part of it; true: c is still to be taken. */
static bool settle(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (t->n_word > 0) {
        if (isalpha((unsigned char)c) && t->n_word < (int32_t)sizeof t->word - 1) {
            t->word[t->n_word++] = c;
            return false;
        }
        return word_ends(p, c);
    }
    if (t->walk.phase == WHIM_JSON_NUMBER) {
        if (c != '\0' && strchr("0123456789+-.eE", c) != NULL) {
            (void)put(p, &c, 1, c);
            return false;
        }
        if (!whim_json_walk_step(&t->walk, ' ')) {
            fail(p, c);
            return false;
        }
    }
    return true;
}

/* What ends a value of the call itself. */
static bool is_end(const whim_python_call *t, char c)
{
    return t->walk.depth == 1 && t->walk.phase == WHIM_JSON_AFTER && (c == ',' || c == ')');
}

/* A byte that is no part of a text, a number or a word. */
static void mark_byte(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    const bool after = t->walk.phase == WHIM_JSON_AFTER;
    if (is_end(t, c)) {
        t->comma = c == ',';
        t->state = ARGUMENT;
        if (c == ')') {
            call_end(p, c);
        }
        return;
    }
    if (c == ',' && after && !t->comma) { /* Python takes one before a bracket */
        t->comma = true;
        return;
    }
    const bool closes = c == ']' || c == '}';
    if (t->comma && !closes && !put(p, ", ", 2, c)) {
        return;
    }
    t->comma = false;
    const bool wants_value = t->walk.phase == WHIM_JSON_VALUE || t->walk.phase == WHIM_JSON_FIRST;
    if (c == '"' || c == '\'') {
        t->quote = c;
        (void)put(p, "\"", 1, c);
    } else if (isalpha((unsigned char)c) && wants_value) {
        t->word[t->n_word++] = c;
    } else if (t->walk.depth == 1 && closes) {
        fail(p, c);
    } else {
        (void)put(p, &c, 1, c);
    }
}

static void value_byte(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (t->quote != '\0') {
        text_byte(p, c);
    } else if (settle(p, c) && !whim_is_blank(c)) {
        mark_byte(p, c);
    }
}

/* --- names and keys --------------------------------------------------------------------------- */

static bool is_tool(const whim_chat_parser *p)
{
    return whim_tool_function(p->cfg.tools, whim_str_text(&p->python.name)) != NULL;
}

/* A byte of a name or of a key. */
static void word_byte(whim_chat_parser *p, whim_str *word, char c)
{
    whim_str_append_n(word, &c, 1);
    if (word->failed || word->len > WHIM_WORD_MAX || (!p->sent && !whim_tool_hold(p, &c, 1))) {
        fail(p, c);
    }
}

static void name_step(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (is_word(c)) {
        word_byte(p, &t->name, c);
    } else if (c == '(' && (!is_bare(p) || is_tool(p))) {
        t->state = ARGUMENT;
        hold_or_break(p, c);
    } else {
        fail(p, c);
    }
}

/* Where a call begins, or an argument. */
static void begin_step(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    const bool is_call = t->state == CALL;
    whim_str *word = is_call ? &t->name : &t->key;
    if (!is_call && c == ')') {
        call_end(p, c);
    } else if (whim_is_blank(c)) {
        if (!p->sent) {
            hold_or_break(p, c);
        }
    } else if (isalpha((unsigned char)c) || c == '_') {
        t->state = is_call ? NAME : KEY;
        whim_str_clear(word);
        word_byte(p, word, c);
    } else {
        fail(p, c);
    }
}

/* The key is whole at "=", and with it what is before its value. */
static void key_send(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    const bool first = !p->sent;
    t->state = VALUE;
    t->comma = false;
    if (!begin_arguments(p, c) || !put(p, first ? "\"" : ", \"", first ? 1 : 3, c)) {
        return;
    }
    for (int64_t i = 0; i < t->key.len; i++) {
        if (!put_escaped(p, t->key.text[i], c)) {
            return;
        }
    }
    (void)put(p, "\": ", 3, c);
}

static void key_step(whim_chat_parser *p, char c)
{
    whim_python_call *t = &p->python;
    if (t->state == KEY && is_word(c)) {
        word_byte(p, &t->key, c);
    } else if (c == '=') {
        key_send(p, c);
    } else if (whim_is_blank(c)) {
        t->state = KEYED;
        if (!p->sent) {
            hold_or_break(p, c);
        }
    } else {
        fail(p, c);
    }
}

/* --- the list --------------------------------------------------------------------------------- */

static void list_step(whim_chat_parser *p, char c)
{
    if (c == '[') {
        call_begin(&p->python);
        hold_or_break(p, c);
    } else if (whim_is_blank(c)) {
        hold_or_break(p, c);
    } else {
        fail(p, c);
    }
}

static void behind_step(whim_chat_parser *p, char c)
{
    if (c == ',') {
        p->sent = false;
        call_begin(&p->python);
        hold_or_break(p, c);
    } else if (c == ']') {
        p->python.state = CLOSE;
        if (is_bare(p)) {
            whim_tool_leave(p);
        }
    } else if (!whim_is_blank(c)) {
        fail(p, c);
    }
}

static void close_step(whim_chat_parser *p, char c)
{
    if (p->n_tag == 0 && whim_is_blank(c)) {
        return;
    }
    int match = whim_tool_match(p, &p->cfg.format.tools->close, 1, c);
    if (match == 0) {
        whim_tool_leave(p);
    } else if (match == -2) {
        fail(p, c);
    }
}

void whim_python_step(whim_chat_parser *p, char c)
{
    static whim_tool_byte_fn *const steps[] = {
        [LIST] = list_step,      [CALL] = begin_step,    [NAME] = name_step,
        [ARGUMENT] = begin_step, [KEY] = key_step,       [KEYED] = key_step,
        [VALUE] = value_byte,    [BEHIND] = behind_step, [CLOSE] = close_step};
    steps[p->python.state](p, c);
}
