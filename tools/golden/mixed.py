# SPDX-License-Identifier: Apache-2.0
"""A model that nobody publishes: each of its layers differs from its neighbours in something. It is defined here and,
for the engine, in tests/golden/mixed_test.c; neither reads the other's table.

The reference is written out in numpy, in F64, one token's row at a time where that is the plainest way to say it.
"""

import argparse
import json
import os

import numpy as np
import torch

import checkpoints
import reference

HID, VOCAB, EPS, SEED = 40, 61, 1e-5, 41

# rope: (theta, rotated dimensions), or None. window: tokens that are seen, the own one included; 0: all.
# norm: of q and k: None, "heads" or "whole". experts: in place of an MLP of width `ffn`.
LAYERS = [
    {"nq": 4, "nkv": 2, "d": 16, "rope": (1e4, 16), "window": 5, "norm": None, "gated": False,
     "qkv_bias": True, "o_bias": False, "ffn": 52, "mlp_bias": False, "experts": False},
    {"nq": 3, "nkv": 1, "d": 32, "rope": (1e6, 12), "window": 0, "norm": "heads", "gated": False,
     "qkv_bias": False, "o_bias": True, "ffn": 0, "mlp_bias": False, "experts": True},
    {"nq": 6, "nkv": 3, "d": 16, "rope": (1e4, 16), "window": 40, "norm": "whole", "gated": False,
     "qkv_bias": False, "o_bias": False, "ffn": 36, "mlp_bias": True, "experts": False},
    {"nq": 2, "nkv": 2, "d": 32, "rope": None, "window": 0, "norm": "heads", "gated": True,
     "qkv_bias": False, "o_bias": False, "ffn": 68, "mlp_bias": False, "experts": False},
]
EXPERTS, TOP, EXPERT_FFN = 6, 2, 20

# What a reader of config.json knows: the experts and the outer sizes. The rest is in LAYERS.
CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": HID,
    "num_hidden_layers": len(LAYERS), "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 52, "moe_intermediate_size": EXPERT_FFN,
    "num_experts": EXPERTS, "num_experts_per_tok": TOP, "norm_topk_prob": True,
    "mlp_only_layers": [i for i, l in enumerate(LAYERS) if not l["experts"]],
    "max_position_embeddings": 512, "rms_norm_eps": EPS, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": VOCAB,
    "eos_token_id": 2,
}


def layer_shapes(l):
    q, kv = l["nq"] * l["d"], l["nkv"] * l["d"]
    out = {"input_layernorm.weight": (HID,)}
    for name, rows, cols, bias in (
            ("q_proj", q * (2 if l["gated"] else 1), HID, l["qkv_bias"]),
            ("k_proj", kv, HID, l["qkv_bias"]), ("v_proj", kv, HID, l["qkv_bias"]),
            ("o_proj", HID, q, l["o_bias"])):
        out[f"self_attn.{name}.weight"] = (rows, cols)
        if bias:
            out[f"self_attn.{name}.bias"] = (rows,)
    if l["norm"]:
        whole = l["norm"] == "whole"
        out["self_attn.q_norm.weight"] = (q if whole else l["d"],)
        out["self_attn.k_norm.weight"] = (kv if whole else l["d"],)
    out["post_attention_layernorm.weight"] = (HID,)
    stems = [("mlp.", l["ffn"])]
    if l["experts"]:
        out["mlp.gate.weight"] = (EXPERTS, HID)
        stems = [(f"mlp.experts.{e}.", EXPERT_FFN) for e in range(EXPERTS)]
    for stem, ffn in stems:
        for name, shape in (("gate_proj", (ffn, HID)), ("up_proj", (ffn, HID)),
                            ("down_proj", (HID, ffn))):
            out[f"{stem}{name}.weight"] = shape
            if l["mlp_bias"]:
                out[f"{stem}{name}.bias"] = shape[:1]
    return out


def shapes():
    out = {"model.embed_tokens.weight": (VOCAB, HID)}
    for i, l in enumerate(LAYERS):
        out.update({f"model.layers.{i}.{k}": v for k, v in layer_shapes(l).items()})
    return {**out, "model.norm.weight": (HID,), "lm_head.weight": (VOCAB, HID)}


def norm(x, weight, mean_over=-1):
    return x / np.sqrt((x * x).mean(mean_over, keepdims=True) + EPS) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, rope):
    """x [tokens, heads, d]: the first `width` dimensions of each head turn, pairs half a width apart."""
    theta, width = rope
    half = width // 2
    angle = np.arange(x.shape[0])[:, None] * theta ** (-2 * np.arange(half) / width)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b, rest = x[..., :half], x[..., half:width], x[..., width:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin, rest), -1)


