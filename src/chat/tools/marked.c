/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are nearly JSON: keys stand bare, texts between two marks, nothing is escaped.
 *     {city:<|"|>Oslo<|"|>,days:[1,2]}
 * They become JSON byte by byte. A key or a text that the model puts in quotes after all stays as
 * it is, and Python's None is null. */
#include "base/json.h"
#include "chat/tools/parser.h"

#include <string.h>

enum { BETWEEN, KEY, TEXT };

/* JSON for the byte c; false: it cannot come, and the call is broken. */
static bool put(whim_chat_parser *p, const char *json, int n, char c)
{
    for (int i = 0; i < n; i++) {
        if (!whim_named_argument(p, json[i])) {
            whim_tool_break(p, c);
            return false;
        }
    }
    return true;
}

static void put_escaped(whim_chat_parser *p, char c)
{
    char escape[8];
    (void)put(p, escape, whim_json_escape(c, escape), c);
}

/* A key ends at its colon. */
static void key_byte(whim_chat_parser *p, char c)
{
    if (c == ':') {
        if (put(p, "\":", 2, c)) {
            p->named.marked = BETWEEN;
        }
    } else if ((unsigned char)c < ' ' || strchr("{}[],\"<", c) != NULL) {
        whim_tool_break(p, c);
    } else {
        put_escaped(p, c);
    }
}

/* The mark that begins a text or ends it is whole. */
static void at_mark(whim_chat_parser *p, char c)
{
    bool ends = p->named.marked == TEXT;
    p->n_tag = 0;
    if (put(p, "\"", 1, c)) {
        p->named.marked = ends ? BETWEEN : TEXT;
    }
}

static void text_step(whim_chat_parser *p, char c)
{
    int match = whim_tool_match(p, &p->cfg.format.tools->quote, 1, c);
    if (match == -2) {
        whim_tool_again(p, c, put_escaped, whim_tool_text);
    } else if (match == 0) {
        at_mark(p, c);
    }
}

static void between_step(whim_chat_parser *p, char c)
{
    const whim_json_phase phase = p->named.walk.phase;
    const bool wants_key = phase == WHIM_JSON_FIRST_KEY || phase == WHIM_JSON_NEXT_KEY;
    const bool wants_value = phase == WHIM_JSON_VALUE || phase == WHIM_JSON_FIRST;
    const char *const tags[] = {wants_key || wants_value ? p->cfg.format.tools->quote : NULL,
                                wants_value ? "None" : NULL};
    int match = whim_tool_match(p, tags, 2, c);
    if (match == 0) {
        at_mark(p, c);
    } else if (match == 1) {
        p->n_tag = 0;
        (void)put(p, "null", 4, c);
    } else if (match == -2 && p->n_tag > 0) {
        whim_tool_break(p, c);
    } else if (match == -2 && wants_key && !whim_is_blank(c) && strchr("\"}", c) == NULL) {
        p->named.marked = KEY;
        if (put(p, "\"", 1, c)) {
            key_byte(p, c);
        }
    } else if (match == -2) {
        (void)put(p, &c, 1, c);
    }
}

void whim_marked_step(whim_chat_parser *p, char c)
{
    static whim_tool_byte_fn *const steps[] = {
        [BETWEEN] = between_step, [KEY] = key_byte, [TEXT] = text_step};
    steps[p->named.marked](p, c);
}
