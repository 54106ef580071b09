# SPDX-License-Identifier: Apache-2.0
"""Tiny random models with shapes that divide into groups and tiles, for trying `whimbrel quantize`; standard library
alone, because `make test` uses it: tiny_folders.py OUT writes OUT/dense, OUT/moe and OUT/hybrid."""

import array
import json
import os
import random
import struct
import sys

VOCAB, WIDTH, HEAD = 96, 128, 64


def bf16(values):
    bits = array.array("I")
    bits.frombytes(array.array("f", values).tobytes())
    return array.array("H", [(u + 0x7FFF + (u >> 16 & 1)) >> 16 for u in bits]).tobytes()


class Folder:
    def __init__(self, path, seed):
        self.path, self.rng, self.tensors = path, random.Random(seed), {}

    def add(self, name, *shape, size=None, base=0.0):
        """Normal numbers around base; matrices by default such that a product keeps its size."""
        n = 1
        for d in shape:
            n *= d
        size = size if size is not None else 1.5 * shape[-1] ** -0.5
        self.tensors[name] = (shape, bf16([base + size * self.rng.gauss(0, 1) for _ in range(n)]))

    def norm(self, name, n, base=1.0):
        self.add(name, n, size=0.1, base=base)

    def write(self, config):
        os.makedirs(self.path)
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for name, (shape, content) in self.tensors.items():
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(self.path, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
        with open(os.path.join(self.path, "config.json"), "w") as f:
            json.dump(config, f, indent=1)


def common(**more):
    return {"hidden_size": WIDTH, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD,
            "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
            "hidden_act": "silu", "torch_dtype": "bfloat16"} | more


def ends(f, prefix="model", base=1.0):
    f.add(prefix + ".embed_tokens.weight", VOCAB, WIDTH, size=1.0)
    f.norm(prefix + ".norm.weight", WIDTH, base)
    f.add("lm_head.weight", VOCAB, WIDTH)


def attention(f, layer, base=1.0, gated=False, norms=True):
    a = layer + ".self_attn."
    f.add(a + "q_proj.weight", 4 * HEAD * (2 if gated else 1), WIDTH)
    f.add(a + "k_proj.weight", 2 * HEAD, WIDTH)
    f.add(a + "v_proj.weight", 2 * HEAD, WIDTH)
    f.add(a + "o_proj.weight", WIDTH, 4 * HEAD)
    for name in ("q_norm", "k_norm") if norms else ():
        f.norm(f"{a}{name}.weight", HEAD, base)


def layer_norms(f, layer, base=1.0):
    f.norm(layer + ".input_layernorm.weight", WIDTH, base)
    f.norm(layer + ".post_attention_layernorm.weight", WIDTH, base)


def mlp(f, name, width):
    f.add(name + ".gate_proj.weight", width, WIDTH)
    f.add(name + ".up_proj.weight", width, WIDTH)
    f.add(name + ".down_proj.weight", WIDTH, width)


def dense(path):
    """Llama; the MLP of 160 divides into groups, not into tiles."""
    f = Folder(path, 1)
    ends(f)
    for i in range(2):
        layer = f"model.layers.{i}"
        layer_norms(f, layer)
        attention(f, layer, norms=False)
        mlp(f, layer + ".mlp", 160)
    f.write(common(architectures=["LlamaForCausalLM"], model_type="llama", num_hidden_layers=2, intermediate_size=160,
                   rope_theta=10000.0))


def moe(path):
    """Qwen3-MoE with a tensor for each expert."""
    f = Folder(path, 2)
    ends(f)
    for i in range(2):
        layer = f"model.layers.{i}"
        layer_norms(f, layer)
        attention(f, layer)
        f.add(layer + ".mlp.gate.weight", 5, WIDTH)
        for e in range(5):
            mlp(f, f"{layer}.mlp.experts.{e}", 128)
    f.write(common(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", num_hidden_layers=2,
                   intermediate_size=128, moe_intermediate_size=128, num_experts=5, num_experts_per_tok=2,
                   norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], rope_theta=10000.0))


def hybrid(path):
    """Qwen3.5-MoE inside a multimodal folder: gated delta nets, experts in one tensor, a shared one, and a piece of a
    vision tower with five dimensions."""
    f = Folder(path, 3)
    ends(f, "model.language_model", 0.0)
    keys, values = 2, 4
    for i, kind in enumerate(("linear_attention", "full_attention")):
        layer = f"model.language_model.layers.{i}"
        layer_norms(f, layer, 0.0)
        if kind == "full_attention":
            attention(f, layer, 0.0, gated=True)
        else:
            a = layer + ".linear_attn."
            f.add(a + "in_proj_qkv.weight", (2 * keys + values) * HEAD, WIDTH)
            f.add(a + "in_proj_z.weight", values * HEAD, WIDTH)
            f.add(a + "in_proj_b.weight", values, WIDTH)
            f.add(a + "in_proj_a.weight", values, WIDTH)
            f.add(a + "conv1d.weight", (2 * keys + values) * HEAD, 1, 4)
            f.add(a + "A_log", values, size=0.5)
            f.add(a + "dt_bias", values, size=0.5)
            f.norm(a + "norm.weight", HEAD)
            f.add(a + "out_proj.weight", WIDTH, values * HEAD)
        f.add(layer + ".mlp.gate.weight", 4, WIDTH)
        f.add(layer + ".mlp.experts.gate_up_proj", 4, 256, WIDTH)
        f.add(layer + ".mlp.experts.down_proj", 4, WIDTH, 128)
        f.add(layer + ".mlp.shared_expert_gate.weight", 1, WIDTH)
        mlp(f, layer + ".mlp.shared_expert", 128)
    f.add("model.visual.patch_embed.proj.weight", 8, 3, 2, 4, 4, size=0.1)
    f.add("model.visual.blocks.0.attn.proj.weight", 8, 8)
    text = common(model_type="qwen3_5_moe_text", num_hidden_layers=2, moe_intermediate_size=128, num_experts=4,
                  num_experts_per_tok=2, shared_expert_intermediate_size=128, linear_num_key_heads=keys,
                  linear_num_value_heads=values, linear_key_head_dim=HEAD, linear_value_head_dim=HEAD,
                  linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"],
                  rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                                   "mrope_section": [4, 2, 2], "mrope_interleaved": True})
    f.write({"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
             "tie_word_embeddings": False, "text_config": text})


if __name__ == "__main__":
    for make in (dense, moe, hybrid):
        make(os.path.join(sys.argv[1], make.__name__))
