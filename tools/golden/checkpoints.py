# SPDX-License-Identifier: Apache-2.0
"""The tiny Hugging Face checkpoints: their config.json texts, their random tensors, their files.

Every tensor is random, norms and biases too, so that a tensor that an engine skips, swaps or reads
with the wrong shape cannot go unseen. Scales are chosen so that attention is far from uniform and
far from one-hot. Configs are written in the different ways that publishers write them.
"""

import json
import os

import numpy as np
import torch
from safetensors.torch import save_file

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

SIGNS = np.array([-1, 1], dtype=np.float32)


def llama_config(**over):
    """The keys of a Llama 3 generation config.json; `over` replaces, None as value keeps null."""
    cfg = {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu",
        "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 68,
        "max_position_embeddings": 512, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": 6, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.46.3", "use_cache": True, "vocab_size": 83,
    }
    cfg.update(over)
    return cfg


def llama2_config(**over):
    """The sparse config of a Llama 2 publisher: no head_dim, no rope_theta, no bias keys."""
    cfg = {
        "_name_or_path": "tiny", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 92, "max_position_embeddings": 4096, "model_type": "llama",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "tie_word_embeddings": False, "torch_dtype": "float16",
        "transformers_version": "4.31.0", "use_cache": True, "vocab_size": 83,
    }
    cfg.update(over)
    return cfg


def mistral_config(**over):
    """Mistral's keys, made small: heads whose sizes do not add up to the width, as NeMo has."""
    cfg = {
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 56,
        "initializer_range": 0.02, "intermediate_size": 84, "max_position_embeddings": 512,
        "model_type": "mistral", "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "sliding_window": 13, "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.43.0.dev0", "use_cache": True, "vocab_size": 83,
    }
    cfg.update(over)
    return cfg


def qwen2_config(**over):
    """Qwen2.5's keys, made small: no head_dim, and no key for the biases."""
    cfg = {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 76, "max_position_embeddings": 32768, "max_window_layers": 3,
        "model_type": "qwen2", "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.43.1", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 83,
    }
    cfg.update(over)
    return cfg


def qwen3_config(**over):
    cfg = {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "eos_token_id": 2, "head_dim": 24, "hidden_act": "silu",
        "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 68,
        "max_position_embeddings": 40960, "max_window_layers": 2, "model_type": "qwen3",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 83,
    }
    cfg.update(over)
    return cfg


