/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with a tag for every parameter:
 * <function=NAME><parameter=KEY>VALUE</parameter></function>, or with quoted names, or with tags
 * around the key and around the value. The JSON of the arguments is made here: values by the type
 * that the tool's schema gives them. A string goes out while it comes in; what may be another type
 * waits for its end, or for the byte that shows that it is a string after all. Of a parameter that
 * comes twice the first counts: a key that comes twice in JSON means what its reader likes. A
 * missing </parameter> or </function> is forgiven where the next tag begins a line. */
#include "base/json.h"
#include "chat/tools/parser.h"

#include <stdio.h>
#include <string.h>

/* NAMED and KEYED: behind a name or a key that end where the next tag begins. */
enum { OPENED, NAME, NAMED, BETWEEN, KEY, KEYED, VALUE, CLOSED };

enum { MAX_SEEN = 64 << 10 };

/* Also the order of value_ends, where the first two are the end with and without its newline. */
enum { TAG_FUNCTION, TAG_PARAMETER_END, TAG_PARAMETER, TAG_FUNCTION_END, TAG_CLOSE, N_TAG };
enum { WRAPPED = WHIM_N_VALUE_END }; /* in the same order: text_open, then text_end */

static const whim_tool_words *tags_of(const whim_chat_parser *p)
{
    return p->cfg.format.tools;
}

static void send_text(whim_chat_parser *p, const char *text, int64_t n)
{
    if (!p->call.repeated) {
        whim_tool_emit(p, WHIM_CHAT_CALL_ARGS, text, n);
    }
}

static void send_escaped(whim_chat_parser *p, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        char escape[8];
        send_text(p, escape, whim_json_escape(bytes[i], escape));
    }
}

/* --- values ----------------------------------------------------------------------------------- */

static uint32_t type_by_first(char c)
{
    static const struct {
        const char *first;
        uint32_t type;
    } rows[] = {{"{", WHIM_TYPE_OBJECT},
                {"[", WHIM_TYPE_ARRAY},
                {"tfTF", WHIM_TYPE_BOOLEAN},
                {"n", WHIM_TYPE_NULL},
                {"-0123456789", WHIM_TYPE_NUMBER}};
    for (size_t i = 0; c != '\0' && i < sizeof rows / sizeof rows[0]; i++) {
        if (strchr(rows[i].first, c) != NULL) {
            return rows[i].type;
        }
    }
    return WHIM_TYPE_STRING;
}

/* True and False, as templates that print Python's words teach them. */
static bool is_python_bool(const whim_tag_call *t, bool whole)
{
    const char *text = whim_str_text(&t->value);
    const char *word = text[0] == 'T' ? "True" : text[0] == 'F' ? "False" : NULL;
    return (t->types & WHIM_TYPE_BOOLEAN) != 0 && word != NULL &&
           strncmp(word, text, (size_t)t->value.len) == 0 &&
           (!whole || (size_t)t->value.len == strlen(word));
}

static void become_string(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    t->streaming = true;
    send_text(p, "\"", 1);
    send_escaped(p, t->value.text, t->value.len);
    whim_str_clear(&t->value);
}

static void value_begin(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    t->types = t->repeated
                   ? WHIM_TYPE_STRING /* nothing waits */
                   : whim_tool_types(p->cfg.tools, whim_str_text(&t->name), whim_str_text(&t->key));
    t->types = t->as_text ? WHIM_TYPE_STRING : t->as_json ? 0 : t->types;
    t->at_start = true;
    t->streaming = t->wrapped = false;
    t->walk = (whim_json_walk){0};
    whim_str_clear(&t->value);
    if (t->types == WHIM_TYPE_STRING) {
        become_string(p);
    }
}

