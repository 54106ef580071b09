/* SPDX-License-Identifier: Apache-2.0 */
/* How few ids a text can become: as many as there would be if all of it were the longest token.
 * This holds only where nothing makes the text much shorter before it is merged. */
#include "text/byte_level.h"
#include "text/tokenizer_impl.h"

#include "base/utf8.h"

#include <string.h>

/* How many times as long a text may be as its composed form: U+1FBE is another iota of three bytes,
 * and with two marks of two bytes each (U+0308, U+0301) it becomes U+0390, of two. That is 3.5
 * times, and no character is made shorter. */
enum { NFC_SHRINKS = 4 };

/* Which bytes a byte-level vocabulary has: the others are dropped, and many vocabularies lack some
 * control bytes and beginnings of rare characters. False: it is not known, or some are joined. */
static bool find_kept(whim_tokenizer *tok, bool byte_level, bool is_changed)
{
    bool all = true;
    for (int32_t b = 0; b < 256; b++) {
        bool is_text = b < 0xF5 && b != 0xC0 && b != 0xC1; /* the others are in no UTF-8 */
        int32_t id =
            byte_level ? tok->bpe.low_ids[whim_byte_level_char((uint8_t)b)] : tok->bpe.byte_ids[b];
        tok->keeps[b] = !byte_level || id >= 0;
        all = all && (id >= 0 || !is_text);
    }
    return byte_level
               ? all || !is_changed
               : (all && tok->bpe.byte_fallback) || (tok->bpe.unk >= 0 && !tok->bpe.fuse_unk);
}

/* How many times shorter the steps before merging may make a text; 0: any. */
static int32_t shrinks(const whim_tokenizer *tok)
{
    int32_t times = 1;
    for (int32_t i = 0; i < tok->normalizer.n_step; i++) {
        const whim_normal_step *step = &tok->normalizer.steps[i];
        bool grows = step->kind == WHIM_NORMAL_PREPEND ||
                     (step->kind == WHIM_NORMAL_REPLACE && step->regex == NULL &&
                      strlen(step->content) >= strlen(step->pattern));
        if (!grows && (step->kind != WHIM_NORMAL_NFC || times > 1)) {
            return 0;
        }
        times = grows ? times : NFC_SHRINKS;
    }
    for (int32_t i = 0; i < tok->pre.n_step; i++) {
        const whim_pre_step *step = &tok->pre.steps[i];
        bool drops = step->kind == WHIM_PRE_SPLIT && step->behavior == WHIM_SPLIT_REMOVED;
        times = drops || (step->kind == WHIM_PRE_REPLACE && step->content[0] == '\0') ? 0 : times;
    }
    return times;
}

/* Whether a token takes the white space around it, however long. */
static bool swallows(const whim_added_set *set)
{
    bool any = false;
    for (int32_t i = 0; i < set->n_token; i++) {
        any = any || set->tokens[i].lstrip || set->tokens[i].rstrip;
    }
    return any;
}

static int32_t bytes_of(const whim_token *token, bool byte_level)
{
    int32_t n = token->n_text;
    if (byte_level && (token->flags & WHIM_TOKEN_ADDED) == 0) { /* a character for each byte */
        n = 0;
        for (int32_t i = 0; i < token->n_text; i += whim_utf8_len(token->text[i])) {
            n++;
        }
    }
    return n;
}

void whim_tokenizer_find_most_bytes(whim_tokenizer *tok)
{
    bool byte_level = false;
    int32_t longest = 4; /* an unknown character */
    for (int32_t i = 0; i < tok->pre.n_step; i++) {
        byte_level = byte_level || tok->pre.steps[i].kind == WHIM_PRE_BYTE_LEVEL;
    }
    for (int32_t id = 0; id < tok->vocab.count; id++) {
        int32_t n = bytes_of(&tok->vocab.tokens[id], byte_level);
        longest = n > longest ? n : longest;
    }
    bool is_known = find_kept(tok, byte_level, tok->normalizer.n_step > 0) &&
                    !swallows(&tok->raw) && !swallows(&tok->normalized);
    int64_t most = is_known ? (int64_t)longest * shrinks(tok) : 0;
    tok->most_bytes = most <= INT32_MAX ? (int32_t)most : 0;
}

int64_t whim_tokenizer_least_ids(const whim_tokenizer *tok, const char *text, int64_t n)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n && tok->most_bytes > 0; i++) {
        kept += tok->keeps[(uint8_t)text[i]];
    }
    return tok->most_bytes > 0 ? (kept + tok->most_bytes - 1) / tok->most_bytes : 0;
}
