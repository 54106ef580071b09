/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose name stands between tags and whose arguments are an object behind it: JSON, which
 * goes out as it was written, or what becomes JSON (marked.c). */
#include "chat/tools/parser.h"

#include <string.h>

/* Behind the opening tag; in an id before the name, in the name, in an id behind it (ids are
 * dropped); before the arguments and in them; behind them. */
enum { OPENED, FIRST_ID, NAME, ID, ARGUMENTS, BEHIND };

/* Where the parser is behind the tag of a function. */
static int32_t behind_tag(const whim_chat_parser *p)
{
    return p->cfg.format.tools->name_begin != NULL ? FIRST_ID : NAME;
}

void whim_named_start(whim_chat_parser *p, bool at_function)
{
    whim_named_call *t = &p->named;
    t->state = at_function ? behind_tag(p) : OPENED;
    whim_str_clear(&t->name);
}

static void hold_or_break(whim_chat_parser *p, char c)
{
    if (!whim_tool_hold(p, &c, 1)) {
        whim_tool_break(p, c);
    }
}

static void take_tag(whim_chat_parser *p, const char *tag, char c, int32_t state)
{
    if (whim_tool_keep_tag(p, tag, c)) {
        p->named.state = state;
    }
}

static void opened_byte(whim_chat_parser *p, char c)
{
    const char *const tags[] = {p->cfg.format.tools->function};
    if (p->n_tag == 0 && whim_is_blank(c)) {
        hold_or_break(p, c);
        return;
    }
    int match = whim_tool_match(p, tags, 1, c);
    if (match == -2) {
        whim_tool_break(p, c);
    } else if (match == 0) {
        take_tag(p, tags[0], c, behind_tag(p));
    }
}

/* --- the name --------------------------------------------------------------------------------- */

/* A byte of the name; it ends at a tag, so that a word can be no longer than those of tools. */
static void name_byte(whim_chat_parser *p, char c)
{
    whim_named_call *t = &p->named;
    bool is_word = c != '\0' && strchr("\n<[{\"", c) == NULL;
    whim_str_append_n(&t->name, &c, 1);
    if (!is_word || t->name.failed || t->name.len > WHIM_WORD_MAX) {
        whim_tool_break(p, c);
    } else {
        hold_or_break(p, c);
    }
}

static void name_trim(whim_str *name)
{
    int64_t from = 0;
    while (name->len > 0 && name->text[name->len - 1] == ' ') {
        name->len--;
    }
    while (from < name->len && name->text[from] == ' ') {
        from++;
    }
    name->len -= from;
    memmove(name->text, name->text + from, (size_t)name->len);
    name->text[name->len] = '\0';
}

/* The name is whole; whether what follows may be a call's arguments. */
static bool name_is_good(const whim_chat_parser *p)
{
    const whim_str *name = &p->named.name;
    return name->len > 0 && p->cfg.parse_tools &&
           (p->cfg.format.tools->said == NULL ||
            whim_tool_function(p->cfg.tools, whim_str_text(name)) != NULL);
}

/* What follows is for the user: neither a call nor the end of one. It goes on a line of its own
 * behind what was said. */
static void speak(whim_chat_parser *p)
{
    whim_tool_leave(p);
    p->after_call = false;
    if (p->said) {
        (void)whim_tool_hold(p, "\n", 1); /* goes out with the text that follows */
    }
}

static void name_step(whim_chat_parser *p, char c)
{
    whim_named_call *t = &p->named;
    const whim_tool_words *words = p->cfg.format.tools;
    const char *const tags[] = {words->name_end, words->call_id};
    int match = whim_tool_match(p, tags, 2, c);
    if (match == -2) {
        whim_tool_again(p, c, name_byte, whim_tool_text);
    } else if (match >= 0) {
        if (t->name.len > 0) {
            name_trim(&t->name);
        }
        t->walk = (whim_json_walk){0};
        t->marked = 0;
        if (words->said != NULL && strcmp(whim_str_text(&t->name), words->said) == 0) {
            speak(p);
            return;
        }
        if (!name_is_good(p)) {
            p->n_tag--;
            whim_tool_break(p, c);
        } else {
            take_tag(p, tags[match], c, match == 0 ? ARGUMENTS : ID);
        }
        if (t->state == ARGUMENTS && words->quote != NULL && p->in_call) {
            (void)whim_named_argument(p, c); /* the brace, at which the name ended */
        }
    }
}

static void id_step(whim_chat_parser *p, char c)
{
    const bool first = p->named.state == FIRST_ID;
    const whim_tool_words *words = p->cfg.format.tools;
    const char *const tags[] = {first ? words->name_begin : words->name_end};
    int match = whim_tool_match(p, tags, 1, c);
    if (match == -2 && p->raw.len > WHIM_WORD_MAX && first) {
        whim_tool_break(p, c);
    } else if (match == -2) {
        whim_tool_again(p, c, hold_or_break, whim_tool_text);
    } else if (match == 0) {
        take_tag(p, tags[0], c, first ? NAME : ARGUMENTS);
    }
}

/* --- the arguments ---------------------------------------------------------------------------- */

bool whim_named_argument(whim_chat_parser *p, char c)
{
    whim_named_call *t = &p->named;
    bool before = t->walk.depth == 0;
    if ((before && c != '{') || !whim_json_walk_step(&t->walk, c)) {
        return false;
    }
    if (before) {
        whim_tool_send(p, t->name.text, t->name.len);
    }
    whim_tool_emit(p, WHIM_CHAT_CALL_ARGS, &c, 1);
    if (t->walk.phase == WHIM_JSON_DONE) {
        whim_tool_end(p);
        t->state = BEHIND;
        t->ended = false;
    }
    return true;
}

static void arguments_byte(whim_chat_parser *p, char c)
{
    if (p->cfg.format.tools->quote != NULL) {
        whim_marked_step(p, c);
    } else if (p->named.walk.depth == 0 && whim_is_blank(c)) {
        hold_or_break(p, c);
    } else if (!whim_named_argument(p, c)) {
        whim_tool_break(p, c);
    }
}

/* The end of this call, the next one, or the end of all. */
static void behind_byte(whim_chat_parser *p, char c)
{
    whim_named_call *t = &p->named;
    const whim_tool_words *words = p->cfg.format.tools;
    const char *const tags[] = {t->ended ? NULL : words->function_end, words->function,
                                words->close};
    if (p->n_tag == 0 && whim_is_blank(c)) {
        return;
    }
    int match = whim_tool_match(p, tags, 3, c);
    if (match == -2) {
        whim_tool_break(p, c);
    } else if (match == 2) {
        whim_tool_leave(p);
    } else if (match >= 0) {
        p->n_tag = 0;
        t->ended = match == 0;
    }
    if (match == 1) {
        p->sent = false;
        whim_named_start(p, true);
        (void)whim_tool_hold(p, tags[1], (int64_t)strlen(tags[1])); /* nothing else waits */
    }
}

void whim_named_step(whim_chat_parser *p, char c)
{
    static whim_tool_byte_fn *const steps[] = {
        [OPENED] = opened_byte, [FIRST_ID] = id_step,         [NAME] = name_step,
        [ID] = id_step,         [ARGUMENTS] = arguments_byte, [BEHIND] = behind_byte};
    steps[p->named.state](p, c);
}
