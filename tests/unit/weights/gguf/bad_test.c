/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files that are wrong: cut, changed, overflowing, overlapping, of wrong types. */
#include "unit/weights/gguf/gguf_build.h"

#include <math.h>

static void refuses_every_truncation(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    tiny_tensors(&b);
    bytes whole = gguf_layout(&b);
    build_free(&b);
    for (size_t n = 0; n < whole.n; n++) {
        char label[32];
        snprintf(label, sizeof label, "cut at %zu", n);
        write_file("cut.gguf", whole.p, n);
        expect_refused(label, in_dir("cut.gguf"), WHIM_ERR_CORRUPT, "cut.gguf", NULL);
    }
    bytes_free(&whole);
}

/* Nothing to expect but an orderly end; the sanitizers watch. */
static void survives_every_changed_byte(void **state)
{
    (void)state;
    gguf_build b = start();
    tiny_keys(&b);
    tiny_tensors(&b);
    bytes whole = gguf_layout(&b);
    build_free(&b);
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0xff};
    for (size_t at = 0; at < 1200; at++) {
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t old = whole.p[at];
            whole.p[at] = values[i];
            write_file("changed.gguf", whole.p, whole.n);
            whole.p[at] = old;
            whim_ckpt ckpt;
            whim_diag diag = {{0}};
            if (whim_ckpt_open(&ckpt, whim_model_archs(), in_dir("changed.gguf"), &diag) ==
                WHIM_ERR_OK) {
                whim_ckpt_close(&ckpt);
            } else {
                expect_text(&diag, "changed byte", "changed.gguf");
            }
        }
    }
    bytes_free(&whole);
}

static void add_alignment(gguf_build *b)
{
    key_u32(b, "general.alignment", 24);
}
static void add_alignment_huge(gguf_build *b)
{
    key_u32(b, "general.alignment", 1u << 30);
}
static void add_duplicate_key(gguf_build *b)
{
    key_u32(b, "llama.block_count", 1);
}
static void add_nan_eps(gguf_build *b)
{
    key_f32(b, "llama.attention.layer_norm_rms_epsilon", NAN);
}
static void add_zero_eps(gguf_build *b)
{
    key_f32(b, "llama.attention.layer_norm_rms_epsilon", 0.0f);
}
static void add_negative_base(gguf_build *b)
{
    key_f32(b, "llama.rope.freq_base", -1.0f);
}
static void add_inf_base(gguf_build *b)
{
    key_f32(b, "llama.rope.freq_base", INFINITY);
}
static void add_string_count(gguf_build *b)
{
    key_str(b, "llama.block_count", "one");
}
static void add_negative_count(gguf_build *b)
{
    key_int(b, "llama.block_count", WHIM_GGUF_I32, (uint64_t)-1);
}
static void add_huge_width(gguf_build *b)
{
    key_int(b, "llama.embedding_length", WHIM_GGUF_U64, UINT64_MAX);
}
static void add_uneven_layers(gguf_build *b)
{
    key_array(b, "llama.attention.head_count_kv", WHIM_GGUF_U32, 2);
    put_le(&b->keys, 1, 4);
    put_le(&b->keys, 2, 4);
}
static void add_two_uneven_layers(gguf_build *b)
{
    add_uneven_layers(b);
    key_u32(b, "llama.block_count", 2);
}
static void add_experts(gguf_build *b)
{
    key_u32(b, "llama.expert_count", 8);
}
static void add_value_length(gguf_build *b)
{
    key_u32(b, "llama.attention.value_length", 6);
}
static void add_longrope(gguf_build *b)
{
    key_str(b, "llama.rope.scaling.type", "longrope");
}
static void add_arch(gguf_build *b)
{
    key_str(b, "general.architecture", "gpt2");
}
static void add_eos(gguf_build *b)
{
    key_u32(b, "tokenizer.ggml.eos_token_id", 4);
}
static void add_bad_type(gguf_build *b)
{
    key_head(b, "t.bad", 13);
}
static void add_huge_string(gguf_build *b)
{
    key_head(b, "t.long", WHIM_GGUF_STRING);
    put_le(&b->keys, UINT64_MAX - 7, 8);
}
static void add_huge_array(gguf_build *b)
{
    key_array(b, "t.array", WHIM_GGUF_U64, UINT64_MAX / 4);
}
static void add_huge_strings(gguf_build *b)
{
    key_array(b, "t.strings", WHIM_GGUF_STRING, 1u << 30);
}
static void add_deep_array(gguf_build *b)
{
    key_array(b, "t.deep", WHIM_GGUF_ARRAY, 1);
    for (int i = 0; i < 8; i++) {
        put_le(&b->keys, WHIM_GGUF_ARRAY, 4);
        put_le(&b->keys, 1, 8);
    }
    put_le(&b->keys, WHIM_GGUF_U8, 4);
    put_le(&b->keys, 0, 8);
}
static void add_nul_key(gguf_build *b)
{
    put_le(&b->keys, 3, 8);
    put(&b->keys, "a\0b", 3);
    put_le(&b->keys, WHIM_GGUF_U8, 4);
    put_le(&b->keys, 1, 1);
    b->n_key++;
}
static void add_duplicate_tensor(gguf_build *b)
{
    tensor(b, "output_norm.weight", 8, 0, 0, 32, 1);
}
static void add_overlap(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){8}, 0, 32);
}
static void add_unaligned(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){1}, 0, 33);
}
static void add_outside(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){1 << 20}, 0, 0);
}
static void add_far_offset(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){1}, 0, UINT64_MAX - 31);
}
static void add_overflow(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 2, (uint64_t[]){1ull << 40, 1ull << 40}, 0, 0);
}
static void add_byte_overflow(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 2, (uint64_t[]){1ull << 31, 1ull << 31}, 0, 0);
}
static void add_negative_dim(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){UINT64_MAX}, 0, 0);
}
static void add_five_dims(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0);
}
static void add_ragged_block(gguf_build *b)
{
    tensor_entry(b, "blk.9.extra", 1, (uint64_t[]){33}, 8, 0);
}
static void add_wrong_qkv(gguf_build *b)
{
    tensor(b, "blk.9.attn_qkv.weight", 8, 15, 0, 480, 1);
}
static void add_long_name(gguf_build *b)
{
    char name[400];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    tensor_entry(b, name, 1, (uint64_t[]){1}, 0, 0);
}

