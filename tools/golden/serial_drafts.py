# SPDX-License-Identifier: Apache-2.0
"""Drafts that propose token after token, in plain F64 PyTorch: EAGLE3 and the MTP layer of Qwen3.5.

Entry p of a draft is made of the target's feature at p and token p + 1, at position p; it says which
token stands at p + 2. Beyond the target's features its own output is the feature. A draft may be
made wrong on demand (MISTAKES of each), to show whether the goldens would notice.
"""

import math

import torch
import torch.nn.functional as F


def rms(x, weight, eps):
    return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * weight


def attend(q, k, v):
    """Causal, [tokens, heads, d] each."""
    n, heads, d = q.shape
    group = torch.arange(heads) // (heads // k.shape[1])
    q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    scores = q @ k[group].transpose(1, 2) * d ** -0.5
    scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
    return (scores.softmax(-1) @ v[group]).transpose(0, 1).reshape(n, -1)


class Eagle3:
    """config and tensors as published; target: plain.Plain."""
    MISTAKES = ("boundaries one layer off", "entries one token late", "the residual is normalised",
                "halves of the input swapped", "an entry for the first token", "theta doubled",
                "a norm of features left out", "the other feature handed on")

    def __init__(self, config, tensors, target):
        self.c, self.target = config, target
        self.w = {k.replace("midlayer.", "layers.0."): v.to(torch.float64) for k, v in tensors.items()}
        for i, old in enumerate(("low", "mid", "high")):
            if f"aux_norm_{old}.weight" in self.w:
                self.w[f"fc_norm.{i}.weight"] = self.w[f"aux_norm_{old}.weight"]

    def boundaries(self, wrong=None):
        n = self.target.cfg["num_hidden_layers"]
        ids = self.c["eagle_config"].get("eagle_aux_hidden_state_layer_ids", [1, n // 2 - 1, n - 4])
        off = 0 if wrong == "boundaries one layer off" else 1
        return [i + off for i in ids]

    def captured(self, residuals, wrong=None):
        return torch.cat([residuals[b] for b in self.boundaries(wrong)], -1)

    def fuse(self, captured, wrong=None):
        eps, c = self.c["rms_norm_eps"], self.c
        parts = captured.chunk(len(self.boundaries()), -1)
        if "fc_norm.0.weight" in self.w and wrong != "a norm of features left out":
            parts = [rms(x, self.w[f"fc_norm.{i}.weight"], eps) for i, x in enumerate(parts)]
        x = torch.cat(list(parts), -1)
        if c["eagle_config"].get("norm_before_fc") and wrong != "a norm of features left out":
            x = rms(x, self.w["input_norm.weight"], eps)
        return x @ self.w["fc.weight"].T

    def rotate(self, x, wrong):
        d = x.shape[-1]
        theta = self.c["rope_theta"] * (2 if wrong == "theta doubled" else 1)
        freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * freq
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def forward(self, feature, tokens, wrong=None):
        """Feature handed on and what the head takes, [n, hidden] each, of entries 0 .. n - 1."""
        eps, d, w, p = self.c["rms_norm_eps"], self.c["head_dim"], self.w, "layers.0."
        embed = w.get("embed_tokens.weight", self.target.w["model.embed_tokens.weight"])
        e = rms(embed[tokens], w[p + "input_layernorm.weight"], eps)
        s = rms(feature, w[p + "hidden_norm.weight"], eps)
        u = torch.cat((s, e) if wrong == "halves of the input swapped" else (e, s), -1)
        q, k, v = ((u @ w[f"{p}self_attn.{x}_proj.weight"].T).unflatten(-1, (-1, d)) for x in "qkv")
        mixed = attend(self.rotate(q, wrong), self.rotate(k, wrong), v)
        x = s if wrong == "the residual is normalised" else feature
        x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
        y = rms(x, w[p + "post_attention_layernorm.weight"], eps)
        gate, up = y @ w[p + "mlp.gate_proj.weight"].T, y @ w[p + "mlp.up_proj.weight"].T
        h = x + (F.silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T
        z = rms(h, w["norm.weight"], eps)
        normed = bool(self.c.get("norm_output")) != (wrong == "the other feature handed on")
        return (z if normed else h), z

    def scores(self, z):
        """[n, vocab of the target], -inf where it cannot propose."""
        if "lm_head.weight" not in self.w:
            return z @ self.target.w["lm_head.weight"].T
        n = len(self.w["lm_head.weight"])
        out = torch.full((len(z), self.c["vocab_size"]), -math.inf, dtype=torch.float64)
        ids = torch.arange(n) + self.w["d2t"].long() if "d2t" in self.w else torch.arange(n)
        out[:, ids] = z @ self.w["lm_head.weight"].T
        return out


class Mtp:
    """The layer under mtp. of a Qwen3.5 checkpoint; target: hybrid.Hybrid with its tensors."""
    MISTAKES = ("hidden states before the last norm", "entries one token late",
                "halves of the input swapped", "an entry for the first token",
                "the other feature handed on", "norms around one")

    def __init__(self, target):
        self.target, self.w = target, target.w

    def captured(self, residuals, wrong=None):
        return residuals[-1]

    def norm(self, x, name, wrong=None):
        off = 0 if wrong == "norms around one" else 1
        return rms(x, self.w[name] + off, self.target.t["rms_norm_eps"])

    def fuse(self, captured, wrong=None):
        if wrong == "hidden states before the last norm":
            return captured
        return self.norm(captured, "model.norm.weight")

    def forward(self, feature, tokens, wrong=None):
        t = self.target
        e = self.norm(t.w["model.embed_tokens.weight"][tokens], "mtp.pre_fc_norm_embedding.weight",
                      wrong)
        s = self.norm(feature, "mtp.pre_fc_norm_hidden.weight", wrong)
        u = torch.cat((s, e) if wrong == "halves of the input swapped" else (e, s), -1)
        x = u @ self.w["mtp.fc.weight"].T
        p = "mtp.layers.0."
        x = x + t.attention(self.norm(x, p + "input_layernorm.weight", wrong), p + "self_attn.", None)
        last = t.t["num_hidden_layers"] - 1
        x = x + t.ffn(self.norm(x, p + "post_attention_layernorm.weight", wrong), p + "mlp.", last,
                      None)
        z = self.norm(x, "mtp.norm.weight", wrong)
        return (x if wrong == "the other feature handed on" else z), z

    def scores(self, z):
        return z @ self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"]).T


@torch.no_grad()
def propose(draft, captured, text, length, n, wrong=None):
    """What is proposed after text[:length + 1], of which the target has read text[:length]: hidden
    states [n, hidden] that the head takes, and scores [n, vocab]."""
    feature, tokens = draft.fuse(captured[:length], wrong), list(text[1:length + 1])
    if wrong == "entries one token late":
        tokens = list(text[:length])
    if wrong == "an entry for the first token":
        feature = torch.cat((torch.zeros_like(feature[:1]), feature))
        tokens = [text[0]] + tokens
    hidden, scores = [], []
    for _ in range(n):
        handed, z = draft.forward(feature, torch.tensor(tokens), wrong)
        hidden.append(z[-1])
        scores.append(draft.scores(z[-1:])[0])
        feature = torch.cat((feature, handed[-1:]))
        tokens.append(int(scores[-1].argmax()))
    return torch.stack(hidden), torch.stack(scores)
