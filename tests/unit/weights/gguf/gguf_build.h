/* SPDX-License-Identifier: Apache-2.0 */
/* Making GGUF files for tests: keys and tensors are appended, then laid out. */
#ifndef WHIM_TESTS_UNIT_WEIGHTS_GGUF_GGUF_BUILD_H
#define WHIM_TESTS_UNIT_WEIGHTS_GGUF_GGUF_BUILD_H

#include "unit/weights/fixture.h"
#include "weights/gguf/gguf.h"

typedef struct gguf_build {
    uint32_t version;
    uint32_t align;
    const char *skip; /* a key that is not written, so that a test can write it otherwise */
    bytes keys;
    bytes infos;
    bytes data;
    uint64_t n_key;
    uint64_t n_tensor;
} gguf_build;

static inline gguf_build start(void)
{
    return (gguf_build){.version = 3, .align = 32};
}

static inline void put_str(bytes *b, const char *s)
{
    put_le(b, strlen(s), 8);
    put(b, s, strlen(s));
}

/* The start of a key; false when it is to be skipped. */
static inline int key_head(gguf_build *b, const char *key, uint32_t type)
{
    if (b->skip != NULL && strcmp(key, b->skip) == 0) {
        b->skip = NULL; /* once: the test's own comes later */
        return 0;
    }
    put_str(&b->keys, key);
    put_le(&b->keys, type, 4);
    b->n_key++;
    return 1;
}

static inline void key_int(gguf_build *b, const char *key, whim_gguf_type type, uint64_t value)
{
    static const int size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (key_head(b, key, type)) {
        put_le(&b->keys, value, size[type]);
    }
}

static inline void key_u32(gguf_build *b, const char *key, uint32_t value)
{
    key_int(b, key, WHIM_GGUF_U32, value);
}

static inline void key_f32(gguf_build *b, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    key_int(b, key, WHIM_GGUF_F32, bits);
}

static inline void key_str(gguf_build *b, const char *key, const char *value)
{
    if (key_head(b, key, WHIM_GGUF_STRING)) {
        put_str(&b->keys, value);
    }
}

/* The head of an array; the caller puts the elements into b->keys. */
static inline int key_array(gguf_build *b, const char *key, whim_gguf_type type, uint64_t n)
{
    if (!key_head(b, key, WHIM_GGUF_ARRAY)) {
        return 0;
    }
    put_le(&b->keys, type, 4);
    put_le(&b->keys, n, 8);
    return 1;
}

static inline void key_strings(gguf_build *b, const char *key, const char *const *text, uint64_t n)
{
    if (key_array(b, key, WHIM_GGUF_STRING, n)) {
        for (uint64_t i = 0; i < n; i++) {
            put_str(&b->keys, text[i]);
        }
    }
}

static inline void tensor_entry(gguf_build *b, const char *name, int n_dim, const uint64_t *ne,
                                uint32_t type, uint64_t offset)
{
    put_str(&b->infos, name);
    put_le(&b->infos, (uint64_t)n_dim, 4);
    for (int i = 0; i < n_dim; i++) {
        put_le(&b->infos, ne[i], 8);
    }
    put_le(&b->infos, type, 4);
    put_le(&b->infos, offset, 8);
    b->n_tensor++;
}

/* A tensor of `size` bytes that all hold `fill`, at the next aligned place; ne1 0 means one
 * dimension. */
static inline void tensor(gguf_build *b, const char *name, uint64_t ne0, uint64_t ne1,
                          uint32_t type, size_t size, uint8_t fill)
{
    uint64_t ne[2] = {ne0, ne1};
    put_fill(&b->data, (b->align - b->data.n % b->align) % b->align, 0);
    tensor_entry(b, name, ne1 == 0 ? 1 : 2, ne, type, b->data.n);
    put_fill(&b->data, size, fill);
}

static inline bytes gguf_layout(const gguf_build *b)
{
    bytes out = {0};
    put(&out, "GGUF", 4);
    put_le(&out, b->version, 4);
    put_le(&out, b->n_tensor, 8);
    put_le(&out, b->n_key, 8);
    put(&out, b->keys.p, b->keys.n);
    put(&out, b->infos.p, b->infos.n);
    put_fill(&out, (b->align - out.n % b->align) % b->align, 0);
    put(&out, b->data.p, b->data.n);
    return out;
}

static inline void build_free(gguf_build *b)
{
    bytes_free(&b->keys);
    bytes_free(&b->infos);
    bytes_free(&b->data);
}

static inline void write_gguf(const char *name, gguf_build *b)
{
    bytes out = gguf_layout(b);
    write_file(name, out.p, out.n);
    bytes_free(&out);
    build_free(b);
}

/* Keys of a tiny llama: 1 layer, width 8, 2 heads over 1, 4 tokens. */
static inline void tiny_keys(gguf_build *b)
{
    static const char *const tokens[] = {"<s>", "a", "b", "</s>"};
    key_str(b, "general.architecture", "llama");
    key_u32(b, "llama.block_count", 1);
    key_u32(b, "llama.context_length", 64);
    key_u32(b, "llama.embedding_length", 8);
    key_u32(b, "llama.feed_forward_length", 16);
    key_u32(b, "llama.attention.head_count", 2);
    key_u32(b, "llama.attention.head_count_kv", 1);
    key_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_u32(b, "llama.rope.dimension_count", 4);
    key_f32(b, "llama.rope.freq_base", 500000.0f);
    key_strings(b, "tokenizer.ggml.tokens", tokens, 4);
    key_u32(b, "tokenizer.ggml.eos_token_id", 3);
}

/* Its tensors in F32; byte k of tensor k, so that reads can be told apart. */
static inline void tiny_tensors(gguf_build *b)
{
    tensor(b, "token_embd.weight", 8, 4, 0, 128, 1);
    tensor(b, "blk.0.attn_norm.weight", 8, 0, 0, 32, 2);
    tensor(b, "blk.0.attn_q.weight", 8, 8, 0, 256, 3);
    tensor(b, "blk.0.attn_k.weight", 8, 4, 0, 128, 4);
    tensor(b, "blk.0.attn_v.weight", 8, 4, 0, 128, 5);
    tensor(b, "blk.0.attn_output.weight", 8, 8, 0, 256, 6);
    tensor(b, "blk.0.ffn_norm.weight", 8, 0, 0, 32, 7);
    tensor(b, "blk.0.ffn_gate.weight", 8, 16, 0, 512, 8);
    tensor(b, "blk.0.ffn_up.weight", 8, 16, 0, 512, 9);
    tensor(b, "blk.0.ffn_down.weight", 16, 8, 0, 512, 10);
    tensor(b, "output_norm.weight", 8, 0, 0, 32, 11);
}

#endif
