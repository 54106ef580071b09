#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of the fuzz targets to tests/data/corpus/<target>/.

The seeds are small, valid and deterministic. Inputs that once made a target fail are kept in the
same folders under names that begin with "crash-"; this script leaves them alone.
"""
import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus"

U8, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
FIXED = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}


def save(target, name, data):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def gguf_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        elem, items = value
        body = b"".join(gguf_value(elem, item) for item in items)
        return struct.pack("<IQ", elem, len(items)) + body
    return struct.pack(FIXED[kind], value)


def gguf(keys, tensors, version=3, align=32):
    """keys: (name, type, value); tensors: (name, ne, type, bytes of data)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        head += gguf_string(name) + struct.pack("<I", kind) + gguf_value(kind, value)
    data = b""
    for name, ne, kind, size in tensors:
        data += b"\0" * (-len(data) % align)
        head += gguf_string(name) + struct.pack("<I", len(ne))
        head += b"".join(struct.pack("<Q", n) for n in ne)
        head += struct.pack("<IQ", kind, len(data))
        data += bytes(i & 0xFF for i in range(size))
    return head + b"\0" * (-len(head) % align) + data


def model_keys(arch):
    return [
        ("general.architecture", STRING, arch),
        (f"{arch}.block_count", U32, 1),
        (f"{arch}.context_length", U32, 64),
        (f"{arch}.embedding_length", U32, 8),
        (f"{arch}.feed_forward_length", U32, 16),
        (f"{arch}.attention.head_count", U32, 2),
        (f"{arch}.attention.head_count_kv", U32, 1),
        (f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, ["<s>", "a", "b"])),
        ("tokenizer.ggml.eos_token_id", U32, 2),
    ]


def write_gguf():
    plain = [
        ("token_embd.weight", (8, 3), 0, 96),
        ("blk.0.attn_q.weight", (8, 8), 1, 128),
        ("blk.0.ffn_norm.weight", (8,), 0, 32),
        ("output_norm.weight", (8,), 0, 32),
    ]
    save("gguf", "llama-v3", gguf(model_keys("llama"), plain))
    save("gguf", "llama-v2", gguf(model_keys("llama"), plain, version=2))
    fused = [
        ("token_embd.weight", (32, 2), 3, 40),
        ("output.weight", (32, 2), 2, 36),
        ("blk.0.attn_qkv.weight", (8, 16), 0, 512),
        ("blk.0.attn_qkv.bias", (16,), 0, 64),
        ("rope_freqs.weight", (2,), 0, 8),
        ("blk.0.unknown", (256,), 21, 110),
    ]
    yarn = [
        ("qwen3.attention.key_length", U32, 4),
        ("qwen3.attention.value_length", U32, 4),
        ("qwen3.rope.dimension_count", U32, 4),
        ("qwen3.rope.freq_base", F32, 1e6),
        ("qwen3.rope.scaling.type", STRING, "yarn"),
        ("qwen3.rope.scaling.factor", F32, 4.0),
        ("qwen3.rope.scaling.original_context_length", U32, 16),
        ("qwen3.vocab_size", U64, 3),
    ]
    save("gguf", "qwen3-fused", gguf(model_keys("qwen3") + yarn, fused))
    odd = [
        ("general.alignment", U32, 64),
        ("x.nested", ARRAY, (ARRAY, [(U8, [1, 2]), (STRING, ["deep"])])),
        ("x.flag", BOOL, True),
        ("split.count", U32, 1),
        ("llama.rope.scaling.type", STRING, "linear"),
        ("llama.rope.scaling.factor", F32, 2.0),
    ]
    save("gguf", "llama-odd-keys", gguf(model_keys("llama") + odd, plain, align=64))
    parts = [("split.no", U32, 0), ("split.count", U32, 2), ("split.tensors.count", I32, 4)]
    save("gguf", "llama-split", gguf(model_keys("llama") + parts, plain))
    arch = "qwen35moe"
    hybrid = [(key, kind, 3 if key == f"{arch}.block_count" else value) for key, kind, value in model_keys(arch)] + [
        (f"{arch}.nextn_predict_layers", U32, 1),
        (f"{arch}.expert_count", U32, 4),
        (f"{arch}.expert_used_count", U32, 2),
        (f"{arch}.expert_feed_forward_length", U32, 4),
        (f"{arch}.expert_shared_feed_forward_length", U32, 4),
        (f"{arch}.expert_weights_norm", BOOL, False),
        (f"{arch}.ssm.conv_kernel", U32, 4),
        (f"{arch}.ssm.state_size", U32, 2),
        (f"{arch}.ssm.group_count", U32, 1),
        (f"{arch}.ssm.time_step_rank", U32, 2),
        (f"{arch}.ssm.inner_size", U32, 4),
        (f"{arch}.attention.recurrent_layers", ARRAY, (BOOL, [True, False, False])),
        (f"{arch}.rope.dimension_count", U32, 2),
    ]
    delta = [
        ("blk.0.attn_qkv.weight", (8, 8), 0, 256),
        ("blk.0.attn_gate.weight", (8, 4), 0, 128),
        ("blk.0.ssm_a", (2,), 0, 8),
        ("blk.0.ssm_dt.bias", (2,), 0, 8),
        ("blk.1.attn_qkv.weight", (8, 24), 0, 768),
        ("blk.2.nextn.eh_proj.weight", (8, 2), 0, 64),
    ]
    save("gguf", "qwen35moe", gguf(hybrid, delta))
    save("gguf", "empty", b"")