static void value_byte(whim_chat_parser *p, char c)
{
    whim_tag_call *t = &p->call;
    bool padding = t->at_start && c == '\n' && tags_of(p)->padded;
    t->at_start = false;
    if (padding) {
        return;
    }
    if (t->streaming) {
        send_escaped(p, &c, 1);
        return;
    }
    bool word =
        is_python_bool(t, false); /* then the walk stands before the value, and stays there */
    bool first = t->walk.phase == WHIM_JSON_VALUE && t->walk.depth == 0 && !whim_is_blank(c);
    uint32_t type = type_by_first(c);
    bool fits = word || !first || t->as_json ||
                (type != WHIM_TYPE_STRING && (t->types == 0 || (t->types & type) != 0));
    bool walked = !word && whim_json_walk_step(&t->walk, c);
    whim_str_append_n(&t->value, &c, 1);
    if (t->value.failed) { /* no memory to wait in */
        become_string(p);
        send_escaped(p, &c, 1);
    } else if (!fits || (!walked && !is_python_bool(t, false))) {
        become_string(p);
    }
}

static void value_end(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    const char *text = whim_str_text(&t->value);
    int64_t n = t->value.len;
    if (!t->streaming && is_python_bool(t, true)) {
        send_text(p, text[0] == 'T' ? "true" : "false", text[0] == 'T' ? 4 : 5);
    } else if (!t->streaming && whim_json_walk_is_whole(&t->walk)) {
        while (n > 0 && whim_is_blank(text[n - 1])) {
            n--;
        }
        while (n > 0 && whim_is_blank(*text)) {
            text++;
            n--;
        }
        send_text(p, text, n);
    } else {
        if (!t->streaming) {
            become_string(p);
        }
        send_text(p, "\"", 1);
    }
    whim_str_clear(&t->value);
    t->repeated = false;
}

/* The answer ends inside a value: what waits goes out as far as it is JSON. */
void whim_tag_call_finish(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    if (t->state == VALUE && !t->streaming && t->value.len > 0) {
        if (is_python_bool(t, false)) {
            become_string(p);
        } else {
            send_text(p, t->value.text, t->value.len);
        }
    }
}

/* --- names and keys --------------------------------------------------------------------------- */

/* Drop what ends a word, if it does. */
static bool drop_end(whim_str *word, const char *end)
{
    const int64_t n = end == NULL ? 0 : (int64_t)strlen(end);
    if (n == 0 || word->len < n || memcmp(word->text + word->len - n, end, (size_t)n) != 0) {
        return false;
    }
    word->len -= n;
    word->text[word->len] = '\0';
    return true;
}

/* A byte of <function=NAME> or of <parameter=KEY>: true when the word is whole, else false; *bad
 * when it is none. */
static bool word_byte(whim_chat_parser *p, whim_str *word, char c, bool *bad)
{
    if (c == '>') {
        if (word == &p->call.key) {
            p->call.as_text = drop_end(word, tags_of(p)->as_text);
            p->call.as_json = drop_end(word, tags_of(p)->as_json);
        }
        const char *text = whim_str_text(word);
        int64_t n = word->len;
        bool quoted = n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0];
        if (quoted) {
            memmove(word->text, word->text + 1, (size_t)n - 2);
            word->len = n - 2;
            word->text[word->len] = '\0';
        }
        *bad = word->len == 0 || word->failed;
        return !*bad;
    }
    whim_str_append_n(word, &c, 1);
    *bad = c == '\n' || c == '<' || c == '\0' || word->len > WHIM_WORD_MAX ||
           !whim_tool_hold(p, &c, 1);
    return false;
}

static void name_send(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    whim_tool_send(p, t->name.text, t->name.len);
    send_text(p, "{", 1);
    t->first = true;
    whim_str_clear(&t->seen);
    t->state = BETWEEN;
}

static void name_byte(whim_chat_parser *p, char c)
{
    whim_tag_call *t = &p->call;
    bool bad;
    if (word_byte(p, &t->name, c, &bad)) {
        name_send(p);
    } else if (bad) {
        whim_tool_break(p, c);
    }
}

/* Whether the call has this key already; if not, it has now. A list that is very long is not made
 * longer. */
static bool key_is_repeated(whim_tag_call *t)
{
    char line[WHIM_WORD_MAX + 4];
    int n = snprintf(line, sizeof line, "\n%s\n", t->key.text);
    if (memmem(whim_str_text(&t->seen), (size_t)t->seen.len, line, (size_t)n) != NULL) {
        return true;
    }
    if (t->seen.len < MAX_SEEN) {
        whim_str_append_n(&t->seen, line, n);
    }
    return false;
}

