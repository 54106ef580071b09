/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary and its index. */
#include "text/vocab.h"

#include "text/byte_level.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_bytes(const char *text, int64_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ (uint64_t)n;
    for (; n >= 8; n -= 8, text += 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, (size_t)n);
    h = (h ^ rest) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

whim_err whim_vocab_init(whim_vocab *vocab, whim_arena *arena, int32_t count)
{
    *vocab = (whim_vocab){.count = count};
    vocab->tokens = whim_arena_alloc_array(arena, count, sizeof *vocab->tokens);
    return vocab->tokens != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

void whim_vocab_set(whim_vocab *vocab, int32_t id, const char *text, int32_t n, int32_t flags)
{
    vocab->tokens[id] = (whim_token){.text = text,
                                     .bytes = text,
                                     .n_text = n,
                                     .n_bytes = n,
                                     .flags = flags | WHIM_TOKEN_PRESENT};
    if (n > vocab->max_text) {
        vocab->max_text = n;
    }
}

static uint32_t find_slot(const whim_vocab *vocab, const char *text, int64_t n)
{
    uint32_t slot = (uint32_t)hash_bytes(text, n) & vocab->mask;
    for (;; slot = (slot + 1) & vocab->mask) {
        int32_t id = vocab->index[slot];
        if (id < 0 || (vocab->tokens[id].n_text == n &&
                       memcmp(vocab->tokens[id].text, text, (size_t)n) == 0)) {
            return slot;
        }
    }
}

whim_err whim_vocab_index(whim_vocab *vocab, whim_arena *arena)
{
    uint32_t size = 16;
    while (size < 2 * (uint32_t)vocab->count) {
        size *= 2;
    }
    vocab->index = whim_arena_alloc_array(arena, size, sizeof *vocab->index);
    if (vocab->index == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    memset(vocab->index, 0xFF, size * sizeof *vocab->index);
    vocab->mask = size - 1;
    for (int32_t id = 0; id < vocab->count; id++) {
        const whim_token *t = &vocab->tokens[id];
        if ((t->flags & WHIM_TOKEN_PRESENT) == 0) {
            continue;
        }
        uint32_t slot = find_slot(vocab, t->text, t->n_text);
        if (vocab->index[slot] < 0) {
            vocab->index[slot] = id;
        }
    }
    return WHIM_ERR_OK;
}

int32_t whim_vocab_find(const whim_vocab *vocab, const char *text, int64_t n)
{
    return n > vocab->max_text ? -1 : vocab->index[find_slot(vocab, text, n)];
}

int32_t whim_vocab_find_byte(const whim_vocab *vocab, uint8_t byte)
{
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", byte);
    return whim_vocab_find(vocab, text, 6);
}

static void replace_marks(whim_token *t, char *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_text;) {
        if (t->n_text - i >= 3 && memcmp(t->text + i, WHIM_SPACE_MARK, 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = t->text[i++];
        }
    }
    t->bytes = out;
    t->n_bytes = n;
}

whim_err whim_vocab_decode(whim_vocab *vocab, whim_arena *arena, whim_decoder how, bool byte_tokens)
{
    int64_t total = 256;
    for (int32_t id = 0; id < vocab->count; id++) {
        total += vocab->tokens[id].n_text;
    }
    char *out = whim_arena_alloc(arena, total);
    if (out == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t id = 0; id < vocab->count && how != WHIM_DECODER_RAW; id++) {
        whim_token *t = &vocab->tokens[id];
        if ((t->flags & WHIM_TOKEN_PRESENT) == 0 || (t->flags & WHIM_TOKEN_ADDED) != 0) {
            continue;
        }
        if (how == WHIM_DECODER_SPACE_MARK) {
            replace_marks(t, out);
            out += t->n_bytes;
            continue;
        }
        /* A token with a character outside the alphabet prints as it is spelled. */
        int64_t n = whim_byte_level_read(t->text, t->n_text, out);
        if (n >= 0) {
            t->bytes = out;
            t->n_bytes = (int32_t)n;
            out += n;
        }
    }
    for (int32_t byte = 0; byte < 256 && byte_tokens; byte++) {
        int32_t id = whim_vocab_find_byte(vocab, (uint8_t)byte);
        if (id >= 0) {
            *out = (char)byte;
            vocab->tokens[id].bytes = out++;
            vocab->tokens[id].n_bytes = 1;
            vocab->tokens[id].flags |= WHIM_TOKEN_BYTE;
        }
    }
    return WHIM_ERR_OK;
}
