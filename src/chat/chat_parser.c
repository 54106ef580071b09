/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of an answer: reasoning first, then the text around calls. White space next to a call
 * is dropped; text that may begin a tag waits until it is clear. */
#include "base/alloc.h"
#include "chat/tools/parser.h"

#include <string.h>

enum { MAX_HOLD = 1 << 20 }; /* a call that does not say its name within this many bytes is none */

static const struct {
    void (*start)(whim_chat_parser *p, bool at_function);
    whim_tool_byte_fn *step;
} forms[] = {[WHIM_TOOLS_OBJECT] = {whim_object_start, whim_object_step},
             [WHIM_TOOLS_NAMED] = {whim_named_start, whim_named_step},
             [WHIM_TOOLS_TAGGED] = {whim_tag_call_start, whim_tag_call_step},
             [WHIM_TOOLS_PYTHON] = {whim_python_start, whim_python_step}};

static bool has_channels(const whim_chat_parser *p)
{
    return whim_chat_format_has_channels(&p->cfg.format);
}

/* --- events ----------------------------------------------------------------------------------- */

static void tell(whim_chat_parser *p, whim_chat_event_kind kind, const char *bytes, int64_t n)
{
    bool of_call = kind != WHIM_CHAT_REASONING && kind != WHIM_CHAT_CONTENT;
    const whim_chat_event event = {
        .kind = kind, .call = of_call ? p->n_call - 1 : 0, .text = bytes, .n = n};
    p->fn(p->ctx, &event);
}

static void flush(whim_chat_parser *p)
{
    if (p->out.len > 0) {
        tell(p, p->out_kind, p->out.text, p->out.len);
    }
    whim_str_clear(&p->out);
}

void whim_tool_emit(whim_chat_parser *p, whim_chat_event_kind kind, const char *bytes, int64_t n)
{
    if (n == 0) {
        return;
    }
    if (p->out_kind != kind) {
        flush(p);
        p->out_kind = kind;
    }
    whim_str_append_n(&p->out, bytes, n);
    if (p->out.failed) { /* what was gathered is whole: send it, and these bytes alone */
        flush(p);
        tell(p, kind, bytes, n);
    }
}

void whim_tool_send(whim_chat_parser *p, const char *name, int64_t n)
{
    flush(p);
    p->n_call++;
    p->sent = p->any_sent = true;
    whim_str_clear(&p->raw);
    tell(p, WHIM_CHAT_CALL_BEGIN, name, n);
}

void whim_tool_end(whim_chat_parser *p)
{
    flush(p);
    tell(p, WHIM_CHAT_CALL_END, "", 0);
}

/* --- bytes that wait -------------------------------------------------------------------------- */

bool whim_tool_hold(whim_chat_parser *p, const char *bytes, int64_t n)
{
    if (p->raw.len + n > MAX_HOLD) {
        return false;
    }
    whim_str_append_n(&p->raw, bytes, n);
    return !p->raw.failed;
}

void whim_tool_release(whim_chat_parser *p)
{
    whim_tool_emit(p, WHIM_CHAT_CONTENT, p->raw.text, p->raw.len);
    whim_str_clear(&p->raw);
}

int whim_tool_match(whim_chat_parser *p, const char *const *tags, int n, char c)
{
    bool begins = false;
    int whole = -1;
    size_t len = (size_t)p->n_tag + 1;
    for (int i = 0; i < n; i++) {
        const char *tag = tags[i];
        if (tag != NULL && strlen(tag) >= len && memcmp(tag, p->tag, len - 1) == 0 &&
            tag[len - 1] == c) {
            begins = true;
            whole = tag[len] == '\0' ? i : whole;
        }
    }
    if (begins) {
        p->tag[p->n_tag++] = c;
    }
    return begins ? whole : -2;
}

/* --- text around calls ------------------------------------------------------------------------ */

