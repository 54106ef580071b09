# SPDX-License-Identifier: Apache-2.0
"""GGUF files with the weights of tiny safetensors checkpoints, in F32: both must give the same bits.

Names come from gguf-py's own table, experts are stacked as its converters do. Of hybrids the norms hold 1 + w, the
decay -exp(A_log), and the value heads of Qwen3.5 lie by their place in the group (all firsts, all seconds, ...).
"""

import argparse
import json
import os

import numpy as np
from gguf import ExpertGatingFuncType, GGUFWriter, MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map
from safetensors.numpy import load_file

ARCHS = {"qwen2-f32": MODEL_ARCH.QWEN2, "qwen3moe-f32": MODEL_ARCH.QWEN3MOE, "minimax-f32": MODEL_ARCH.MINIMAXM2,
         "qwen35-f32": MODEL_ARCH.QWEN35, "qwen35-r1": MODEL_ARCH.QWEN35,
         "qwen35-moe": MODEL_ARCH.QWEN35MOE, "qwen3next-f32": MODEL_ARCH.QWEN3NEXT}


def read_tensors(folder):
    out = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, file)))
    return out


def stack_experts(tensors):
    """[n_expert, n, k] for each matrix of a layer, under the name without the expert's number."""
    out, stacks = {}, {}
    for name, values in tensors.items():
        stem, dot, rest = name.partition(".experts.")
        if not dot or not rest[0].isdigit():
            out[name] = values
            continue
        number, leaf = rest.split(".", 1)
        stacks.setdefault(f"{stem}.experts.{leaf}", {})[int(number)] = values
    for name, parts in stacks.items():
        out[name] = np.stack([parts[e] for e in range(len(parts))])
    return out