static const struct {
    const char *label;
    const char *skip; /* key of the tiny model that `add` writes otherwise */
    void (*add)(gguf_build *);
    whim_err err;
    const char *needle;
} bad[] = {
    {"alignment", NULL, add_alignment, WHIM_ERR_CORRUPT, "general.alignment"},
    {"huge alignment", NULL, add_alignment_huge, WHIM_ERR_CORRUPT, "general.alignment"},
    {"duplicate key", NULL, add_duplicate_key, WHIM_ERR_CORRUPT, "llama.block_count"},
    {"NaN", "llama.attention.layer_norm_rms_epsilon", add_nan_eps, WHIM_ERR_CORRUPT, "epsilon"},
    {"zero eps", "llama.attention.layer_norm_rms_epsilon", add_zero_eps, WHIM_ERR_CORRUPT, "eps"},
    {"negative base", "llama.rope.freq_base", add_negative_base, WHIM_ERR_CORRUPT, "freq_base"},
    {"infinite base", "llama.rope.freq_base", add_inf_base, WHIM_ERR_CORRUPT, "freq_base"},
    {"string count", "llama.block_count", add_string_count, WHIM_ERR_CORRUPT, "block_count"},
    {"negative count", "llama.block_count", add_negative_count, WHIM_ERR_CORRUPT, "block_count"},
    {"huge width", "llama.embedding_length", add_huge_width, WHIM_ERR_CORRUPT, "embedding_length"},
    {"layer array length", "llama.attention.head_count_kv", add_uneven_layers, WHIM_ERR_CORRUPT,
     "head_count_kv"},
    {"experts", NULL, add_experts, WHIM_ERR_UNSUPPORTED, "expert_count"},
    {"value length", NULL, add_value_length, WHIM_ERR_UNSUPPORTED, "value_length"},
    {"longrope", NULL, add_longrope, WHIM_ERR_UNSUPPORTED, "longrope"},
    {"architecture", "general.architecture", add_arch, WHIM_ERR_UNSUPPORTED, "gpt2"},
    {"eos", "tokenizer.ggml.eos_token_id", add_eos, WHIM_ERR_CORRUPT, "eos_token_id"},
    {"value type", NULL, add_bad_type, WHIM_ERR_CORRUPT, "t.bad"},
    {"huge string", NULL, add_huge_string, WHIM_ERR_CORRUPT, "t.long"},
    {"huge array", NULL, add_huge_array, WHIM_ERR_CORRUPT, "t.array"},
    {"huge array of strings", NULL, add_huge_strings, WHIM_ERR_CORRUPT, "t.strings"},
    {"deep array", NULL, add_deep_array, WHIM_ERR_CORRUPT, "t.deep"},
    {"NUL in a key", NULL, add_nul_key, WHIM_ERR_CORRUPT, "control character"},
    {"duplicate tensor", NULL, add_duplicate_tensor, WHIM_ERR_CORRUPT, "output_norm.weight"},
    {"overlap", NULL, add_overlap, WHIM_ERR_CORRUPT, "overlap"},
    {"unaligned", NULL, add_unaligned, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"outside", NULL, add_outside, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"far offset", NULL, add_far_offset, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"overflow", NULL, add_overflow, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"byte overflow", NULL, add_byte_overflow, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"negative dimension", NULL, add_negative_dim, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"five dimensions", NULL, add_five_dims, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"ragged block", NULL, add_ragged_block, WHIM_ERR_CORRUPT, "blk.9.extra"},
    {"wrong qkv", NULL, add_wrong_qkv, WHIM_ERR_CORRUPT, "blk.9.attn_qkv.weight"},
    {"long name", NULL, add_long_name, WHIM_ERR_CORRUPT, "a tensor name"},
};