static void enter_call(whim_chat_parser *p, bool at_function)
{
    if (!whim_tool_hold(p, p->tag, p->n_tag)) { /* no memory: the tag stays text */
        whim_tool_release(p);
        whim_tool_emit(p, WHIM_CHAT_CONTENT, p->tag, p->n_tag);
        p->n_tag = 0;
        return;
    }
    p->n_tag = 0;
    p->in_call = true;
    p->sent = p->any_sent = p->close_owed = false;
    forms[p->cfg.format.tools->form].start(p, at_function);
}

/* A byte of text that begins no tag. */
static void text_byte(whim_chat_parser *p, char c)
{
    if (whim_is_blank(c)) {
        if (p->after_call || whim_tool_hold(p, &c, 1)) {
            return;
        }
    }
    whim_tool_release(p);
    whim_tool_emit(p, WHIM_CHAT_CONTENT, &c, 1);
    p->after_call = false;
    p->said = true;
}

void whim_tool_again(whim_chat_parser *p, char c, whim_tool_byte_fn *first, whim_tool_byte_fn *step)
{
    char again[WHIM_TAG_MAX];
    int n = p->n_tag;
    memcpy(again, p->tag, (size_t)n);
    p->n_tag = 0;
    for (int i = 0; i < n; i++) {
        (i == 0 ? first : step)(p, again[i]);
    }
    (n == 0 ? first : step)(p, c);
}

/* Whether c begins an answer that may be a call without tags. */
static bool begins_bare(const whim_chat_parser *p, char c)
{
    const whim_tool_words *set = p->cfg.format.tools;
    bool begins = (c == '{' && set->form == WHIM_TOOLS_OBJECT) || (c == '[' && set->list);
    return begins && !p->said && p->n_tag == 0 && set->open == NULL && set->function == NULL;
}

void whim_tool_text(whim_chat_parser *p, char c)
{
    const whim_tool_words *set = p->cfg.format.tools;
    const bool bare = set->open == NULL && set->function == NULL;
    const char *const tags[] = {
        set->open, set->function, p->close_owed || bare ? set->close : NULL,
        p->close_owed && set->form == WHIM_TOOLS_NAMED ? set->function_end : NULL, set->prefix};
    if (!p->cfg.parse_tools && !p->in_call) {
        whim_tool_emit(p, WHIM_CHAT_CONTENT, &c, 1);
        return;
    }
    if (p->in_call || begins_bare(p, c)) {
        if (!p->in_call) {
            enter_call(p, false);
        }
        forms[set->form].step(p, c);
        return;
    }
    int match = whim_tool_match(p, tags, 5, c);
    if (match == -2) {
        whim_tool_again(p, c, text_byte, whim_tool_text);
    } else if (match >= 2) { /* belongs to a call that is over, or to one that comes */
        p->n_tag = 0;
        p->close_owed = p->close_owed && match != 2;
        p->said = p->said && match != 4 && !(match == 2 && bare);
        p->after_call = true;
        whim_str_clear(&p->raw);
    } else if (match >= 0) {
        enter_call(p, match == 1); /* at the last byte: nothing is left */
    }
}

void whim_tool_leave(whim_chat_parser *p)
{
    p->in_call = false;
    p->after_call = true;
    p->n_tag = 0;
    whim_str_clear(&p->raw);
}

void whim_tool_break(whim_chat_parser *p, char c)
{
    p->in_call = false;
    p->said = true;
    p->close_owed = p->any_sent;
    p->after_call = p->sent && p->raw.len == 0;
    whim_tool_release(p);
    whim_tool_again(p, c, whim_tool_text, whim_tool_text);
}

bool whim_tool_keep_tag(whim_chat_parser *p, const char *tag, char c)
{
    if (!whim_tool_hold(p, tag, (int64_t)strlen(tag))) {
        p->n_tag--;
        whim_tool_break(p, c);
        return false;
    }
    p->n_tag = 0;
    return true;
}

