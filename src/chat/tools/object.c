/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are JSON objects, {"name": .., "arguments": {..}}: between tags, in a list between
 * tags, or as the whole answer. The arguments go out as they were written, byte by byte, as soon as
 * the name is known; arguments in a string are taken out of it. Other keys are passed over. */
#include "base/json.h"
#include "base/utf8.h"
#include "chat/tools/parser.h"

#include <string.h>

enum { OTHER, NAME, OBJECT, TEXT, NOTHING }; /* what the value at work is */

/* --- the inside of a string ------------------------------------------------------------------- */

/* Whether the held bytes are half of a pair, and what follows may still be the other. */
static bool waits_for_half(const whim_unescape *u, int32_t len, int32_t cp)
{
    return cp >= 0xd800 && cp < 0xdc00 && u->n < 12 && len == 6 &&
           strncmp("\\u", u->held + 6, (size_t)(u->n < 8 ? u->n - 6 : 2)) == 0;
}

/* The characters that become clear with c, or at the end of the string (c is 0), up to 7 bytes; the
 * string is known to be valid. A half of a pair that stays alone becomes U+FFFD. */
static int unescape_step(whim_unescape *u, char c, char out[8])
{
    int n = 0;
    u->held[u->n] = c;
    u->n += c != '\0';
    while (u->n > 0) {
        int32_t cp = 0, len = 1;
        if (u->held[0] != '\\') {
            out[n++] = u->held[0];
        } else {
            len = whim_json_unescape(u->held, u->n, &cp);
            if (len == 0 || (c != '\0' && waits_for_half(u, len, cp))) {
                break;
            }
            n += whim_utf8_encode(cp >= 0xd800 && cp < 0xe000 ? 0xfffd : cp, out + n);
        }
        u->n -= len;
        memmove(u->held, u->held + len, (size_t)u->n);
    }
    return n;
}

/* --- the call --------------------------------------------------------------------------------- */

/* Where the parser is: before the fence around calls or before the list of them, in an object or
 * before it, behind one. */
enum { AT_FENCE, AT_LIST, AT_OBJECT, BEHIND };

/* Whether the answer itself is the call, without tags. */
static bool is_bare(const whim_chat_parser *p)
{
    return p->cfg.format.tools->open == NULL;
}

static void object_begin(whim_object_call *h, int32_t state)
{
    whim_str_clear(&h->name);
    whim_str_clear(&h->pending);
    *h = (whim_object_call){
        .state = state, .in_list = h->in_list, .name = h->name, .pending = h->pending};
}

void whim_object_start(whim_chat_parser *p, bool at_function)
{
    const whim_tool_words *words = p->cfg.format.tools;
    (void)at_function;
    p->object.in_list = false;
    object_begin(&p->object, words->fence != NULL ? AT_FENCE : words->list ? AT_LIST : AT_OBJECT);
}

static void arguments(whim_chat_parser *p, const char *bytes, int64_t n)
{
    if (p->sent) {
        whim_tool_emit(p, WHIM_CHAT_CALL_ARGS, bytes, n);
    } else {
        whim_str_append_n(&p->object.pending, bytes, n);
    }
}

static void send_when_known(whim_chat_parser *p)
{
    whim_object_call *h = &p->object;
    if (p->sent || !h->has_name || !h->begun) {
        return;
    }
    whim_tool_send(p, whim_str_text(&h->name), h->name.len);
    arguments(p, h->pending.text, h->pending.len);
}

static const char *name_key(const whim_chat_parser *p)
{
    const char *key = p->cfg.format.tools->name_key;
    return key != NULL ? key : "name";
}

static bool key_is(const whim_object_call *h, const char *word)
{
    size_t n = strlen(word);
    return (size_t)h->n_key == n && memcmp(h->key, word, n) == 0;
}

/* An object without tags may be an answer that is no call, and should not wait for its end. */
static bool is_key_of_calls(const whim_chat_parser *p)
{
    const whim_object_call *h = &p->object;
    return key_is(h, name_key(p)) || key_is(h, "parameters") || key_is(h, "arguments") ||
           key_is(h, "type") || key_is(h, "id");
}

