/* SPDX-License-Identifier: Apache-2.0 */
/* One state machine over bytes; what it passes on is gathered, so pieces are not single bytes. */
#include "chat/reasoning.h"

#include "base/utf8.h"

#include <string.h>

enum { START, INSIDE, AFTER, CONTENT };

static const char open_tag[] = WHIM_THINK_OPEN, close_tag[] = WHIM_THINK_CLOSE;

typedef struct sink {
    whim_piece_fn *fn;
    void *ctx;
    whim_piece_kind kind;
    int64_t n;
    char bytes[512];
} sink;

static void sink_flush(sink *out)
{
    if (out->n > 0) {
        out->fn(out->ctx, out->kind, out->bytes, out->n);
        out->n = 0;
    }
}

static void emit(sink *out, whim_piece_kind kind, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (out->kind != kind || out->n == (int64_t)sizeof out->bytes) {
            sink_flush(out);
            out->kind = kind;
        }
        out->bytes[out->n++] = bytes[i];
    }
}

void whim_reasoning_init(whim_reasoning *split, bool starts_inside, const char *call_tag)
{
    *split = (whim_reasoning){.state = starts_inside ? INSIDE : START,
                              .stray = starts_inside,
                              .fresh = true,
                              .call_tag = call_tag};
}

/* Whether what is held and then `c` begins the tag; `whole` tells whether it is all of it. */
static bool continues(const whim_reasoning *split, char c, const char *tag, bool *whole)
{
    size_t n = (size_t)split->n_held;
    bool yes = n < strlen(tag) && memcmp(split->held, tag, n) == 0 && tag[n] == c;
    *whole = yes && tag[n + 1] == '\0';
    return yes;
}

/* Give up what was held at the start: it is content after all. */
static void release_start(whim_reasoning *split, sink *out)
{
    emit(out, WHIM_PIECE_CONTENT, split->first, split->n_first);
    emit(out, WHIM_PIECE_CONTENT, split->held, split->n_held);
    split->n_first = split->n_held = 0;
    split->state = CONTENT;
}

static void release_inside(whim_reasoning *split, sink *out)
{
    for (; split->n_line > 0; split->n_line--) {
        emit(out, WHIM_PIECE_REASONING, "\n", 1);
    }
    emit(out, WHIM_PIECE_REASONING, split->held, split->n_held);
    split->fresh = split->fresh && split->n_held == 0;
    split->n_held = 0;
}

static void step_start(whim_reasoning *split, char c, sink *out)
{
    bool whole;
    if (continues(split, c, open_tag, &whole)) {
        split->held[split->n_held++] = c;
        if (whole) {
            split->n_held = split->n_first = 0;
            split->state = INSIDE;
        }
    } else if (split->n_held == 0 && whim_is_blank(c) &&
               split->n_first < (int32_t)sizeof split->first) {
        split->first[split->n_first++] = c;
    } else {
        release_start(split, out);
        emit(out, WHIM_PIECE_CONTENT, &c, 1);
    }
}

static void step_inside(whim_reasoning *split, char c, sink *out)
{
    bool closed, opened = false, called = false;
    bool tag = continues(split, c, close_tag, &closed);
    if (!tag && split->call_tag != NULL) {
        tag = continues(split, c, split->call_tag, &called);
    }
    if (!tag && split->fresh && split->stray) {
        tag = continues(split, c, open_tag, &opened);
    }
    if (tag) {
        split->held[split->n_held++] = c;
        if (closed || opened) {
            split->n_held = 0;
            split->n_line = 0;
            split->stray = false;
            split->state = closed ? AFTER : INSIDE;
        } else if (called) {
            emit(out, WHIM_PIECE_CONTENT, split->held, split->n_held);
            split->n_held = 0;
            split->n_line = 0;
            split->state = CONTENT;
        }
        return;
    }
    if (split->n_held > 0) {
        release_inside(split, out);
        step_inside(split, c, out); /* with nothing held: one level */
        return;
    }
    if (c == '\n') {
        split->n_line += !split->fresh;
        return;
    }
    release_inside(split, out);
    split->fresh = false;
    emit(out, WHIM_PIECE_REASONING, &c, 1);
}

void whim_reasoning_push(whim_reasoning *split, const char *text, int64_t n, whim_piece_fn *fn,
                         void *ctx)
{
    sink out = {.fn = fn, .ctx = ctx};
    for (int64_t i = 0; i < n; i++) {
        switch (split->state) {
        case START:
            step_start(split, text[i], &out);
            break;
        case INSIDE:
            step_inside(split, text[i], &out);
            break;
        case AFTER:
            if (text[i] == '\n') {
                break;
            }
            split->state = CONTENT;
            emit(&out, WHIM_PIECE_CONTENT, text + i, 1);
            break;
        default:
            sink_flush(&out);
            fn(ctx, WHIM_PIECE_CONTENT, text + i, n - i);
            return;
        }
    }
    sink_flush(&out);
}

void whim_reasoning_flush(whim_reasoning *split, whim_piece_fn *fn, void *ctx)
{
    sink out = {.fn = fn, .ctx = ctx};
    if (split->state == START) {
        release_start(split, &out);
    } else if (split->state == INSIDE) {
        release_inside(split, &out);
    }
    sink_flush(&out);
}

bool whim_reasoning_is_inside(const whim_reasoning *split)
{
    return split->state == INSIDE;
}

bool whim_reasoning_prompt_is_open(const char *prompt, int64_t n)
{
    const int64_t n_open = (int64_t)sizeof open_tag - 1;
    while (n > 0 && whim_is_blank(prompt[n - 1])) {
        n--;
    }
    return n >= n_open && memcmp(prompt + n - n_open, open_tag, (size_t)n_open) == 0;
}
