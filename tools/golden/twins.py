# SPDX-License-Identifier: Apache-2.0
"""GGUF files with the weights of tiny safetensors checkpoints, in F32: both must give the same bits.

Names come from gguf-py's own table, experts are stacked as its converters do.
"""

import argparse
import json
import os

import numpy as np
from gguf import ExpertGatingFuncType, GGUFWriter, MODEL_ARCH, get_tensor_name_map
from safetensors.numpy import load_file

ARCHS = {"qwen3moe-f32": MODEL_ARCH.QWEN3MOE, "minimax-f32": MODEL_ARCH.MINIMAXM2}
NAMES = {MODEL_ARCH.QWEN3MOE: "qwen3moe", MODEL_ARCH.MINIMAXM2: "minimax-m2"}


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
        if not dot:
            out[name] = values
            continue
        number, leaf = rest.split(".", 1)
        stacks.setdefault(f"{stem}.experts.{leaf}", {})[int(number)] = values
    for name, parts in stacks.items():
        out[name] = np.stack([parts[e] for e in range(len(parts))])
    return out


def add_metadata(writer, name, cfg):
    minimax = cfg["model_type"] == "minimax_m2"
    d = cfg["head_dim"]
    writer.add_name(name)
    writer.add_block_count(cfg["num_hidden_layers"])
    writer.add_context_length(cfg["max_position_embeddings"])
    writer.add_embedding_length(cfg["hidden_size"])
    writer.add_feed_forward_length(cfg["intermediate_size"])
    writer.add_head_count(cfg["num_attention_heads"])
    writer.add_head_count_kv(cfg["num_key_value_heads"])
    writer.add_key_length(d)
    writer.add_value_length(d)
    writer.add_layer_norm_rms_eps(cfg["rms_norm_eps"])
    writer.add_rope_freq_base(cfg["rope_theta"])
    writer.add_rope_dimension_count(cfg.get("rotary_dim", d))
    writer.add_vocab_size(cfg["vocab_size"])
    writer.add_expert_count(cfg["num_local_experts" if minimax else "num_experts"])
    writer.add_expert_used_count(cfg["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(
        cfg["intermediate_size" if minimax else "moe_intermediate_size"])
    if minimax:
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def write_twin(data, out, name):
    folder = os.path.join(data, name)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        cfg = json.load(f)
    names = get_tensor_name_map(ARCHS[name], cfg["num_hidden_layers"])
    dense = get_tensor_name_map(MODEL_ARCH.QWEN3, cfg["num_hidden_layers"])
    writer = GGUFWriter(os.path.join(out, name + ".gguf"), NAMES[ARCHS[name]])
    add_metadata(writer, name, cfg)
    for hf, values in stack_experts(read_tensors(folder)).items():
        # The converters ask the table for "e_score_correction.bias".
        stem, _, suffix = hf.replace("correction_bias", "correction.bias").rpartition(".")
        gguf = names.get_name(stem) or dense.get_name(stem)   # a dense layer's MLP is Qwen3's
        assert gguf is not None, f"{hf}: gguf-py has no name for it"
        writer.add_tensor(f"{gguf}.{suffix}", values)
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