static bool is_tool(const whim_chat_parser *p)
{
    const whim_str *name = &p->object.name;
    return strlen(whim_str_text(name)) == (size_t)name->len &&
           whim_tool_function(p->cfg.tools, whim_str_text(name)) != NULL;
}

/* What a value of the outer object that begins with c is for, or -1 when it cannot be a call's. */
static int role_of(const whim_chat_parser *p, char c)
{
    const whim_object_call *h = &p->object;
    const bool by_key = p->cfg.format.tools->named_by_key;
    if (!by_key && key_is(h, name_key(p))) {
        return c == '"' && !h->has_name ? NAME : -1;
    }
    if (by_key || key_is(h, "arguments") || key_is(h, "parameters")) {
        return h->begun ? -1 : c == '{' ? OBJECT : c == '"' ? TEXT : c == 'n' ? NOTHING : -1;
    }
    return OTHER;
}

/* A byte inside the string of a name or of arguments; false when it breaks the call. */
static bool string_byte(whim_chat_parser *p, char c)
{
    whim_object_call *h = &p->object;
    char out[8];
    int n = unescape_step(&h->unescape, c, out);
    if (h->role == NAME) {
        whim_str_append_n(&h->name, out, n);
        return !h->name.failed;
    }
    for (int i = 0; i < n; i++) {
        bool first = h->inner.phase == WHIM_JSON_VALUE && h->inner.depth == 0;
        if (first && whim_is_blank(out[i])) {
            continue;
        }
        if ((first && out[i] != '{') || !whim_json_walk_step(&h->inner, out[i])) {
            return false;
        }
        h->begun = true;
        arguments(p, out + i, 1);
    }
    return true;
}

/* The string of a name or of arguments is over. */
static bool string_ends(whim_chat_parser *p)
{
    whim_object_call *h = &p->object;
    char out[8];
    int n = unescape_step(&h->unescape, '\0', out);
    if (h->role == NAME) {
        whim_str_append_n(&h->name, out, n);
        h->has_name = h->name.len > 0;
        return h->has_name && (!is_bare(p) || is_tool(p));
    }
    if (!h->begun) { /* an empty text */
        h->begun = true;
        arguments(p, "{}", 2);
        return n == 0;
    }
    return n == 0 && whim_json_walk_is_whole(&h->inner);
}

/* A byte of the outer object's only key, or the quote before it or behind it. */
static bool name_byte(whim_chat_parser *p, bool begins, char c)
{
    whim_object_call *h = &p->object;
    if (begins) {
        h->role = NAME;
        h->unescape = (whim_unescape){0};
        return !h->has_name;
    }
    return h->walk.phase == WHIM_JSON_STRING ? string_byte(p, c) : string_ends(p);
}

/* A byte of the outer object, with the walk before and after it; false when it breaks the call. */
static bool object_byte(whim_chat_parser *p, const whim_json_walk *before, char c)
{
    whim_object_call *h = &p->object;
    const whim_json_walk *now = &h->walk;
    if (now->phase == WHIM_JSON_DONE) {
        if (!h->has_name || h->pending.failed || (is_bare(p) && !h->begun)) {
            return false;
        }
        if (!h->begun) {
            h->begun = true;
            arguments(p, "{}", 2);
        }
        send_when_known(p);
        whim_tool_end(p);
        h->state = BEHIND;
        return true;
    }
    const bool in_key = before->depth == 1 && before->phase == WHIM_JSON_STRING && before->key;
    const bool begins_key = now->phase == WHIM_JSON_STRING && now->key && now->depth == 1;
    if ((in_key || begins_key) && p->cfg.format.tools->named_by_key) {
        return name_byte(p, !in_key, c);
    }
    if (in_key) {
        if (now->phase == WHIM_JSON_STRING && h->n_key < (int32_t)sizeof h->key) {
            h->key[h->n_key++] = c;
        }
        return now->phase == WHIM_JSON_STRING || !is_bare(p) || is_key_of_calls(p);
    }
    if (begins_key) {
        h->n_key = 0;
        return true;
    }
    bool ok = true;
    if (before->depth == 1 && before->phase == WHIM_JSON_VALUE && !whim_is_blank(c)) {
        int role = role_of(p, c);
        h->role = role < 0 ? OTHER : role;
        h->unescape = (whim_unescape){0};
        h->begun = h->begun || h->role == OBJECT || h->role == NOTHING;
        arguments(p, "{}", h->role == NOTHING ? 2 : h->role == OBJECT ? 1 : 0);
        ok = role >= 0;
    } else if (h->role == OBJECT) {
        arguments(p, &c, 1);
    } else if (h->role == NAME || h->role == TEXT) {
        ok = now->phase == WHIM_JSON_STRING ? string_byte(p, c) : string_ends(p);
    }
    if (now->depth == 1 && now->phase == WHIM_JSON_AFTER) {
        h->role = OTHER;
    }
    return ok && !h->pending.failed;
}

