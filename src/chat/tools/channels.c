/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are messages with headers, as gpt-oss writes them:
 *     <|channel|>analysis<|message|>thoughts<|end|><|start|>assistant to=functions.NAME
 *     <|channel|>commentary json<|message|>{arguments}<|call|>
 * A header says whom its message is for: one to a function is a call, the channel `analysis` is
 * reasoning, anything else is content. The prompt ends inside the first header; what begins as no
 * header is content without one. */
#include "chat/tools/parser.h"

#include <string.h>

/* HEADER is the state that a parser starts in. */
enum { HEADER, REASONING, SPEECH, CALL, CALLED };

enum { MAX_HEADER = 1024 };

static void body_byte(whim_chat_parser *p, char c);

/* --- headers ---------------------------------------------------------------------------------- */

/* Whether a text begins one of the ways that headers do, or may still. */
static bool may_be_header(const char *text, int64_t n)
{
    static const char *const begins[] = {WHIM_HARMONY_START, WHIM_HARMONY_CHANNEL, "to="};
    for (; n > 0 && whim_is_blank(*text); n--) {
        text++;
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t len = strlen(begins[i]);
        if (strncmp(text, begins[i], (size_t)n < len ? (size_t)n : len) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether what is held is surely a header that was cut, or blanks before one: no text. */
static bool is_cut_header(const char *text, int64_t n)
{
    static const char *const begins[] = {WHIM_HARMONY_START, WHIM_HARMONY_CHANNEL};
    bool is_cut = false;
    for (; n > 0 && whim_is_blank(*text); n--) {
        text++;
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t len = strlen(begins[i]);
        is_cut = is_cut || ((size_t)n >= len && memcmp(text, begins[i], len) == 0);
    }
    return is_cut || n == 0;
}

/* The word behind `before` in a header, and its length; 0: there is none. */
static int64_t header_word(const char *header, const char *before, const char **word)
{
    const char *at = strstr(header, before);
    if (at == NULL) {
        return 0;
    }
    *word = at + strlen(before);
    return (int64_t)strcspn(*word, " \t\r\n<");
}

/* The header in `raw` is whole. */
static void take_header(whim_chat_parser *p)
{
    whim_channels *t = &p->channels;
    const char *header = whim_str_text(&p->raw), *word = NULL;
    int64_t n = header_word(header, "to=functions.", &word);
    t->fresh = true;
    if (n > 0 && p->cfg.parse_tools) {
        whim_str_clear(&t->name);
        whim_str_append_n(&t->name, word, n);
        t->walk = (whim_json_walk){0};
        p->sent = false;
        t->state = t->name.failed ? SPEECH : CALL; /* whose header stays until it is sure */
        return;
    }
    n = header_word(header, WHIM_HARMONY_CHANNEL, &word);
    t->state = n == 8 && memcmp(word, "analysis", 8) == 0 ? REASONING : SPEECH;
    whim_str_clear(&p->raw);
}

static void header_byte(whim_chat_parser *p, char c)
{
    static const char end[] = WHIM_HARMONY_MESSAGE;
    enum { N_END = sizeof end - 1 };
    if (!whim_tool_hold(p, &c, 1)) {
        whim_tool_emit(p, WHIM_CHAT_CONTENT, &c, 1); /* no memory, so that nothing is kept */
        return;
    }
    const char *text = p->raw.text;
    const int64_t n = p->raw.len;
    if (n > MAX_HEADER || c == '\0' || !may_be_header(text, n)) {
        p->channels.state = SPEECH;
        p->channels.fresh = true;
        whim_tool_release(p);
        p->channels.fresh = false;
    } else if (n >= N_END && memcmp(text + n - N_END, end, N_END) == 0) {
        take_header(p);
    }
}

/* --- messages --------------------------------------------------------------------------------- */

/* Two messages of one kind are apart in what they become. */
static void say(whim_chat_parser *p, whim_chat_event_kind kind, bool *before, char c)
{
    if (p->channels.fresh && *before) {
        whim_tool_emit(p, kind, "\n", 1);
    }
    p->channels.fresh = false;
    *before = true;
    whim_tool_emit(p, kind, &c, 1);
}

/* What was held becomes content, apart from a message before it. */
static void speak_header(whim_chat_parser *p)
{
    whim_channels *t = &p->channels;
    t->state = SPEECH;
    if (t->fresh && t->has_spoken && p->raw.len > 0) {
        whim_tool_emit(p, WHIM_CHAT_CONTENT, "\n", 1);
    }
    t->fresh = t->fresh && p->raw.len == 0;
    t->has_spoken = t->has_spoken || p->raw.len > 0;
    whim_tool_release(p);
}

/* This is no call, or no longer one. */
static void break_call(whim_chat_parser *p, char c)
{
    speak_header(p);
    body_byte(p, c);
}

static void argument_byte(whim_chat_parser *p, char c)
{
    whim_channels *t = &p->channels;
    const bool before = t->walk.depth == 0;
    if (before && whim_is_blank(c) && whim_tool_hold(p, &c, 1)) {
        return;
    }
    if ((before && c != '{') || !whim_json_walk_step(&t->walk, c)) {
        break_call(p, c);
        return;
    }
    if (before) {
        whim_tool_send(p, t->name.text, t->name.len);
    }
    whim_tool_emit(p, WHIM_CHAT_CALL_ARGS, &c, 1);
    if (t->walk.phase == WHIM_JSON_DONE) {
        whim_tool_end(p);
        t->state = CALLED;
    }
}

/* A byte of a message that is part of no tag. */
static void body_byte(whim_chat_parser *p, char c)
{
    whim_channels *t = &p->channels;
    if (t->state == REASONING) {
        say(p, WHIM_CHAT_REASONING, &t->reasoned, c);
    } else if (t->state == CALL) {
        argument_byte(p, c);
    } else if (t->state == SPEECH || !whim_is_blank(c)) {
        t->state = SPEECH;
        say(p, WHIM_CHAT_CONTENT, &t->has_spoken, c);
    }
}

/* The message is over, and the next header begins with n bytes of what ended it. */
static void end_message(whim_chat_parser *p, const char *tag, int64_t n)
{
    if (p->channels.state == CALL) { /* a call without arguments that are whole is none */
        speak_header(p);
    }
    whim_str_clear(&p->raw);
    p->n_tag = 0;
    p->channels.state = HEADER;
    for (int64_t i = 0; i < n; i++) {
        header_byte(p, tag[i]);
    }
}

void whim_channels_step(whim_chat_parser *p, char c)
{
    const char *const tags[] = {WHIM_HARMONY_END, "<|call|>", "<|return|>", WHIM_HARMONY_START,
                                WHIM_HARMONY_CHANNEL};
    enum { N_ENDING = 3, N_TAG = 5 };
    if (p->channels.state == HEADER) {
        header_byte(p, c);
        return;
    }
    const bool in_string =
        p->channels.state == CALL && p->channels.walk.phase == WHIM_JSON_STRING; /* any text */
    int match = in_string ? -2 : whim_tool_match(p, tags, N_TAG, c);
    if (match == -2) {
        whim_tool_again(p, c, body_byte, whim_channels_step);
    } else if (match >= 0) {
        end_message(p, tags[match], match < N_ENDING ? 0 : (int64_t)strlen(tags[match]));
    }
}

void whim_channels_finish(whim_chat_parser *p)
{
    int32_t state = p->channels.state;
    const bool cut = state == HEADER && is_cut_header(p->raw.text, p->raw.len);
    if (((state == CALL && !p->sent) || (state == HEADER && !cut)) && !p->cfg.only_calls) {
        speak_header(p);
        state = SPEECH;
    }
    if (state == REASONING || state == SPEECH) {
        whim_tool_emit(p, state == REASONING ? WHIM_CHAT_REASONING : WHIM_CHAT_CONTENT, p->tag,
                       p->n_tag);
    }
}

bool whim_channels_in_reasoning(const whim_chat_parser *p)
{
    return p->channels.state == REASONING;
}

bool whim_channels_in_opening(const whim_chat_parser *p)
{
    return p->n_tag > 0 || (p->channels.state == HEADER && p->raw.len > 0) ||
           (p->channels.state == CALL && !p->sent);
}
