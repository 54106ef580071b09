# SPDX-License-Identifier: Apache-2.0
"""The default model's GGUF file as a Hugging Face folder with BF16 weights, for trying `whimbrel quantize` on a model
that knows a language. Its weights have been through 4 bits once already, so figures for q4 are kinder than those of a
model as its makers published it."""

import argparse
import json
import os

import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file

import make_default

NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, leaf, _ = name.split(".")
    return f"model.layers.{layer}.{NAMES[leaf]}.weight"


def unpair(weight, heads):
    """GGUF has the halves that are rotated together as neighbours."""
    n, k = weight.shape
    return weight.reshape(heads, n // heads // 2, 2, k).transpose(1, 2).reshape(n, k)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("gguf")
    args.add_argument("out")
    args = args.parse_args()
    reader = GGUFReader(args.gguf)
    get = lambda key: reader.fields[key].contents()
    heads, kv = get("llama.attention.head_count"), get("llama.attention.head_count_kv")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": get("llama.embedding_length"), "intermediate_size": get("llama.feed_forward_length"),
        "num_hidden_layers": get("llama.block_count"), "num_attention_heads": heads, "num_key_value_heads": kv,
        "max_position_embeddings": get("llama.context_length"), "rope_theta": get("llama.rope.freq_base"),
        "rms_norm_eps": get("llama.attention.layer_norm_rms_epsilon"), "tie_word_embeddings": True, "hidden_act": "silu",
        "bos_token_id": get("tokenizer.ggml.bos_token_id"), "eos_token_id": get("tokenizer.ggml.eos_token_id"),
    }
    tensors = {}
    for t in reader.tensors:
        weight = torch.from_numpy(dequantize(t.data, t.tensor_type).copy())
        if ".attn_q." in t.name or ".attn_k." in t.name:
            weight = unpair(weight, heads if ".attn_q." in t.name else kv)
        tensors[hf_name(t.name)] = weight.to(torch.bfloat16).contiguous()
    config["vocab_size"] = tensors["model.embed_tokens.weight"].shape[0]
    os.makedirs(args.out)
    save_file(tensors, os.path.join(args.out, "model.safetensors"), metadata={"format": "pt"})
    make_default.tokenizer_of(args.gguf).save(os.path.join(args.out, "tokenizer.json"))
    for name, value in (("config.json", config), ("tokenizer_config.json", {
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|im_start|>",
            "chat_template": get("tokenizer.chat_template")})):
        with open(os.path.join(args.out, name), "w") as f:
            json.dump(value, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
