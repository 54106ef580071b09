/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the tokenizers share: opening one from a text, encoding and decoding in one
 * call, the files of tests/data/text/. Tests run from the root of the repository. */
#ifndef WHIM_TESTS_TEXT_FIXTURE_H
#define WHIM_TESTS_TEXT_FIXTURE_H

#include <stdint.h>

#include "base/alloc.h"
#include "support/cmocka.h"
#include "text/detokenizer.h"
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The output of a shell command; NULL if it fails. The caller frees. */
static inline char *command_output(const char *command, int64_t *n)
{
    FILE *pipe = popen(command, "r");
    *n = 0;
    if (pipe == NULL) {
        return NULL;
    }
    size_t used = 0, cap = 1 << 20;
    char *data = malloc(cap);
    for (;;) {
        assert_non_null(data);
        size_t got = fread(data + used, 1, cap - used, pipe);
        used += got;
        if (got == 0) {
            break;
        }
        if (used == cap) {
            data = realloc(data, cap *= 2);
        }
    }
    *n = (int64_t)used;
    if (pclose(pipe) != 0) {
        free(data);
        return NULL;
    }
    return data;
}

static inline whim_err open_text(const char *json, int64_t n, whim_tokenizer **out, whim_diag *diag)
{
    whim_tokenizer *tok = whim_alloc(sizeof *tok);
    *out = NULL;
    if (tok == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_arena_init(&tok->arena);
    tok->bos = tok->eos = "";
    whim_err err = whim_tokenizer_from_json(tok, json, n, "tokenizer.json", diag);
    if (err != WHIM_ERR_OK) {
        whim_tokenizer_close(tok);
        return err;
    }
    *out = tok;
    return WHIM_ERR_OK;
}

/* A tokenizer of tests/data/text/, compressed or not. */
static inline whim_tokenizer *open_file(const char *command)
{
    int64_t n;
    char *json = command_output(command, &n);
    assert_non_null(json);
    whim_tokenizer *tok;
    whim_diag diag = {{0}};
    if (open_text(json, n, &tok, &diag) != WHIM_ERR_OK) {
        fail_msg("%s: %s", command, diag.text);
    }
    free(json);
    return tok;
}

static inline whim_ids encode(const whim_tokenizer *tok, const char *text, int64_t n,
                              whim_encode_opts opts)
{
    whim_ids ids = {0};
    whim_diag diag = {{0}};
    if (whim_tokenizer_encode(tok, text, n, &opts, &ids, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return ids;
}

/* The text of tokens, pushed one by one; no push may leave half a character. */
static inline whim_str decode(const whim_tokenizer *tok, const whim_ids *ids, bool show_special)
{
    whim_detokenizer d;
    whim_str out = {0};
    whim_detokenizer_init(&d, tok, show_special);
    int64_t whole = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        whim_detokenizer_push(&d, ids->ids[i], &out);
        while (whole < out.len) {
            int32_t len = (uint8_t)out.text[whole] < 0x80   ? 1
                          : (uint8_t)out.text[whole] < 0xE0 ? 2
                          : (uint8_t)out.text[whole] < 0xF0 ? 3
                                                            : 4;
            whole += len;
        }
        assert_int_equal(whole, out.len);
    }
    whim_detokenizer_flush(&d, &out);
    return out;
}

/* One string of a golden file (the format is told in tools/golden/make_tokenizer_golden.py). */
typedef struct golden {
    const char *text;
    int64_t n;
    bool add_special;
    const uint8_t *ids; /* unaligned int32_t */
    int64_t n_id;
    const char *decoded;
    int64_t n_decoded;
} golden;

static inline uint32_t golden_u32(const uint8_t **at)
{
    uint32_t value;
    memcpy(&value, *at, 4);
    *at += 4;
    return value;
}

static inline golden golden_next(const uint8_t **at)
{
    golden g = {0};
    uint8_t flags = *(*at)++;
    g.add_special = (flags & 1) != 0;
    g.n = golden_u32(at);
    g.text = (const char *)*at;
    *at += g.n;
    g.n_id = golden_u32(at);
    g.ids = *at;
    *at += 4 * g.n_id;
    g.decoded = g.text;
    g.n_decoded = g.n;
    if ((flags & 2) == 0) {
        g.n_decoded = golden_u32(at);
        g.decoded = (const char *)*at;
        *at += g.n_decoded;
    }
    return g;
}

#endif
