/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging of one piece of text: characters become ids, then the adjacent pair of lowest
 * rank (leftmost first) is merged until none is left.
 *
 * Invariants:
 *  1. a piece of n characters takes O(n log n) steps, whatever it holds; `steps` counts them;
 *  2. special tokens never come out;
 *  3. the model is read-only; all that changes is in the caller's scratch.
 * Threads: a model is shared; a scratch belongs to one thread. */
#ifndef WHIM_TEXT_BPE_H
#define WHIM_TEXT_BPE_H

#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct whim_merge {
    uint64_t pair; /* left id, right id; all ones is an empty slot */
    int32_t rank;
    int32_t id;
} whim_merge;

typedef struct whim_bpe {
    const whim_vocab *vocab;
    whim_merge *merges; /* open addressing */
    uint32_t mask;
    bool ignore_merges; /* a piece that is a token is that token */
    bool byte_fallback; /* a character without a token becomes its bytes' tokens */
    bool fuse_unk;      /* a run of characters without tokens is one unk */
    bool cut_at_marks;  /* no token crosses the start of a run of U+2581: pieces are cut there */
    int32_t unk;        /* for characters without a token; -1 drops them */
    int32_t low_ids[0x180]; /* of the characters below U+0180, so that most need no hashing */
    int32_t byte_ids[256];
} whim_bpe;

typedef struct whim_bpe_scratch {
    struct whim_bpe_symbol *symbols;
    uint64_t *heap;
    int64_t cap;
    int64_t steps; /* merges, heap moves and scanned pairs since the scratch was zeroed */
} whim_bpe_scratch;

/* Take the vocabulary (indexed) and make room for `n_merge` merges. The options are set after. */
WHIM_MUST_CHECK whim_err whim_bpe_init(whim_bpe *bpe, const whim_vocab *vocab, whim_arena *arena,
                                       int64_t n_merge);

/* Add a merge; a later one replaces an earlier one of the same pair. One that makes a special token
 * is passed over. At most n_merge calls. */
void whim_bpe_add_merge(whim_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t id);

/* Append the ids of a piece of valid UTF-8, at most 2^30 bytes. */
WHIM_MUST_CHECK whim_err whim_bpe_encode(const whim_bpe *bpe, const char *piece, int64_t n,
                                         whim_bpe_scratch *scratch, whim_ids *out);

void whim_bpe_scratch_deinit(whim_bpe_scratch *scratch);

/* Whether U+2581 occurs in tokens only at their start or after another one. */
bool whim_bpe_can_cut_at_marks(const whim_vocab *vocab);

#endif