class Mixed:
    def __init__(self, tensors):
        self.w = {k: v.numpy().astype(np.float64) for k, v in tensors.items()}

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def attention(self, x, l, p):
        n, nq, nkv, d = x.shape[0], l["nq"], l["nkv"], l["d"]
        q, k, v = (self.linear(x, p + name) for name in ("q_proj", "k_proj", "v_proj"))
        if l["gated"]:   # each head: its query, then its gate
            q, gate = np.split(q.reshape(n, nq, 2 * d), 2, axis=-1)
        if l["norm"] == "whole":
            q, k = norm(q, self.w[p + "q_norm.weight"]), norm(k, self.w[p + "k_norm.weight"])
        q, k, v = q.reshape(n, nq, d), k.reshape(n, nkv, d), v.reshape(n, nkv, d)
        if l["norm"] == "heads":
            q, k = norm(q, self.w[p + "q_norm.weight"]), norm(k, self.w[p + "k_norm.weight"])
        if l["rope"]:
            q, k = rotate(q, l["rope"]), rotate(k, l["rope"])
        out = np.zeros((n, nq, d))
        for t in range(n):
            first = max(0, t + 1 - l["window"]) if l["window"] else 0
            for h in range(nq):
                group = h // (nq // nkv)
                score = k[first:t + 1, group] @ q[t, h] / np.sqrt(d)
                weight = np.exp(score - score.max())
                out[t, h] = weight / weight.sum() @ v[first:t + 1, group]
        if l["gated"]:
            out = out / (1 + np.exp(-gate))
        return self.linear(out.reshape(n, nq * d), p + "o_proj")

    def mlp(self, x, p):
        return self.linear(silu(self.linear(x, p + "gate_proj")) * self.linear(x, p + "up_proj"),
                           p + "down_proj")

    def experts(self, x, p):
        logits = x @ self.w[p + "gate.weight"].T
        score = np.exp(logits - logits.max(-1, keepdims=True))
        score /= score.sum(-1, keepdims=True)
        out = np.zeros_like(x)
        for t in range(x.shape[0]):
            chosen = np.argsort(-score[t], kind="stable")[:TOP]
            for e in chosen:
                share = score[t, e] / score[t, chosen].sum()
                out[t] += share * self.mlp(x[t], f"{p}experts.{e}.")
        return out

    def run(self, tokens):
        """Log-probabilities of all rows."""
        x = self.w["model.embed_tokens.weight"][tokens]
        for i, l in enumerate(LAYERS):
            p = f"model.layers.{i}."
            x = x + self.attention(norm(x, self.w[p + "input_layernorm.weight"]), l,
                                   p + "self_attn.")
            feed = self.experts if l["experts"] else self.mlp
            x = x + feed(norm(x, self.w[p + "post_attention_layernorm.weight"]), p + "mlp.")
        logits = norm(x, self.w["model.norm.weight"]) @ self.w["lm_head.weight"].T
        top = logits.max(-1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def find_prompt(model, rng, length, wanted):
    """A prompt whose greedy continuation is clear-cut."""
    while True:
        tokens, greedy, least = rng.integers(0, VOCAB, length).tolist(), [], np.inf
        while len(greedy) < reference.GREEDY and least > wanted:
            row = model.run(tokens + greedy)[-1]
            greedy.append(int(row.argmax()))
            top = np.sort(row)[-2:]
            least = min(least, top[1] - top[0])
        if least > wanted and len(set(greedy)) >= 6:   # no mere loop over few tokens
            return {"tokens": tokens, "greedy": greedy}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the folder to make")
    folder = parser.parse_args().out
    rng = np.random.default_rng(SEED)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(
        checkpoints.tensor_values(rng, name, shape, False))) for name, shape in shapes().items()}
    checkpoints.write_checkpoint(folder, CONFIG, tensors, 1)
    model = Mixed(tensors)
    prompts = [find_prompt(model, rng, length, 5e-3) for length in (1, 7, 64, 100)]
    rows = [model.run(p["tokens"] + p["greedy"][:-1]) for p in prompts]
    reference.write_bin(folder, "golden.bin", rows)
    reference.write_json(folder, {
        "name": os.path.basename(folder), "dtype": "float32", "vocab": VOCAB,
        "layers": len(LAYERS), "hidden": HID, "experts": EXPERTS, "gap": 0.0, "tolerance": 1e-4,
        "min_margin": reference.greedy_margin(rows, prompts), "prompts": prompts})
    print(json.dumps({p: len(set(g["greedy"])) for p, g in enumerate(prompts)}))


if __name__ == "__main__":
    main()