static void refuses_malformed_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_build b = start();
        b.skip = bad[i].skip;
        tiny_keys(&b);
        tiny_tensors(&b);
        bad[i].add(&b);
        write_gguf("bad.gguf", &b);
        expect_refused(bad[i].label, in_dir("bad.gguf"), bad[i].err, "bad.gguf", bad[i].needle);
    }
    gguf_build b = start();
    b.skip = "llama.block_count";
    tiny_keys(&b);
    write_gguf("bad.gguf", &b);
    expect_refused("missing key", in_dir("bad.gguf"), WHIM_ERR_CORRUPT, "bad.gguf",
                   "llama.block_count");
}

/* Layers that differ are another error than an array of the wrong length. */
static void refuses_uneven_layers(void **state)
{
    (void)state;
    gguf_build b = start();
    static const char *const tokens[] = {"a"};
    key_str(&b, "general.architecture", "llama");
    key_u32(&b, "llama.context_length", 64);
    key_u32(&b, "llama.embedding_length", 8);
    key_u32(&b, "llama.feed_forward_length", 16);
    key_u32(&b, "llama.attention.head_count", 2);
    key_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_strings(&b, "tokenizer.ggml.tokens", tokens, 1);
    add_two_uneven_layers(&b);
    write_gguf("uneven.gguf", &b);
    expect_refused("uneven layers", in_dir("uneven.gguf"), WHIM_ERR_UNSUPPORTED, "uneven.gguf",
                   "head_count_kv");
}

/* Numbers in the fixed part of the header. */
static void refuses_bad_heads(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        size_t at;
        int width;
        uint64_t value;
        whim_err err;
        const char *needle;
    } heads[] = {
        {"magic", 0, 4, 0x46554746, WHIM_ERR_CORRUPT, "GGUF"},
        {"version 1", 4, 4, 1, WHIM_ERR_UNSUPPORTED, "version 1"},
        {"version 4", 4, 4, 4, WHIM_ERR_UNSUPPORTED, "version 4"},
        {"big endian", 4, 4, 0x03000000, WHIM_ERR_UNSUPPORTED, "big-endian"},
        {"tensor count", 8, 8, UINT64_MAX, WHIM_ERR_CORRUPT, "tensor count"},
        {"tensor count", 8, 8, 1 << 19, WHIM_ERR_CORRUPT, "tensor count"},
        {"key count", 16, 8, UINT64_MAX, WHIM_ERR_CORRUPT, "key count"},
        {"key count", 16, 8, 1 << 15, WHIM_ERR_CORRUPT, "key count"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        gguf_build b = start();
        tiny_keys(&b);
        tiny_tensors(&b);
        bytes out = gguf_layout(&b);
        build_free(&b);
        for (int j = 0; j < heads[i].width; j++) {
            out.p[heads[i].at + (size_t)j] = (uint8_t)(heads[i].value >> 8 * j);
        }
        write_file("head.gguf", out.p, out.n);
        bytes_free(&out);
        expect_refused(heads[i].label, in_dir("head.gguf"), heads[i].err, "head.gguf",
                       heads[i].needle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_every_truncation), cmocka_unit_test(survives_every_changed_byte),
        cmocka_unit_test(refuses_malformed_files),  cmocka_unit_test(refuses_uneven_layers),
        cmocka_unit_test(refuses_bad_heads),
    };
    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
