/* SPDX-License-Identifier: Apache-2.0 */
/* One state machine over bytes. */
#include "chat/reasoning.h"

#include "base/utf8.h"

#include <string.h>

enum { START, INSIDE, AFTER, CONTENT };

const whim_think_words whim_think_words_known[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},                    /* Magistral, Ministral */
    {"<seed:think>", "</seed:think>"},          /* Seed-OSS */
    {"<|START_THINKING|>", "<|END_THINKING|>"}, /* Cohere */
    {"<|channel>thought", "<channel|>"},        /* Gemma 4 */
    {"<mm:think>", "</mm:think>"},
    {"<think:opensource>", "</think:opensource>"},                     /* Hy3 */
    {"<|inner_prefix|>", "<|inner_suffix|>"},                          /* Apertus */
    {"<|think|>", "<|end|><|begin|>assistant", .says = "<|content|>"}, /* Solar Open */
    {"<|open|>think<|sep|>",                                           /* Kimi K3 */
     "<|close|>think<|sep|>", .says = "<|open|>response<|sep|>",
     .ends = {"<|close|>response<|sep|>", "<|close|>message<|sep|>"}},
    {"to=self<|message|>", "<|eom|><|start|>assistant ", .says = "to=user<|message|>"}, /* Muse */
};
const int32_t whim_think_words_n_known =
    sizeof whim_think_words_known / sizeof whim_think_words_known[0];

static const whim_think_words *or_usual(const whim_think_words *words)
{
    return words != NULL ? words : &whim_think_words_known[0];
}

static void emit(const whim_reasoning *split, whim_piece_kind kind, const char *bytes, int64_t n)
{
    if (n > 0) {
        split->fn(split->ctx, kind, bytes, n);
    }
}

void whim_reasoning_init(whim_reasoning *split, const whim_think_words *words, bool starts_inside,
                         const char *call_tag, whim_piece_fn *fn, void *ctx)
{
    *split = (whim_reasoning){.state = starts_inside ? INSIDE : START,
                              .stray = starts_inside,
                              .fresh = true,
                              .words = or_usual(words),
                              .call_tag = call_tag,
                              .fn = fn,
                              .ctx = ctx};
}

/* Whether what is held and then `c` begins the tag; `whole` tells whether it is all of it. */
static bool continues(const whim_reasoning *split, char c, const char *tag, bool *whole)
{
    size_t n = (size_t)split->n_held;
    bool yes = tag != NULL && n < strlen(tag) && memcmp(split->held, tag, n) == 0 && tag[n] == c;
    *whole = yes && tag[n + 1] == '\0';
    return yes;
}

static void step_content(whim_reasoning *split, char c)
{
    bool tag = false, ended = false, whole;
    for (int i = 0; i < WHIM_N_SAID_END; i++) {
        tag = continues(split, c, split->words->ends[i], &whole) || tag;
        ended = ended || whole;
    }
    if (tag) {
        split->held[split->n_held++] = c;
        split->n_held = ended ? 0 : split->n_held;
    } else if (split->n_held > 0) {
        emit(split, WHIM_PIECE_CONTENT, split->held, split->n_held);
        split->n_held = 0;
        step_content(split, c); /* with nothing held: one level */
    } else {
        emit(split, WHIM_PIECE_CONTENT, &c, 1);
    }
}

/* Give up what was held where an answer may begin: it is content after all. */
static void release_start(whim_reasoning *split)
{
    char held[sizeof split->held];
    const int32_t n = split->n_held;
    memcpy(held, split->held, (size_t)n);
    emit(split, WHIM_PIECE_CONTENT, split->first, split->n_first);
    split->n_first = split->n_held = 0;
    split->state = CONTENT;
    for (int32_t i = 0; i < n; i++) {
        step_content(split, held[i]);
    }
}

static void release_inside(whim_reasoning *split)
{
    for (; split->n_line > 0; split->n_line--) {
        emit(split, WHIM_PIECE_REASONING, "\n", 1);
    }
    emit(split, WHIM_PIECE_REASONING, split->held, split->n_held);
    split->fresh = split->fresh && split->n_held == 0;
    split->n_held = 0;
}

static void step_start(whim_reasoning *split, char c)
{
    bool opened, says, tag = continues(split, c, split->words->open, &opened);
    if (continues(split, c, split->words->says, &says) || tag) {
        split->held[split->n_held++] = c;
        if (opened || says) {
            split->n_held = split->n_first = 0;
            split->state = opened ? INSIDE : CONTENT;
        }
    } else if (split->n_held == 0 && whim_is_blank(c) &&
               split->n_first < (int32_t)sizeof split->first) {
        split->first[split->n_first++] = c;
    } else {
        release_start(split);
        step_content(split, c);
    }
}

static void step_inside(whim_reasoning *split, char c)
{
    bool closed, opened = false, called = false;
    bool tag = continues(split, c, split->words->close, &closed);
    if (!tag && split->call_tag != NULL) {
        tag = continues(split, c, split->call_tag, &called);
    }
    if (!tag && split->fresh && split->stray) {
        tag = continues(split, c, split->words->open, &opened);
    }
    if (tag) {
        split->held[split->n_held++] = c;
        if (closed || opened) {
            split->n_held = 0;
            split->n_line = 0;
            split->stray = false;
            split->state = closed ? AFTER : INSIDE;
        } else if (called) {
            emit(split, WHIM_PIECE_CONTENT, split->held, split->n_held);
            split->n_held = 0;
            split->n_line = 0;
            split->state = CONTENT;
        }
        return;
    }
    if (split->n_held > 0) {
        release_inside(split);
        step_inside(split, c); /* with nothing held: one level */
        return;
    }
    if (c == '\n') {
        split->n_line += !split->fresh;
        return;
    }
    release_inside(split);
    split->fresh = false;
    emit(split, WHIM_PIECE_REASONING, &c, 1);
}

/* Line ends are dropped until the answer begins. */
static void step_after(whim_reasoning *split, char c)
{
    bool says;
    if (continues(split, c, split->words->says, &says)) {
        split->held[split->n_held++] = c;
        split->n_held = says ? 0 : split->n_held;
        split->state = says ? CONTENT : AFTER;
    } else if (split->n_held > 0 || c != '\n') {
        release_start(split);
        step_content(split, c);
    }
}

void whim_reasoning_push(whim_reasoning *split, const char *text, int64_t n)
{
    static void (*const steps[])(whim_reasoning * split, char c) = {[START] = step_start,
                                                                    [INSIDE] = step_inside,
                                                                    [AFTER] = step_after,
                                                                    [CONTENT] = step_content};
    const bool ends = split->words->ends[0] != NULL;
    for (; n > 0 && (ends || split->state != CONTENT); text++, n--) {
        steps[split->state](split, *text);
    }
    emit(split, WHIM_PIECE_CONTENT, text, n);
}

void whim_reasoning_flush(whim_reasoning *split)
{
    if (split->state == INSIDE) {
        release_inside(split);
        return;
    }
    release_start(split);
    emit(split, WHIM_PIECE_CONTENT, split->held, split->n_held); /* the beginning of an end */
    split->n_held = 0;
}

bool whim_reasoning_is_inside(const whim_reasoning *split)
{
    return split->state == INSIDE;
}

bool whim_reasoning_prompt_is_open(const whim_think_words *words, const char *prompt, int64_t n)
{
    const char *open = or_usual(words)->open;
    const int64_t n_open = (int64_t)strlen(open);
    while (n > 0 && whim_is_blank(prompt[n - 1])) {
        n--;
    }
    return n >= n_open && memcmp(prompt + n - n_open, open, (size_t)n_open) == 0;
}