def tile(values, cfg, size):
    """The value heads, `size` rows each, from one group after the other to one place after the other."""
    nk, nv = cfg["linear_num_key_heads"], cfg["linear_num_value_heads"]
    heads = values.reshape(nk, nv // nk, size, *values.shape[1:])
    return heads.swapaxes(0, 1).reshape(values.shape)


def tile_after(values, cfg, first):
    return np.concatenate([values[:first], tile(values[first:], cfg, cfg["linear_value_head_dim"])])


def hybrid_tensor(cfg, name, values):
    """What a hybrid's tensor becomes: [(name, values)]."""
    dk, dv, nk = cfg["linear_key_head_dim"], cfg["linear_value_head_dim"], cfg["linear_num_key_heads"]
    stem, _, leaf = name.rpartition("linear_attn.")
    if name.endswith("norm.weight") and leaf != "norm.weight":
        return [(name, values + np.float32(1))]
    if leaf == "conv1d.weight":
        values = values.squeeze(1)
    elif leaf == "A_log":
        values = -np.exp(values.astype(np.float64)).astype(np.float32)
    elif leaf == "in_proj_qkvz.weight":
        per = cfg["linear_num_value_heads"] // nk * dv
        parts = np.split(values.reshape(nk, -1, values.shape[1]), [dk, 2 * dk, 2 * dk + per], axis=1)
        q, k, v, z = (part.reshape(-1, values.shape[1]) for part in parts)
        stem += "linear_attn.in_proj_"
        return [(stem + "qkv.weight", np.concatenate([q, k, v])), (stem + "z.weight", z)]
    if cfg["model_type"] == "qwen3_next":
        return [(name, values)]
    if leaf in ("conv1d.weight", "in_proj_qkv.weight"):
        values = tile_after(values, cfg, 2 * nk * dk)
    elif leaf == "in_proj_z.weight":
        values = tile(values, cfg, dv)
    elif leaf in ("in_proj_b.weight", "in_proj_a.weight", "A_log", "dt_bias"):
        values = tile(values, cfg, 1)
    elif leaf == "out_proj.weight":
        values = np.ascontiguousarray(tile(values.T, cfg, dv).T)
    return [(name, values)]


MTP_NAMES = {"fc": "eh_proj", "norm": "shared_head_norm"}


def hybrid_tensors(cfg, tensors):
    out = {}
    for name, values in tensors.items():
        name = name.replace("model.language_model.", "model.")
        if name.startswith("mtp."):
            last = cfg["num_hidden_layers"]
            out[f"blk.{last}.nextn.{MTP_NAMES[name.split('.')[1]]}.weight"] = values
        elif name.endswith("experts.gate_up_proj"):
            gate, up = np.split(values, 2, axis=1)
            stem = name.removesuffix("gate_up_proj")
            out[stem + "gate_proj.weight"], out[stem + "up_proj.weight"] = gate, up
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = values
        elif not name.startswith("model.visual."):
            out.update(hybrid_tensor(cfg, name, values))
    return out


def add_hybrid_metadata(writer, arch, cfg, has_mtp):
    writer.add_ssm_conv_kernel(cfg["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(cfg["linear_key_head_dim"])
    writer.add_ssm_group_count(cfg["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(cfg["linear_num_value_heads"])
    writer.add_ssm_inner_size(cfg["linear_num_value_heads"] * cfg["linear_value_head_dim"])
    if "shared_expert_intermediate_size" in cfg:
        writer.add_expert_shared_feed_forward_length(cfg["shared_expert_intermediate_size"])
    types = cfg.get("layer_types")
    regular = [(i + 1) % 4 != 0 for i in range(cfg["num_hidden_layers"])]
    kinds = [t == "linear_attention" for t in types] if types else regular
    if kinds == regular:
        writer.add_full_attention_interval(4)
    else:
        writer.add_array(f"{arch}.attention.recurrent_layers", kinds + [False] * has_mtp)
    if has_mtp:
        writer.add_nextn_predict_layers(1)


def add_metadata(writer, arch, name, cfg, has_mtp):
    minimax = cfg["model_type"] == "minimax_m2"
    rope = cfg.get("rope_parameters") or cfg
    hybrid = "linear_num_key_heads" in cfg
    factor = rope.get("partial_rotary_factor", 0.25) if hybrid else 1
    writer.add_name(name)
    writer.add_block_count(cfg["num_hidden_layers"] + has_mtp)
    writer.add_context_length(cfg["max_position_embeddings"])
    writer.add_embedding_length(cfg["hidden_size"])
    if "intermediate_size" in cfg:
        writer.add_feed_forward_length(cfg["intermediate_size"])
    writer.add_head_count(cfg["num_attention_heads"])
    writer.add_head_count_kv(cfg["num_key_value_heads"])
    d = cfg.get("head_dim")
    if d:   # else files say none of it
        writer.add_key_length(d)
        writer.add_value_length(d)
    writer.add_layer_norm_rms_eps(cfg["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    if d:
        writer.add_rope_dimension_count(cfg.get("rotary_dim", int(d * factor)))
    writer.add_vocab_size(cfg["vocab_size"])
    if hybrid:
        add_hybrid_metadata(writer, arch, cfg, has_mtp)
    if minimax or "num_experts" in cfg:
        writer.add_expert_count(cfg["num_local_experts" if minimax else "num_experts"])
        writer.add_expert_used_count(cfg["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(
            cfg["intermediate_size" if minimax else "moe_intermediate_size"])
    if minimax:
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def file_name(tables, hf):
    """The tensor's name in the file, by the first table that knows it."""
    if hf.startswith("blk."):
        return hf
    # The converters ask the tables for these spellings.
    hf = hf.replace("correction_bias", "correction.bias").replace(".dt_bias", ".dt_proj.bias")
    whole = hf.endswith(".A_log")
    stem, _, suffix = (hf, "", "") if whole else hf.rpartition(".")
    found = [name for name in (table.get_name(stem) for table in tables) if name is not None]
    assert found, f"{hf}: gguf-py has no name for it"
    return found[0] if whole else f"{found[0]}.{suffix}"


def write_twin(data, out, name):
    folder = os.path.join(data, name)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        cfg = json.load(f)
    cfg = cfg.get("text_config", cfg)
    tensors = read_tensors(folder)
    has_mtp = any(key.startswith("mtp.") for key in tensors)
    if "linear_num_key_heads" in cfg:
        tensors = hybrid_tensors(cfg, tensors)
    arch = MODEL_ARCH_NAMES[ARCHS[name]]
    # A dense layer's MLP between others with experts is Qwen3's.
    tables = [get_tensor_name_map(a, cfg["num_hidden_layers"]) for a in (ARCHS[name], MODEL_ARCH.QWEN3)]
    writer = GGUFWriter(os.path.join(out, name + ".gguf"), arch)
    add_metadata(writer, arch, name, cfg, has_mtp)
    for hf, values in stack_experts(tensors).items():
        writer.add_tensor(file_name(tables, hf), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the folder that make_golden.py filled")
    parser.add_argument("--out", required=True, help="folder for the GGUF files")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name in ARCHS:
        write_twin(args.data, args.out, name)


if __name__ == "__main__":
    main()
