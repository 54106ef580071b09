/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a streamed answer into what the model thought and what it said: the text between <think>
 * and </think>, or between what this model has in their place, is reasoning. What may be the
 * beginning of a tag is held back until it is clear.
 *
 * Invariant: however the stream is cut into pieces, the reasoning pieces joined and the content
 * pieces joined are the same.
 *  - The tags themselves are dropped, and so are line ends around them: those that follow <think>,
 *    those before </think>, and those between </think> and the answer.
 *  - What stands before an answer is dropped where one may begin, once; what stands behind it is
 *    dropped from all content.
 *  - Only a <think> before any content opens reasoning (up to 64 bytes of white space may come
 *    first, and are dropped with it), and only once; later tags are content.
 *  - Where calls are looked for, the tag that opens one ends reasoning that was not closed, and is
 *    content.
 *  - When the prompt already opened it (starts_inside), a stray leading <think> is dropped too.
 * Threads: a splitter belongs to one thread at a time. */
#ifndef WHIM_CHAT_REASONING_H
#define WHIM_CHAT_REASONING_H

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_N_SAID_END = 2 };

/* What stands around reasoning. */
typedef struct whim_think_words {
    const char *open, *close; /* at most 32 bytes each */
    const char *says; /* stands before the answer, behind reasoning or without it; NULL: nothing */
    const char *ends[WHIM_N_SAID_END]; /* stand behind it, wherever that is; NULL: nothing */
} whim_think_words;

/* All that are known; the first are most models', and those of one of which nothing is known. */
extern const whim_think_words whim_think_words_known[];
extern const int32_t whim_think_words_n_known;

typedef enum whim_piece_kind { WHIM_PIECE_REASONING, WHIM_PIECE_CONTENT } whim_piece_kind;

/* Called with a piece of one byte or more; it lives during the call only. */
typedef void whim_piece_fn(void *ctx, whim_piece_kind kind, const char *text, int64_t n);

/* Caller's storage; look inside only through the calls. */
typedef struct whim_reasoning {
    int state;
    bool stray;      /* a <think> at the very start would be a second one */
    bool fresh;      /* nothing of the reasoning was passed on yet */
    int32_t n_held;  /* bytes held back that may begin a tag */
    int32_t n_first; /* white space held back before the first word */
    int64_t n_line;  /* line ends held back inside reasoning */
    char held[32];
    const whim_think_words *words;
    const char *call_tag; /* also ends the reasoning, and is content; NULL: none */
    char first[64];
    whim_piece_fn *fn;
    void *ctx;
} whim_reasoning;

/* `words` live on; NULL: the first that are known. `starts_inside`: the prompt ends with an open
 * <think>. `call_tag`: what opens a call (at most 32 bytes), or NULL. */
void whim_reasoning_init(whim_reasoning *split, const whim_think_words *words, bool starts_inside,
                         const char *call_tag, whim_piece_fn *fn, void *ctx);

/* Push the next bytes of the answer. */
void whim_reasoning_push(whim_reasoning *split, const char *text, int64_t n);

/* The stream ended: what was held back belongs to the side it was on. */
void whim_reasoning_flush(whim_reasoning *split);

/* Whether the text so far ends inside reasoning. */
bool whim_reasoning_is_inside(const whim_reasoning *split);

/* Whether a prompt leaves <think> open at its end. */
bool whim_reasoning_prompt_is_open(const whim_think_words *words, const char *prompt, int64_t n);

#endif
