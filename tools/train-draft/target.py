# SPDX-License-Identifier: Apache-2.0
"""The target model in plain PyTorch: features of a text, and decoding with a fixed cache."""

import json
import os

import torch
import torch.nn.functional as F

import dflash

# What differs between the families. permuted: GGUF files hold rows of q and k with the two halves
# of a head interleaved. qk_norm: a norm on each head of q and k. bias: on q, k and v.
FAMILIES = {
    "llama": {"permuted": True, "qk_norm": False, "bias": False},
    "qwen2": {"permuted": False, "qk_norm": False, "bias": True},
    "qwen3": {"permuted": False, "qk_norm": True, "bias": False},
}
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def from_gguf(path):
    """(family, sizes, function from a Hugging Face name to an F32 tensor or None)."""
    from gguf import GGUFReader, dequantize
    reader = GGUFReader(path)
    field = {k: f.contents() for k, f in reader.fields.items()
             if not k.startswith("tokenizer.ggml.")}
    family = field["general.architecture"]
    if family not in FAMILIES:
        raise SystemExit(f"{path}: architecture {family}; this tool knows {', '.join(FAMILIES)}")
    tensors = {t.name: t for t in reader.tensors}
    if "rope_freqs.weight" in tensors or f"{family}.rope.scaling.type" in field:
        raise SystemExit(f"{path}: scaled RoPE, which this tool does not do")
    get = {k.removeprefix(family + "."): v for k, v in field.items()}
    heads = get["attention.head_count"]
    sizes = {"depth": get["block_count"], "hidden": get["embedding_length"],
             "ffn": get["feed_forward_length"], "heads": heads,
             "kv_heads": get.get("attention.head_count_kv", heads),
             "head_dim": get.get("attention.key_length", get["embedding_length"] // heads),
             "eps": get["attention.layer_norm_rms_epsilon"], "theta": get["rope.freq_base"],
             "context": get["context_length"]}
    rows_of = {"attn_q": sizes["heads"], "attn_k": sizes["kv_heads"]}

    def tensor(name):
        stem, _, kind = name.removeprefix("model.").rpartition(".")
        part = None
        if stem.startswith("layers."):
            number, part = stem.removeprefix("layers.").split(".", 1)
            part = GGUF_NAMES[part]
            file_name = f"blk.{number}.{part}.{kind}"
        else:
            file_name = {"embed_tokens": "token_embd", "norm": "output_norm",
                         "lm_head": "output"}[stem] + "." + kind
        if file_name not in tensors:
            return None
        t = tensors[file_name]
        w = torch.from_numpy(dequantize(t.data, t.tensor_type).copy())
        w = w.reshape([int(n) for n in reversed(t.shape)])
        if part in rows_of and FAMILIES[family]["permuted"]:
            w = w.unflatten(0, (rows_of[part], -1, 2)).transpose(1, 2).reshape(w.shape)
        return w

    return family, sizes, tensor


def from_folder(path):
    from safetensors import safe_open
    with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    family = c["model_type"]
    if family not in FAMILIES:
        raise SystemExit(f"{path}: model_type {family}; this tool knows {', '.join(FAMILIES)}")
    rope = c.get("rope_parameters") or {}
    if (c.get("rope_scaling") or rope).get("rope_type", "default") != "default":
        raise SystemExit(f"{path}: scaled RoPE, which this tool does not do")
    sizes = {"depth": c["num_hidden_layers"], "hidden": c["hidden_size"],
             "ffn": c["intermediate_size"], "heads": c["num_attention_heads"],
             "kv_heads": c["num_key_value_heads"],
             "head_dim": c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"],
             "eps": c["rms_norm_eps"], "theta": rope.get("rope_theta", c.get("rope_theta", 1e4)),
             "context": c["max_position_embeddings"]}
    where = {}
    for file in sorted(os.listdir(path)):
        if file.endswith(".safetensors"):
            part = safe_open(os.path.join(path, file), "pt")
            where.update({name: part for name in part.keys()})
    return family, sizes, lambda n: where[n].get_tensor(n).float() if n in where else None


class Target:
    def __init__(self, path, device="cpu", dtype=torch.float32):
        reader = from_folder if os.path.isdir(path) else from_gguf
        self.family, sizes, tensor = reader(path)
        self.__dict__.update(sizes)
        traits = FAMILIES[self.family]

        def get(*names):
            parts = [tensor(n) for n in names]
            if any(p is None for p in parts):
                raise SystemExit(f"{path}: no tensor {names}")
            return torch.cat(parts).to(device, dtype)

        self.embedding = get("model.embed_tokens.weight")
        own_head = tensor("lm_head.weight")
        self.head = self.embedding if own_head is None else own_head.to(device, dtype)
        self.vocab, self.norm, self.layers = len(self.head), get("model.norm.weight"), []
        for i in range(self.depth):
            p = f"model.layers.{i}."
            qkv = [f"{p}self_attn.{x}_proj." for x in "qkv"]
            layer = {"norm1": get(p + "input_layernorm.weight"),
                     "qkv": get(*[n + "weight" for n in qkv]),
                     "o": get(p + "self_attn.o_proj.weight"),
                     "norm2": get(p + "post_attention_layernorm.weight"),
                     "gate_up": get(p + "mlp.gate_proj.weight", p + "mlp.up_proj.weight"),
                     "down": get(p + "mlp.down_proj.weight")}
            if traits["qk_norm"]:
                layer.update(q_norm=get(p + "self_attn.q_norm.weight"),
                             k_norm=get(p + "self_attn.k_norm.weight"))
            if traits["bias"]:
                layer["bias"] = get(*[n + "bias" for n in qkv])
            self.layers.append(layer)
        self.device, self.dtype = device, dtype

    def rms(self, x, weight):
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)

    def qkv(self, layer, x, turn):
        """q [..., heads, d], k and v [..., kv_heads, d] of x, rotated."""
        q, k, v = F.linear(self.rms(x, layer["norm1"]), layer["qkv"], layer.get("bias")).split(
            [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)], dim=-1)
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)) for t in (q, k, v))
        if "q_norm" in layer:
            q, k = self.rms(q, layer["q_norm"]), self.rms(k, layer["k_norm"])
        return dflash.rotate(q, turn), dflash.rotate(k, turn), v

    def finish(self, layer, x, attended):
        """The rest of a layer after attention."""
        x = x + F.linear(attended.flatten(-2), layer["o"])
        gate, up = F.linear(self.rms(x, layer["norm2"]), layer["gate_up"]).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, layer["down"])

    def turn(self, positions):
        return dflash.rotation(positions, self.head_dim, self.theta, self.dtype)

    @torch.no_grad()
    def read(self, tokens, feature_layers=(), keep_kv=None, to_end=True):
        """tokens [b, T] from position 0, causal; a row may end in padding, which nobody sees.

        Returns the features [b, T, K * H] and the residual stream after the last layer; keep_kv
        (layer, k, v) is called with each layer's keys and values [b, T, kv_heads, d].
        """
        x = self.embedding[tokens]
        turn = self.turn(torch.arange(tokens.shape[1], device=tokens.device))
        features = []
        for i, layer in enumerate(self.layers):
            if not to_end and len(features) == len(feature_layers):
                break
            q, k, v = self.qkv(layer, x, turn)
            if keep_kv is not None:
                keep_kv(i, k, v)
            out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)),
                                                 is_causal=True, enable_gqa=True)
            x = self.finish(layer, x, out.transpose(1, 2))
            if i in feature_layers:
                features.append(x)
        return torch.cat(features, dim=-1) if features else None, x

    @torch.no_grad()
    def logits(self, x):
        return F.linear(self.rms(x, self.norm), self.head)