/* --- the stages ------------------------------------------------------------------------------- */

static void content_bytes(whim_chat_parser *p, const char *text, int64_t n)
{
    for (; n > 0 && (p->cfg.parse_tools || p->in_call); text++, n--) {
        whim_tool_text(p, *text);
    }
    whim_tool_emit(p, WHIM_CHAT_CONTENT, text, n);
}

static void on_piece(void *ctx, whim_piece_kind kind, const char *text, int64_t n)
{
    whim_chat_parser *p = ctx;
    if (kind == WHIM_PIECE_REASONING) {
        whim_tool_emit(p, WHIM_CHAT_REASONING, text, n);
    } else {
        content_bytes(p, text, n);
    }
}

static bool splits(const whim_chat_parser *p)
{
    return p->cfg.format.reasons || p->cfg.starts_inside;
}

whim_err whim_chat_parser_create(const whim_chat_parser_cfg *cfg, whim_chat_parser **out)
{
    whim_chat_parser *p = whim_alloc(sizeof *p);
    *out = p;
    if (p == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    p->cfg = *cfg;
    if (cfg->starts_named) {
        p->in_call = true;
        forms[cfg->format.tools->form].start(p, true);
    }
    /* Some models go from a thought straight to a call. */
    const whim_tool_words *words = cfg->format.tools;
    bool calls_end_it = cfg->parse_tools && !words->thoughts_hold_tags;
    whim_reasoning_init(&p->split, cfg->format.think, cfg->starts_inside,
                        calls_end_it ? words->open : NULL, on_piece, p);
    return WHIM_ERR_OK;
}

void whim_chat_parser_destroy(whim_chat_parser *p)
{
    if (p != NULL) {
        whim_str *const texts[] = {
            &p->out,        &p->raw,           &p->object.name, &p->object.pending,
            &p->named.name, &p->call.name,     &p->call.key,    &p->call.value,
            &p->call.seen,  &p->channels.name, &p->python.name, &p->python.key};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            whim_str_deinit(texts[i]);
        }
        whim_free(p);
    }
}

void whim_chat_parser_push(whim_chat_parser *p, const char *text, int64_t n, whim_chat_event_fn *fn,
                           void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (has_channels(p)) {
        for (int64_t i = 0; i < n; i++) {
            whim_channels_step(p, text[i]);
        }
    } else if (splits(p)) {
        whim_reasoning_push(&p->split, text, n);
    } else {
        content_bytes(p, text, n);
    }
    flush(p);
}

void whim_chat_parser_finish(whim_chat_parser *p, whim_chat_event_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (has_channels(p)) {
        whim_channels_finish(p);
        flush(p);
        return;
    }
    if (splits(p) && (!p->cfg.only_calls || whim_reasoning_is_inside(&p->split))) {
        whim_reasoning_flush(&p->split);
    }
    if (p->in_call && p->sent) { /* what waits is the beginning of a tag, not text */
        if (p->cfg.format.tools->form == WHIM_TOOLS_TAGGED) {
            whim_tag_call_finish(p);
        }
    } else if (!p->cfg.only_calls) {
        whim_tool_release(p);
        whim_tool_emit(p, WHIM_CHAT_CONTENT, p->tag, p->n_tag);
    }
    flush(p);
}

bool whim_chat_parser_in_reasoning(const whim_chat_parser *p)
{
    return has_channels(p) ? whim_channels_in_reasoning(p)
                           : splits(p) && whim_reasoning_is_inside(&p->split);
}

bool whim_chat_parser_in_opening(const whim_chat_parser *p)
{
    if (has_channels(p)) {
        return whim_channels_in_opening(p);
    }
    /* In a call that was sent only the tag of the next one opens; "<" alone may close. */
    bool opens = p->n_tag > 0 && (p->n_tag == 1 || p->tag[1] != '/');
    return p->in_call ? !p->sent || (opens && p->n_tag > 1) : opens;
}