static void key_send(whim_chat_parser *p)
{
    whim_tag_call *t = &p->call;
    whim_str_clear(&p->raw);
    t->repeated = key_is_repeated(t);
    send_text(p, t->first ? "\"" : ", \"", t->first ? 1 : 3);
    send_escaped(p, t->key.text, t->key.len);
    send_text(p, "\": ", 3);
    t->first = false;
    t->state = VALUE;
    value_begin(p);
}

static void key_byte(whim_chat_parser *p, char c)
{
    bool bad;
    if (word_byte(p, &p->call.key, c, &bad)) {
        key_send(p);
    } else if (bad) {
        whim_tool_break(p, c);
    }
}

/* --- tags ------------------------------------------------------------------------------------- */

void whim_tag_call_start(whim_chat_parser *p, bool at_function)
{
    whim_tag_call *t = &p->call;
    t->state = at_function ? NAME : OPENED;
    whim_str_clear(&t->name);
}

/* A whole tag between names and values; what may come where was decided before. */
static void take_tag(whim_chat_parser *p, int tag)
{
    whim_tag_call *t = &p->call;
    const whim_tool_words *set = tags_of(p);
    p->n_tag = 0;
    if (tag == TAG_FUNCTION || tag == TAG_PARAMETER) {
        const char *text = tag == TAG_FUNCTION ? set->function : set->parameter;
        p->sent = p->sent && tag == TAG_PARAMETER;
        t->state = tag == TAG_FUNCTION ? NAME : KEY;
        whim_str_clear(tag == TAG_FUNCTION ? &t->name : &t->key);
        (void)whim_tool_hold(p, text,
                             (int64_t)strlen(text)); /* its first byte tells a lack of room */
        return;
    }
    if (t->state != CLOSED) {
        send_text(p, "}", 1);
        whim_tool_end(p);
    }
    t->state = CLOSED;
    if (tag == TAG_CLOSE) {
        whim_tool_leave(p);
    }
}

/* --- names and keys that end where a tag begins ----------------------------------------------- */

static void hold_or_break(whim_chat_parser *p, char c)
{
    if (!whim_tool_hold(p, &c, 1)) {
        whim_tool_break(p, c);
    }
}

/* One of the tags that may come next, behind white space: its number, or -1 while it is not whole;
 * anything else breaks the call. */
static int next_tag(whim_chat_parser *p, const char *const *tags, int n, char c)
{
    if (p->n_tag == 0 && whim_is_blank(c)) {
        hold_or_break(p, c);
        return -1;
    }
    int match = whim_tool_match(p, tags, n, c);
    if (match == -2) {
        whim_tool_break(p, c);
        return -1;
    }
    return match;
}

/* Arguments, or the end of a call that has none: now it is sure to be a call. */
static void named_step(whim_chat_parser *p, char c)
{
    const whim_tool_words *set = tags_of(p);
    const char *const tags[N_TAG + 1] = {[TAG_PARAMETER] = set->parameter,
                                         [TAG_FUNCTION_END] = set->function_end,
                                         [N_TAG] = set->name_end};
    int match = next_tag(p, tags, N_TAG + 1, c);
    if (match == N_TAG) {
        (void)whim_tool_keep_tag(p, tags[N_TAG], c);
    } else if (match >= 0) {
        name_send(p);
        take_tag(p, match);
    }
}

static void bare_name_step(whim_chat_parser *p, char c)
{
    whim_tag_call *t = &p->call;
    if (t->name.len == 0 && whim_is_blank(c)) {
        hold_or_break(p, c);
        return;
    }
    if (t->name.len > 0 && (c == '<' || c == '\n')) {
        while (whim_is_blank(t->name.text[t->name.len - 1])) {
            t->name.text[--t->name.len] = '\0';
        }
        t->state = NAMED;
        named_step(p, c);
        return;
    }
    whim_str_append_n(&t->name, &c, 1);
    if (c == '\0' || strchr("<>[]{}\"'", c) != NULL || t->name.failed ||
        t->name.len > WHIM_WORD_MAX) {
        whim_tool_break(p, c);
    } else {
        hold_or_break(p, c);
    }
}