def qwen3_config_v5(**over):
    """The transformers 5 spelling: `dtype` and `rope_parameters` instead of the older keys."""
    cfg = qwen3_config(**over)
    theta, scaling = cfg.pop("rope_theta"), cfg.pop("rope_scaling")
    assert scaling is None
    cfg["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}
    cfg["dtype"] = cfg.pop("torch_dtype")
    cfg["layer_types"] = ["full_attention"] * cfg["num_hidden_layers"]
    cfg["transformers_version"] = "5.0.0"
    return cfg


def qwen3_moe_config(**over):
    """Qwen3-30B-A3B's keys, made small; `norm_topk_prob` None leaves the key out."""
    cfg = qwen3_config()
    cfg.update({
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
        "decoder_sparse_step": 1, "hidden_size": 40, "head_dim": 16, "intermediate_size": 56,
        "mlp_only_layers": [], "moe_intermediate_size": 20, "norm_topk_prob": True,
        "num_experts": 12, "num_experts_per_tok": 3, "num_attention_heads": 5,
        "num_key_value_heads": 1, "output_router_logits": False, "router_aux_loss_coef": 0.001,
        "vocab_size": 61,
    })
    cfg.update(over)
    return {k: v for k, v in cfg.items() if not (k == "norm_topk_prob" and v is None)}


def minimax_config(**over):
    """MiniMax-M2's keys, made small. Weights of the MTP modules that it announces are not there."""
    cfg = {
        "architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [1, 1], "bos_token_id": None,
        "eos_token_id": None, "head_dim": 16, "hidden_act": "silu", "hidden_size": 40,
        "intermediate_size": 20, "max_position_embeddings": 512, "model_type": "minimax_m2",
        "mtp_transformer_layers": 1, "num_attention_heads": 6, "num_experts_per_tok": 3,
        "num_hidden_layers": 2, "num_key_value_heads": 3, "num_local_experts": 12,
        "num_mtp_modules": 3, "output_router_logits": False, "qk_norm_type": "per_layer",
        "rms_norm_eps": 1e-06, "rope_theta": 50000, "rotary_dim": 6,
        "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "scoring_func": "sigmoid",
        "shared_intermediate_size": 0, "tie_word_embeddings": False, "torch_dtype": "float32",
        "transformers_version": "4.46.1", "use_cache": True, "use_mtp": True,
        "use_qk_norm": True, "use_routing_bias": True, "vocab_size": 61,
    }
    cfg.update(over)
    return cfg


FP8 = {"activation_scheme": "dynamic", "fmt": "float8_e4m3fn", "quant_method": "fp8",
       "weight_block_size": [128, 128],
       "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}

# name -> (seed, shards, config)
TINY = {
    "llama-f32": (11, 3, llama_config(
        hidden_size=72, num_attention_heads=9, num_key_value_heads=3, head_dim=16,
        intermediate_size=100, num_hidden_layers=3, vocab_size=149)),
    "llama-bf16": (12, 1, {k: v for k, v in llama_config(
        hidden_size=80, num_attention_heads=5, num_key_value_heads=1, intermediate_size=112,
        tie_word_embeddings=True, torch_dtype="bfloat16", rope_theta=100000).items()
        if k != "head_dim"}),
    "llama-f16": (13, 1, llama2_config()),
    "llama-rope3": (14, 1, llama_config(
        num_attention_heads=4, head_dim=24, rope_theta=500000.0, max_position_embeddings=512,
        rope_scaling={"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                      "original_max_position_embeddings": 64, "rope_type": "llama3"})),
    "llama-linear": (15, 1, llama_config(rope_scaling={"factor": 4.0, "type": "linear"})),
    "llama-bias": (16, 1, llama_config(attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3,
                                       num_attention_heads=4)),
    # A window on every layer.
    "mistral-f32": (28, 1, mistral_config()),
    "qwen2-f32": (26, 1, qwen2_config()),
    # A window on the middle layer only, by list.
    "qwen2-bf16": (27, 1, qwen2_config(
        hidden_size=80, num_attention_heads=5, num_key_value_heads=1, num_hidden_layers=3,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        use_sliding_window=True, sliding_window=9, tie_word_embeddings=True,
        torch_dtype="bfloat16")),
    "qwen3-f32": (17, 1, qwen3_config_v5(rms_norm_eps=1e-3)),
    "qwen3-bf16": (18, 1, qwen3_config(
        hidden_size=64, num_attention_heads=8, head_dim=16, intermediate_size=88,
        tie_word_embeddings=True, torch_dtype="bfloat16")),
    "qwen3-yarn": (19, 1, qwen3_config(
        hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=32,
        intermediate_size=60, rope_theta=10000, max_position_embeddings=256,
        rope_scaling={"rope_type": "yarn", "factor": 4.0,
                      "original_max_position_embeddings": 64})),
    # Windows from the second layer on, shorter than most prompts and than a page.
    "qwen3-window": (25, 1, qwen3_config(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=11, max_window_layers=1)),
    "qwen3moe-f32": (21, 2, qwen3_moe_config(num_hidden_layers=3, mlp_only_layers=[1])),
    "qwen3moe-bf16": (22, 1, qwen3_moe_config(
        num_attention_heads=6, num_key_value_heads=3, decoder_sparse_step=2,
        tie_word_embeddings=True, torch_dtype="bfloat16", norm_topk_prob=None)),
    "minimax-f32": (23, 1, minimax_config()),
    # Rows of 128 and more, whole blocks of codes and parts of them in both directions.
    "minimax-fp8": (24, 1, minimax_config(
        hidden_size=128, intermediate_size=36, num_attention_heads=9, num_key_value_heads=3,
        rotary_dim=10, quantization_config=FP8)),
}
# Experts in one tensor for all, as transformers 5 writes them.
FUSED = ("qwen3moe-bf16",)


def head_dim(cfg):
    return cfg.get("head_dim") or cfg["hidden_size"] // cfg["num_attention_heads"]


def n_expert(cfg):
    return cfg.get("num_experts") or cfg.get("num_local_experts") or 0


def has_experts(cfg, layer):
    return n_expert(cfg) > 0 and layer not in cfg.get("mlp_only_layers", []) and (
        (layer + 1) % cfg.get("decoder_sparse_step", 1) == 0)


def expert_shapes(cfg, fused):
    """Names after "layers.N." of a layer's router and experts."""
    hid = cfg["hidden_size"]
    if cfg["model_type"] == "minimax_m2":
        n, ffn, block = cfg["num_local_experts"], cfg["intermediate_size"], "block_sparse_moe."
        gate, up, down = "w1", "w3", "w2"
        out = {block + "gate.weight": (n, hid), block + "e_score_correction_bias": (n,)}
    else:
        n, ffn, block = cfg["num_experts"], cfg["moe_intermediate_size"], "mlp."
        gate, up, down = "gate_proj", "up_proj", "down_proj"
        out = {block + "gate.weight": (n, hid)}
    if fused:
        return {**out, block + "experts.gate_up_proj": (n, 2 * ffn, hid),
                block + "experts.down_proj": (n, hid, ffn)}
    for e in range(n):
        p = f"{block}experts.{e}."
        out.update({f"{p}{gate}.weight": (ffn, hid), f"{p}{up}.weight": (ffn, hid),
                    f"{p}{down}.weight": (hid, ffn)})
    return out


def has_bias(cfg, name):
    if cfg["model_type"] == "qwen2":
        return name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return cfg.get("attention_bias" if "attn" in name else "mlp_bias")


def has_qk_norm(cfg):
    return cfg["model_type"] not in ("llama", "mistral", "qwen2")


def shapes(cfg, fused=False):
    """Tensor name -> shape, in the order a publisher's file has them."""
    hid, ffn, d = cfg["hidden_size"], cfg["intermediate_size"], head_dim(cfg)
    nq, nkv = cfg["num_attention_heads"] * d, cfg["num_key_value_heads"] * d
    out = {"model.embed_tokens.weight": (cfg["vocab_size"], hid)}
    for i in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{i}."
        linears = {"self_attn.q_proj": (nq, hid), "self_attn.k_proj": (nkv, hid),
                   "self_attn.v_proj": (nkv, hid), "self_attn.o_proj": (hid, nq),
                   "mlp.gate_proj": (ffn, hid), "mlp.up_proj": (ffn, hid),
                   "mlp.down_proj": (hid, ffn)}
        out[p + "input_layernorm.weight"] = (hid,)
        if has_experts(cfg, i):
            linears = {k: v for k, v in linears.items() if "mlp" not in k}
            out.update({p + k: v for k, v in expert_shapes(cfg, fused).items()})
        for name, shape in linears.items():
            out[p + name + ".weight"] = shape
            if has_bias(cfg, name):
                out[p + name + ".bias"] = (shape[0],)
        if has_qk_norm(cfg):
            whole = cfg["model_type"] == "minimax_m2"
            out[p + "self_attn.q_norm.weight"] = (nq if whole else d,)
            out[p + "self_attn.k_norm.weight"] = (nkv if whole else d,)
        out[p + "post_attention_layernorm.weight"] = (hid,)
    out["model.norm.weight"] = (hid,)
    if not cfg["tie_word_embeddings"]:
        out["lm_head.weight"] = (cfg["vocab_size"], hid)
    return out


def tensor_values(rng, name, shape, tied):
    """Random float32 values for one tensor, at a scale that keeps every part of the model alive."""
    normal = rng.standard_normal(shape).astype(np.float32)
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return rng.uniform(0.6, 1.7, shape).astype(np.float32)
    if name.endswith("norm.weight"):
        values = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        # With a tied head a positive last norm would let every token predict itself for ever.
        return values * rng.choice(SIGNS, shape) if tied and name == "model.norm.weight" else (
            values)
    if name.endswith(".bias"):
        return normal * np.float32(0.3)
    if name == "model.embed_tokens.weight":
        # Some rows are tiny: there the epsilon of the first norm is a visible share of mean(x*x).
        rows = np.exp(rng.uniform(np.log(0.05), 0.0, (shape[0], 1))).astype(np.float32)
        return normal * np.sqrt(rows) * np.float32(0.22) if tied else normal * rows
    if name.endswith("e_score_correction_bias"):
        return normal * np.float32(0.2)
    gain = {"q_proj": 1.25, "k_proj": 1.25, "o_proj": 0.8, "down_proj": 0.8, "lm_head": 1.6,
            "gate": 1.5, "w2": 1.5}
    part = name.split(".")[-1 if name.endswith("_proj") else -2]
    if part == "down_proj" and ".experts." in name:
        return normal * np.float32(1.5 / np.sqrt(shape[-1]))
    return normal * np.float32(gain.get(part, 1.0) / np.sqrt(shape[-1]))


def quantise_fp8(tensors):
    """e4m3 codes and a scale for each 128 x 128 of them, for all matrices that FP8 lists do not name."""
    out = {}
    for name, w in tensors.items():
        if w.dim() != 2 or "embed" in name or "lm_head" in name or name.endswith(".gate.weight"):
            out[name] = w
            continue
        rows, cols = -(-w.shape[0] // 128), -(-w.shape[1] // 128)
        scale = torch.empty(rows, cols)
        codes = torch.empty(w.shape, dtype=torch.float8_e4m3fn)
        for i in range(rows):
            for j in range(cols):
                at = slice(128 * i, 128 * (i + 1)), slice(128 * j, 128 * (j + 1))
                scale[i, j] = w[at].abs().max() / 448
                codes[at] = (w[at] / scale[i, j]).to(torch.float8_e4m3fn)
        out[name], out[name + "_scale_inv"] = codes, scale
    return out


def dequantise_fp8(tensors):
    """What the codes mean: value times scale, in F32."""
    out = {}
    for name, w in tensors.items():
        if name.endswith("_scale_inv"):
            continue
        scale = tensors.get(name + "_scale_inv")
        if scale is None:
            out[name] = w
            continue
        grid = scale.repeat_interleave(128, 0)[:w.shape[0]].repeat_interleave(128, 1)
        out[name] = w.float() * grid[:, :w.shape[1]]
    return out


def make_tensors(cfg, seed, fused=False):
    rng = np.random.default_rng(seed)
    dtype = DTYPES[cfg.get("torch_dtype") or cfg["dtype"]]
    tied = cfg["tie_word_embeddings"]
    tensors = {name: torch.from_numpy(np.ascontiguousarray(tensor_values(rng, name, shape, tied)))
               .to(dtype) for name, shape in shapes(cfg, fused).items()}
    return quantise_fp8(tensors) if "quantization_config" in cfg else tensors


def write_dequantised(folder, cfg, tensors):
    """The checkpoint without its quantisation, for a reference that is not to quantise anything."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({k: v for k, v in cfg.items() if k != "quantization_config"}, f)
    save_file(dequantise_fp8(tensors), os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})


def write_checkpoint(folder, cfg, tensors, shards):
    """Writes config.json and the safetensors file, or `shards` files with their index."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(cfg, f, indent=2)
        f.write("\n")

    def save(part, file):
        path = os.path.join(folder, file)
        save_file(part, path, metadata={"format": "pt"})
        os.chmod(path, 0o644)   # the library makes it readable by its owner only

    if shards == 1:
        save(tensors, "model.safetensors")
        return tensors
    names = list(tensors)
    weight_map = {}
    for s in range(shards):
        part = names[s * len(names) // shards:(s + 1) * len(names) // shards]
        file = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
        save({n: tensors[n] for n in part}, file)
        weight_map.update({n: file for n in part})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f, indent=2,
                  sort_keys=True)
        f.write("\n")
    return tensors