/* What follows an object: another one, the end of the list, the closing tag, or the answer's
 * text. */
static void behind_byte(whim_chat_parser *p, char c)
{
    const whim_tool_words *words = p->cfg.format.tools;
    whim_object_call *h = &p->object;
    if (p->n_tag == 0 && whim_is_blank(c)) {
        return;
    }
    bool gap = (h->in_list && c == ',') || (is_bare(p) && (c == ';' || c == ','));
    bool next = c == '{' && !h->in_list && (is_bare(p) || words->list); /* in lines, say */
    if (p->n_tag == 0 && (gap || next)) {
        object_begin(h, AT_OBJECT);
        p->sent = false;
        if (c == '{') {
            whim_object_step(p, c);
        }
        return;
    }
    if (p->n_tag == 0 && h->in_list && c == ']') {
        h->in_list = false;
        h->state = BEHIND;
        if (is_bare(p) || words->close[0] == '\0') {
            whim_tool_leave(p);
        }
        return;
    }
    const char *const tags[] = {words->close, words->prefix};
    int match = whim_tool_match(p, tags, 2, c);
    if (match == 0) {
        whim_tool_leave(p);
    } else if (match == 1) {
        p->n_tag = 0; /* before another one */
    } else if (match == -2) {
        whim_tool_break(p, c);
    }
}

static void fence_byte(whim_chat_parser *p, char c)
{
    const whim_tool_words *words = p->cfg.format.tools;
    if (p->n_tag == 0 && whim_is_blank(c) && whim_tool_hold(p, &c, 1)) {
        return;
    }
    int match = whim_tool_match(p, &words->fence, 1, c);
    if (match == -2) {
        whim_tool_break(p, c);
    } else if (match == 0 && whim_tool_keep_tag(p, words->fence, c)) {
        p->object.state = words->list ? AT_LIST : AT_OBJECT;
    }
}

/* The list may be missing where there is one call. */
static void list_byte(whim_chat_parser *p, char c)
{
    whim_object_call *h = &p->object;
    if (c == '{') {
        h->state = AT_OBJECT;
        whim_object_step(p, c);
        return;
    }
    if ((c != '[' && !whim_is_blank(c)) || !whim_tool_hold(p, &c, 1)) {
        whim_tool_break(p, c);
        return;
    }
    h->in_list = c == '[';
    h->state = h->in_list ? AT_OBJECT : AT_LIST;
}

void whim_object_step(whim_chat_parser *p, char c)
{
    whim_object_call *h = &p->object;
    const whim_json_walk before = h->walk;
    if (h->state != AT_OBJECT) {
        static whim_tool_byte_fn *const steps[] = {
            [AT_FENCE] = fence_byte, [AT_LIST] = list_byte, [BEHIND] = behind_byte};
        steps[h->state](p, c);
        return;
    }
    if (before.depth == 0 && p->raw.len == 0 && (whim_is_blank(c) || (h->in_list && c == ']'))) {
        if (c == ']') { /* behind a comma too many */
            behind_byte(p, c);
        }
        return;
    }
    bool first = before.depth == 0 && !whim_is_blank(c);
    if ((first && c != '{') || !whim_json_walk_step(&h->walk, c) || !object_byte(p, &before, c)) {
        whim_tool_break(p, c);
        return;
    }
    send_when_known(p);
    if (!p->sent && !whim_tool_hold(p, &c, 1)) {
        whim_tool_break(p, c);
    }
}
