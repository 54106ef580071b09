# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding as an engine does it, one text at a time, written apart from dflash.py.

It checks the other side: features kept step by step, only accepted ones appended, and a text that
must equal plain greedy decoding to the last token.
"""

import json
import os

import torch
from safetensors.torch import load_file


def norm(x, weight, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def turned(x, positions, theta):
    """x [rows, heads, d]."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * theta ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
    return torch.cat((x[..., :half] * cos - x[..., half:] * sin,
                      x[..., half:] * cos + x[..., :half] * sin), dim=-1)


def attended(q, k, v, hidden):
    """q [rows, heads, d], k and v [keys, kv_heads, d], hidden [rows, keys]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hqk,khd->qhd", torch.softmax(rows.masked_fill(hidden, -torch.inf), -1), v)


class TargetRun:
    """The target with a cache that is cut back to what was accepted."""

    def __init__(self, target, feature_layers):
        self.t, self.layers, self.kv = target, feature_layers, [None] * target.depth
        self.length = 0

    @torch.no_grad()
    def read(self, ids):
        """(features, argmax) of each row; the rows stay cached until cut()."""
        t, features = self.t, []
        at = torch.arange(self.length, self.length + len(ids))
        x, hidden = t.embedding[ids], torch.arange(self.length + len(ids)) > at[:, None]
        for i, layer in enumerate(t.layers):
            q, k, v = t.qkv(layer, x, t.turn(at))
            if self.kv[i] is not None:
                k, v = (torch.cat(pair) for pair in zip(self.kv[i], (k, v)))
            self.kv[i] = k, v
            x = t.finish(layer, x, attended(q, k, v, hidden))
            if i in self.layers:
                features.append(x)
        self.length += len(ids)
        return torch.cat(features, -1), t.logits(x).argmax(-1).tolist()

    def cut(self, length):
        self.kv = [(k[:length], v[:length]) for k, v in self.kv]
        self.length = length


class DraftRun:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.c = json.load(f)
        if "layer_types" in self.c:
            raise SystemExit(f"{folder}: sliding layers, which the walk does not do")
        self.w = {k: v.float() if v.is_floating_point() else v.long()
                  for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
        self.feature_layers = self.c["dflash_config"]["target_layer_ids"]
        self.forget()

    def forget(self):
        self.kv = [(torch.zeros(0),) * 2] * self.c["num_hidden_layers"]
        self.length = 0

    def heads(self, layer, part, x):
        return (x @ self.w[f"layers.{layer}.self_attn.{part}_proj.weight"].T).unflatten(
            -1, (-1, self.c["head_dim"]))

    def normed(self, x, name):
        return norm(x, self.w[name + ".weight"], self.c["rms_norm_eps"])

    def key_value(self, layer, x, at):
        k = self.normed(self.heads(layer, "k", x), f"layers.{layer}.self_attn.k_norm")
        return turned(k, at, self.c["rope_theta"]), self.heads(layer, "v", x)

    def append(self, features):
        at = torch.arange(self.length, self.length + len(features))
        g = self.normed(features @ self.w["fc.weight"].T, "hidden_norm")
        for i, old in enumerate(self.kv):
            new = self.key_value(i, g, at)
            self.kv[i] = new if self.length == 0 else tuple(torch.cat(p) for p in zip(old, new))
        self.length += len(features)

    def propose(self, target, anchor, width):
        h = target.embedding[[anchor] + [self.c["dflash_config"]["mask_token_id"]] * (width - 1)]
        at = torch.arange(self.length, self.length + width)
        for i, old in enumerate(self.kv):
            p = f"layers.{i}."
            x = self.normed(h, p + "input_layernorm")
            q = self.normed(self.heads(i, "q", x), p + "self_attn.q_norm")
            k, v = (torch.cat(pair) for pair in zip(old, self.key_value(i, x, at)))
            seen = torch.zeros(width, len(k), dtype=torch.bool)
            out = attended(turned(q, at, self.c["rope_theta"]), k, v, seen).flatten(1)
            h = h + out @ self.w[p + "self_attn.o_proj.weight"].T
            x = self.normed(h, p + "post_attention_layernorm")
            gate, up = (x @ self.w[f"{p}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
            h = h + (torch.nn.functional.silu(gate) * up) @ self.w[p + "mlp.down_proj.weight"].T
        z, ids = self.normed(h, "norm")[1:], self.w.get("draft_tokens")
        head = target.head if ids is None else target.head[ids]
        best = (z @ head.T).argmax(-1)
        return (best if ids is None else ids[best]).tolist()


def generate(target, draft, prompt, width, most, eos):
    """Greedy text, and the number of verifies; width 1 is plain decoding."""
    run = TargetRun(target, draft.feature_layers)
    draft.forget()
    features, best = run.read(prompt)
    draft.append(features)
    text, verifies = [best[-1]], 0
    while len(text) < most and text[-1] not in eos:
        proposed = draft.propose(target, text[-1], width) if width > 1 else []
        features, best = run.read([text[-1], *proposed])
        accepted = 0
        while accepted < len(proposed) and proposed[accepted] == best[accepted]:
            accepted += 1
        new = best[:accepted + 1]
        draft.append(features[:len(new)])
        run.cut(run.length - len(best) + len(new))
        for token in new:
            if len(text) < most and text[-1] not in eos:
                text.append(token)
        verifies += 1
    return text, verifies


def walk(target, folders, prompts, widths, most, eos):
    """Prints tokens per verify of each draft, and how many texts differ from plain decoding."""
    drafts = [DraftRun(f) for f in folders]
    plain = [generate(target, drafts[0], p, 1, most, eos)[0] for p in prompts]
    print(f"{len(prompts)} prompts, {sum(map(len, plain))} tokens", flush=True)
    for folder, draft in zip(folders, drafts):
        for width in widths:
            made = [generate(target, draft, p, width, most, eos) for p in prompts]
            tokens = sum(len(text) - 1 for text, _ in made)
            differ = sum(text != right for (text, _), right in zip(made, plain))
            rate = tokens / sum(n for _, n in made)
            print(f"{folder} block {width}: {rate:.3f} tokens per verify, "
                  f"{differ} texts differ from plain decoding", flush=True)
