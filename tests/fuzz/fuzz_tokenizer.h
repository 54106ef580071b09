/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets of the tokenizers share: opening one from a text and trying it out. */
#ifndef WHIM_TESTS_FUZZ_TOKENIZER_H
#define WHIM_TESTS_FUZZ_TOKENIZER_H

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_CHECK
#define FUZZ_CHECK(cond)                                               \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)
#endif

static inline whim_tokenizer *fuzz_tokenizer(const char *text, int64_t n, const char *path,
                                             whim_diag *diag)
{
    whim_tokenizer *tok = whim_alloc(sizeof *tok);
    FUZZ_CHECK(tok != NULL);
    whim_arena_init(&tok->arena);
    tok->bos = tok->eos = "";
    whim_err err = whim_tokenizer_from_json(tok, text, n, path, diag);
    if (err != WHIM_ERR_OK) {
        FUZZ_CHECK(err == WHIM_ERR_NO_MEMORY || diag->text[0] != '\0');
        whim_tokenizer_close(tok);
        return NULL;
    }
    return tok;
}

/* The text of all tokens; every part that comes out is whole characters. */
static inline whim_str fuzz_decode(const whim_tokenizer *tok, const whim_ids *ids)
{
    whim_detokenizer d;
    whim_str out = {0};
    whim_detokenizer_init(&d, tok, true);
    for (int64_t i = 0; i < ids->n; i++) {
        FUZZ_CHECK(ids->ids[i] >= 0 && ids->ids[i] < whim_tokenizer_count(tok));
        int64_t before = out.len;
        whim_detokenizer_push(&d, ids->ids[i], &out);
        int64_t n = out.len - before;
        FUZZ_CHECK(n == 0 || whim_utf8_valid_prefix(out.text + before, n) == n);
    }
    whim_detokenizer_flush(&d, &out);
    return out;
}

/* Encode a text that is valid UTF-8 and decode it again; NULL spans: all of it as `parse` says. */
static inline whim_str fuzz_round_trip(const whim_tokenizer *tok, const char *text, int64_t n,
                                       const whim_encode_opts *opts, whim_ids *ids)
{
    whim_diag diag = {{0}};
    whim_err err = whim_tokenizer_encode(tok, text, n, opts, ids, &diag);
    FUZZ_CHECK(err == WHIM_ERR_OK || (err == WHIM_ERR_UNSUPPORTED && diag.text[0] != '\0'));
    return fuzz_decode(tok, ids);
}

/* Some texts that reach every step. */
static inline void fuzz_try_out(const whim_tokenizer *tok)
{
    static const char *const texts[] = {
        "",
        "hello world, it's 12345!  \n\n x",
        "e\xCC\x81\xE4\xB8\xAD\xF0\x9F\x98\x80<s></s> <x>",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        whim_ids ids = {0};
        whim_encode_opts opts = {.parse_special = true, .add_special = true};
        whim_str out = fuzz_round_trip(tok, texts[i], (int64_t)strlen(texts[i]), &opts, &ids);
        whim_str_deinit(&out);
        /* Without trust no special token comes out, whatever the file says, but for its unk
         * and for what it may call the tokens of bytes. */
        ids.n = 0;
        opts = (whim_encode_opts){0};
        out = fuzz_round_trip(tok, texts[i], (int64_t)strlen(texts[i]), &opts, &ids);
        for (int64_t k = 0; k < ids.n; k++) {
            FUZZ_CHECK(!whim_tokenizer_is_special(tok, ids.ids[k]) || ids.ids[k] == tok->bpe.unk ||
                       tok->bpe.byte_fallback);
        }
        whim_str_deinit(&out);
        whim_ids_deinit(&ids);
    }
    for (int32_t id = 0; id < whim_tokenizer_count(tok) && id < 4096; id++) {
        int64_t n;
        const char *bytes = whim_tokenizer_bytes(tok, id, &n);
        FUZZ_CHECK(n == 0 || bytes[0] == bytes[0]);
        if (n > 0) {
            FUZZ_CHECK(whim_vocab_find(&tok->vocab, tok->vocab.tokens[id].text,
                                       tok->vocab.tokens[id].n_text) <= id);
        }
    }
}

#endif