static void bare_key_byte(whim_chat_parser *p, char c)
{
    whim_str *key = &p->call.key;
    whim_str_append_n(key, &c, 1);
    if (c == '\n' || c == '<' || c == '\0' || key->failed || key->len > WHIM_WORD_MAX) {
        whim_tool_break(p, c);
    } else {
        hold_or_break(p, c);
    }
}

static void bare_key_step(whim_chat_parser *p, char c)
{
    const char *const tags[] = {tags_of(p)->key_end};
    int match = whim_tool_match(p, tags, 1, c);
    if (match == -2) {
        whim_tool_again(p, c, bare_key_byte, whim_tool_text);
    } else if (match == 0 && p->call.key.len == 0) {
        p->n_tag--;
        whim_tool_break(p, c);
    } else if (match == 0 && whim_tool_keep_tag(p, tags[0], c)) {
        p->call.state = KEYED;
    }
}

static void keyed_step(whim_chat_parser *p, char c)
{
    const char *const tags[] = {tags_of(p)->value};
    if (next_tag(p, tags, 1, c) == 0) {
        p->n_tag = 0;
        key_send(p);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static void tag_byte(whim_chat_parser *p, char c)
{
    const whim_tool_words *set = tags_of(p);
    bool between = p->call.state == BETWEEN;
    const char *const tags[N_TAG] = {
        [TAG_FUNCTION] = between ? NULL : set->function,
        [TAG_PARAMETER] = between ? set->parameter : NULL,
        [TAG_FUNCTION_END] = between ? set->function_end : NULL,
        [TAG_CLOSE] = p->call.state == OPENED ? NULL : set->close,
    };
    if (p->n_tag == 0 && whim_is_blank(c)) {
        if (p->call.state == OPENED && !whim_tool_hold(p, &c, 1)) {
            whim_tool_break(p, c);
        }
        return;
    }
    int match = whim_tool_match(p, tags, N_TAG, c);
    if (match >= 0) {
        take_tag(p, match);
    } else if (match == -2) {
        whim_tool_break(p, c);
    }
}

/* A byte of a value, which the end of the parameter may be hidden in. In a string of JSON no tag
 * ends it but one that begins a line, which no such string can hold. */
static void value_step(whim_chat_parser *p, char c)
{
    const whim_tool_words *set = tags_of(p);
    const bool in_string = !p->call.streaming && p->call.walk.phase == WHIM_JSON_STRING;
    const char *tags[WHIM_N_VALUE_END + 2] = {NULL};
    for (int i = 0; i < WHIM_N_VALUE_END && !p->call.wrapped; i++) {
        const char *tag = set->value_ends[i];
        tags[i] = in_string && tag != NULL && tag[0] != '\n' ? NULL : tag;
    }
    tags[WRAPPED] = p->call.at_start ? set->text_open : NULL;
    tags[WRAPPED + 1] = p->call.wrapped ? set->text_end : NULL;
    bool padding = set->padded && p->call.at_start && p->n_tag == 0 && c == '\n';
    int match = padding ? -2 : whim_tool_match(p, tags, WRAPPED + 2, c);
    if (match == -1) {
        return;
    }
    if (match == -2) {
        whim_tool_again(p, c, value_byte, value_step);
        return;
    }
    p->n_tag = 0;
    if (match == WRAPPED) {
        p->call.wrapped = true;
        p->call.at_start = false;
        if (!p->call.streaming) {
            become_string(p);
        }
        return;
    }
    value_end(p);
    p->call.state = BETWEEN;
    if (match >= TAG_PARAMETER && match < WRAPPED) { /* another tag stands in for the missing one */
        take_tag(p, match);
    }
}

void whim_tag_call_step(whim_chat_parser *p, char c)
{
    const bool pairs = tags_of(p)->key_end != NULL;
    switch (p->call.state) {
    case NAME:
        (pairs ? bare_name_step : name_byte)(p, c);
        break;
    case NAMED:
        named_step(p, c);
        break;
    case KEY:
        (pairs ? bare_key_step : key_byte)(p, c);
        break;
    case KEYED:
        keyed_step(p, c);
        break;
    case VALUE:
        value_step(p, c);
        break;
    default:
        tag_byte(p, c);
        break;
    }
}