def safetensors(header, size):
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(i & 0xFF for i in range(size))


def write_safetensors():
    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    save("safetensors", "empty", safetensors({}, 0))
    plain = safetensors({
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": entry("BF16", [2, 4], 0, 16),
        "model.norm.weight": entry("F32", [4], 16, 32),
        "lm_head.weight": entry("F16", [2, 4], 32, 48),
    }, 48)
    save("safetensors", "plain", plain)
    save("safetensors", "plain-no-length", plain[8:])
    save("safetensors", "odd", safetensors({
        "model.language_model.a": entry("I64", [1], 0, 8),
        "language_model.model.b": entry("F8_E4M3", [8], 8, 16),
        "c": entry("F32", [], 20, 24),
        "d": entry("F32", [0, 5], 24, 24),
        "e": entry("F32", [1, 1, 1, 1, 1], 24, 28),
        "f": entry("NEW", [3], 28, 29),
    }, 29))


def write_quantised():
    """One small module of each way to store quantised weights; `parts` are (suffix, dtype, shape, bytes)."""
    def module(name, parts):
        header, data = {}, b""
        for suffix, dtype, shape, raw in parts:
            header["model.layers.0.mlp.up_proj" + suffix] = {
                "dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        raw = json.dumps(header).encode()
        save("safetensors", name, struct.pack("<Q", len(raw)) + raw + data)

    def codes(n):
        return bytes(i * 37 & 0x7E for i in range(n))

    def scales(n):
        return struct.pack("<e", 0.5) * n

    words = struct.pack("<I", 0x77777777)
    module("fp8-tile", [(".weight", "F8_E4M3", [8, 16], codes(128)), (".weight_scale_inv", "F32", [2, 2], b"\0\0\0\x3f" * 4)])
    module("fp8-tensor", [(".weight", "F8_E4M3", [2, 128], codes(256)), (".weight_scale", "F16", [1], scales(1))])
    module("int8-channel", [(".weight", "I8", [2, 8], codes(16)), (".weight_scale", "F16", [2, 1], scales(2)),
                            (".input_scale", "F16", [1], scales(1))])
    module("packed", [(".weight_packed", "I32", [8, 4], codes(128)), (".weight_scale", "F16", [8, 2], scales(16)),
                      (".weight_shape", "I64", [2], struct.pack("<qq", 8, 32)),
                      (".weight_zero_point", "I32", [1, 2], words * 2)])
    module("gptq", [(".qweight", "I32", [4, 8], codes(128)), (".qzeros", "I32", [1, 1], words),
                    (".scales", "F16", [1, 8], scales(8)), (".g_idx", "I32", [32], bytes(128))])
    module("awq", [(".qweight", "I32", [8, 1], codes(32)), (".qzeros", "I32", [2, 1], words * 2),
                   (".scales", "F16", [2, 8], scales(16))])


def write_config():
    llama = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "eos_token_id": 2, "torch_dtype": "float16",
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 128},
    }
    qwen3 = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 256,
        "tie_word_embeddings": True, "eos_token_id": [1, 2], "dtype": "bfloat16",
        "use_sliding_window": False, "layer_types": ["full_attention", "full_attention"],
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                            "original_max_position_embeddings": 32, "beta_fast": 32,
                            "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.5,
                            "attention_factor": 1.1, "truncate": False,
                            "partial_rotary_factor": 0.5},
    }
    save("config", "llama", json.dumps(llama).encode())
    save("config", "qwen3", json.dumps(qwen3).encode())
    save("config", "short", b'{"model_type": "llama"}')
    save("config", "python", b'\xef\xbb\xbf{"model_type": "x", "limit": [0.0, Infinity, NaN], "model_type": "llama",\n'
         b'"model_max_length": 1000000000000000019884624838656, "pad": "\\u0000\\ud800"}')


def write_json():
    save("json", "numbers", b"[0, -0, -0.0, 1e5, 1E-5, 0.2, 5e-324, 1.7976931348623157e308, 1e999, -1e999, NaN, Infinity,"
         b" -Infinity, 9223372036854775807, -9223372036854775808, 9223372036854775808, " + b"1" * 400 + b", 0.1e-999]")
    save("json", "texts", b'\xef\xbb\xbf {"a\\u0000": "\\u0000\\/\\b\\f\\n\\r\\t\\"\\\\\\u00e9\\u20AC\\ud83e\\udd8a\\ud83e\\udd8ax",'
         b' "": "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x8a"}\n')
    save("json", "twice", b'{"a": 1, "b": {"a": [], "a": {}}, "a": null, "c": [true, false, [[[]]]]}')
    save("json", "deep", b"[" * 129 + b"]" * 129)
    save("json", "cut", b'{"a": [1, 2, {"b": "c')


write_gguf()
write_safetensors()
write_quantised()
write_config()
write_json()
