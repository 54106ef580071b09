# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the tiny models, plain torch in F64, that can be made wrong on demand.

Right, it shows how much of a golden is rounding noise. With one of MISTAKES it shows whether the
goldens would notice an engine that makes that mistake.
"""

import json
import math
import os

import torch
from safetensors.torch import load_file

import checkpoints

# Mistake -> what the model must have for it to be possible.
MISTAKES = {
    "rope: adjacent pairs, not halves": None,
    "rope: no rotation": None,
    "rope: theta 1e4 whatever the config says": "theta",
    "rope: theta 10% off": None,
    "rope: scaling ignored": "scaling",
    "rope: llama3 without the middle band": "llama3",
    "rope: yarn ramp ignored": "yarn",
    "rope: yarn attention factor ignored": "yarn",
    "rope: yarn attention factor on q only": "yarn",
    "rope: queries one position late": None,
    "qk norm: none": "qk_norm",
    "qk norm: after rope": "qk_norm",
    "qk norm: weights ignored": "qk_norm",
    "qk norm: q and k weights swapped": "qk_norm",
    "qk norm: over all heads at once": "head_norm",
    "qk norm: each head by itself": "whole_norm",
    "qk norm: epsilon ignored": "big_eps",
    "norm: epsilon ignored": None,
    "norm: epsilon outside the root": None,
    "norm: weights ignored": None,
    "norm: weight used as 1 + w": None,
    "norm: last one skipped": None,
    "norm: the two of a layer swapped": None,
    "attention: scale from hidden/heads": "head_dim",
    "attention: no scale": None,
    "attention: kv head j % nkv": "gqa",
    "attention: a token does not see itself": None,
    "attention: first token lost": None,
    "attention: window ignored": "window",
    "attention: window one wider": "window",
    "attention: window in every layer": "some_windows",
    "attention: key bias ignored, not value's": "bias",
    "bias: ignored in attention": "bias",
    "bias: o_proj's ignored": "o_bias",
    "bias: ignored in the mlp": "mlp_bias",
    "bias: down_proj's ignored": "mlp_bias",
    "mlp: gate and up swapped": "mlp",
    "mlp: gelu for silu": "mlp",
    "head: tied one replaced (rows shifted)": "tied",
    "head: own one ignored (embedding used)": "untied",
    "block: residual of attention dropped": None,
    "rope: the whole head rotated": "partial",
    "rope: frequencies of the whole head": "partial",
    "moe: weights not renormalised": "renormalised",
    "moe: weights renormalised": "raw",
    "moe: softmax and sigmoid mistaken": "moe",
    "moe: choice bias ignored": "bias_choice",
    "moe: choice bias in the weights too": "bias_choice",
    "moe: one expert fewer": "moe",
    "moe: weights ignored": "moe",
    "moe: gate and up swapped": "moe",
    "moe: experts one off": "moe",
    "fp8: scale divides": "fp8",
    "fp8: scales ignored": "fp8",
    "fp8: first scale of a row for all": "fp8",
}


class Plain:
    def __init__(self, folder, dtype=torch.float64, rounds=False):
        self.rounds = rounds
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.cfg = json.load(f)
        self.w = {}
        for file in sorted(os.listdir(folder)):
            if file.endswith(".safetensors"):
                self.w.update(load_file(os.path.join(folder, file)))
        self.codes = {k: v for k, v in self.w.items() if k + "_scale_inv" in self.w}
        self.scales = {k: self.w[k + "_scale_inv"] for k in self.codes}
        self.w = {k: v.to(dtype) for k, v in self.w.items()}
        c = self.cfg
        for key, w in list(self.w.items()):   # one tensor for all experts: as if there were many
            stem = key.rpartition(".experts.")[0]
            if key.endswith("experts.gate_up_proj"):
                for e, (gate, up) in enumerate(x.chunk(2) for x in w):
                    self.w[f"{stem}.experts.{e}.gate_proj.weight"] = gate
                    self.w[f"{stem}.experts.{e}.up_proj.weight"] = up
            if key.endswith("experts.down_proj"):
                self.w.update({f"{stem}.experts.{e}.down_proj.weight": x for e, x in enumerate(w)})
        self.dtype = dtype
        self.nq, self.nkv = c["num_attention_heads"], c["num_key_value_heads"]
        self.d = c.get("head_dim") or c["hidden_size"] // self.nq
        rope = c.get("rope_parameters") or {}
        self.theta = rope.get("rope_theta", c.get("rope_theta", 10000.0))
        self.scaling = c.get("rope_scaling") or {}
        self.kind = self.scaling.get("rope_type", self.scaling.get("type"))
        self.eps = c["rms_norm_eps"]
        self.whole = c["model_type"] == "minimax_m2"
        self.qk_norm = checkpoints.has_qk_norm(c)
        self.rotary = c.get("rotary_dim", self.d)
        self.n_expert = c.get("num_experts") or c.get("num_local_experts")
        self.renormalised = self.whole or bool(c.get("norm_topk_prob"))
        self.windows = {}
        if c.get("use_sliding_window"):
            n, first = c["num_hidden_layers"], c["max_window_layers"]
            kinds = c.get("layer_types") or ["full_attention" if i < first else "sliding_attention"
                                             for i in range(n)]
            self.windows = {i: c["sliding_window"] for i in range(n)
                            if kinds[i] == "sliding_attention"}
        elif c["model_type"] == "mistral" and c["sliding_window"]:
            self.windows = dict.fromkeys(range(c["num_hidden_layers"]), c["sliding_window"])
        self.scale(None)

    def has(self, what):
        return {None: True, "theta": self.theta != 10000, "scaling": self.kind is not None,
                "llama3": self.kind == "llama3", "yarn": self.kind == "yarn",
                "qk_norm": self.qk_norm, "big_eps": self.qk_norm and self.eps >= 1e-3,
                "head_norm": self.qk_norm and not self.whole, "whole_norm": self.whole,
                "mlp": any(k.endswith("mlp.gate_proj.weight") for k in self.w),
                "partial": self.rotary < self.d, "moe": bool(self.n_expert),
                "renormalised": bool(self.n_expert) and self.renormalised,
                "raw": bool(self.n_expert) and not self.renormalised,
                "bias_choice": self.whole, "fp8": bool(self.codes),
                "head_dim": self.d * self.nq != self.cfg["hidden_size"],
                "window": bool(self.windows),
                "some_windows": 0 < len(self.windows) < self.cfg["num_hidden_layers"], "gqa": 1 < self.nkv < self.nq, "bias": "model.layers.0.self_attn.q_proj.bias" in self.w,
                "o_bias": "model.layers.0.self_attn.o_proj.bias" in self.w,
                "mlp_bias": "model.layers.0.mlp.gate_proj.bias" in self.w,
                "tied": self.cfg["tie_word_embeddings"],
                "untied": not self.cfg["tie_word_embeddings"]}[what]

    def frequencies(self, wrong):
        """Angle per position of each pair, and the factor on cos and sin."""
        theta, s = float(self.theta), self.scaling
        if wrong == "rope: theta 1e4 whatever the config says":
            theta = 10000.0
        if wrong == "rope: theta 10% off":
            theta *= 1.1
        whole = wrong == "rope: the whole head rotated"
        width = self.d if whole else self.rotary
        i = torch.arange(width // 2, dtype=torch.float64)
        f = theta ** (-2 * i / (self.d if wrong == "rope: frequencies of the whole head"
                                else width))
        if self.kind is None or wrong == "rope: scaling ignored":
            return f, 1.0
        if self.kind == "linear":
            return f / s["factor"], 1.0
        orig = s["original_max_position_embeddings"]
        if self.kind == "llama3":
            low, high = s["low_freq_factor"], s["high_freq_factor"]
            wave = 2 * math.pi / f
            mid = (orig / wave - low) / (high - low)
            band = f * ((1 - mid) / s["factor"] + mid)
            if wrong == "rope: llama3 without the middle band":
                band = f
            return torch.where(wave < orig / high, f,
                               torch.where(wave > orig / low, f / s["factor"], band)), 1.0
        assert self.kind == "yarn"

        def pair(turns):
            return self.d * math.log(orig / (2 * math.pi * turns)) / (2 * math.log(theta))

        first = max(math.floor(pair(32)), 0)
        last = min(math.ceil(pair(1)), self.d - 1)
        ramp = ((i - first) / (last - first)).clamp(0, 1)
        if wrong == "rope: yarn ramp ignored":
            ramp = torch.ones_like(ramp)
        factor = 1.0 if wrong == "rope: yarn attention factor ignored" else (
            0.1 * math.log(s["factor"]) + 1)
        return f * (1 - ramp) + f / s["factor"] * ramp, factor

    def rotate(self, x, wrong, late=0, factor_off=False):
        """x is [heads, tokens, d]."""
        f, factor = self.frequencies(wrong)
        if wrong == "rope: no rotation":
            return x
        if factor_off:
            factor = 1.0
        angle = (torch.arange(x.shape[1], dtype=torch.float64) + late)[:, None] * f
        cos, sin = (angle.cos() * factor).to(x.dtype), (angle.sin() * factor).to(x.dtype)
        if wrong == "rope: adjacent pairs, not halves":
            a, b = (x[..., k:2 * f.shape[0]:2] for k in (0, 1))
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
            return torch.cat((turned, x[..., 2 * f.shape[0]:]), -1)
        width = 2 * f.shape[0]
        a, b = x[..., :width].chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, x[..., width:]), dim=-1)

    def norm(self, x, weight, wrong):
        eps = self.eps
        if wrong == "norm: epsilon ignored":
            eps = 0.0
        if wrong == "norm: weights ignored":
            weight = torch.ones_like(weight)
        if wrong == "norm: weight used as 1 + w":
            weight = 1 + weight
        mean = (x * x).mean(-1, keepdim=True)
        if wrong == "norm: epsilon outside the root":
            return x / (mean.sqrt() + eps) * weight
        return x / (mean + eps).sqrt() * weight

    def head_norm(self, x, name, wrong):
        if wrong == "qk norm: none":
            return x
        if wrong == "qk norm: q and k weights swapped":
            name = name.replace("q_norm", "?").replace("k_norm", "q_norm").replace("?", "k_norm")
        weight = self.w[name]
        if wrong == "qk norm: weights ignored":
            weight = torch.ones_like(weight)
        if self.whole:   # swapped weights have another number of heads: repeat or cut
            heads = weight.view(-1, 1, self.d)
            weight = heads[torch.arange(x.shape[0]) % heads.shape[0]]
        mean = (x * x).mean(-1, keepdim=True)
        if self.whole != (wrong in ("qk norm: over all heads at once",
                                    "qk norm: each head by itself")):
            mean = (x * x).mean((0, 2), keepdim=True)
        eps = 0.0 if wrong == "qk norm: epsilon ignored" else self.eps
        return x / (mean + eps).sqrt() * weight

    def rows(self, x):
        """The rows of a product, as units that take BF16 only get them."""
        return x.bfloat16().to(x.dtype) if self.rounds else x

    def linear(self, x, name, drop_bias):
        y = self.rows(x) @ self.w[name + ".weight"].T
        bias = self.w.get(name + ".bias")
        return y if bias is None or drop_bias else y + bias

    def window_of(self, p, wrong):
        """Tokens that one sees in the layer at p, itself included; 0: all."""
        if wrong == "attention: window ignored":
            return 0
        layer = int(p.split(".")[2])
        if wrong == "attention: window in every layer":
            layer = max(self.windows)
        window = self.windows.get(layer, 0)
        return window + 1 if window and wrong == "attention: window one wider" else window

    def attention(self, x, p, wrong):
        n = x.shape[0]
        no_bias = wrong == "bias: ignored in attention"

        def heads(name, count):
            drop = no_bias or (wrong == "attention: key bias ignored, not value's"
                               and name == "k_proj")
            return self.linear(x, p + name, drop).view(n, count, self.d).transpose(0, 1)

        q, k, v = heads("q_proj", self.nq), heads("k_proj", self.nkv), heads("v_proj", self.nkv)
        late = 1 if wrong == "rope: queries one position late" else 0
        after = wrong == "qk norm: after rope"
        if self.qk_norm and not after:
            q = self.head_norm(q, p + "q_norm.weight", wrong)
            k = self.head_norm(k, p + "k_norm.weight", wrong)
        q = self.rotate(q, wrong, late)
        k = self.rotate(k, wrong, 0, wrong == "rope: yarn attention factor on q only")
        if self.qk_norm and after:
            q = self.head_norm(q, p + "q_norm.weight", wrong)
            k = self.head_norm(k, p + "k_norm.weight", wrong)
        j = torch.arange(self.nq)
        group = j % self.nkv if wrong == "attention: kv head j % nkv" else j // (
            self.nq // self.nkv)
        width = self.d
        if wrong == "attention: scale from hidden/heads":
            width = self.cfg["hidden_size"] / self.nq
        scale = 1.0 if wrong == "attention: no scale" else width ** -0.5
        scores = q @ k[group].transpose(1, 2) * scale
        see = torch.ones(n, n, dtype=torch.bool).tril()
        if wrong == "attention: a token does not see itself":
            see = see.tril(-1)
            see[0, 0] = True
        if wrong == "attention: first token lost":
            see[1:, 0] = False
        window = self.window_of(p, wrong)
        if window:
            see &= torch.ones(n, n, dtype=torch.bool).triu(1 - window)
        out = scores.masked_fill(~see, -math.inf).softmax(-1) @ v[group]
        return self.linear(out.transpose(0, 1).reshape(n, -1), p + "o_proj",
                           no_bias or wrong == "bias: o_proj's ignored")

    def mlp(self, x, p, wrong):
        no_bias = wrong == "bias: ignored in the mlp"
        gate = self.linear(x, p + "gate_proj", no_bias)
        up = self.linear(x, p + "up_proj", no_bias)
        if wrong == "mlp: gate and up swapped":
            gate, up = up, gate
        act = torch.nn.functional.gelu if wrong == "mlp: gelu for silu" else (
            torch.nn.functional.silu)
        return self.linear(act(gate) * up, p + "down_proj",
                           no_bias or wrong == "bias: down_proj's ignored")

    def scale(self, wrong):
        """The weights that codes and scales stand for."""
        for name, codes in self.codes.items():
            s = self.scales[name].to(self.dtype)
            if wrong == "fp8: first scale of a row for all":
                s = s[:, :1].expand_as(s)
            if wrong == "fp8: scales ignored":
                s = torch.ones_like(s)
            grid = s.repeat_interleave(128, 0)[:codes.shape[0]].repeat_interleave(128, 1)
            grid = grid[:, :codes.shape[1]]
            w = codes.to(self.dtype)
            self.w[name] = w / grid if wrong == "fp8: scale divides" else w * grid

    def moe(self, x, p, wrong):
        """x [tokens, hidden] through the experts of the layer at p."""
        names = ("gate_proj", "up_proj", "down_proj")
        if self.whole:
            p, names = p.replace("mlp.", "block_sparse_moe."), ("w1", "w3", "w2")
        logits = x @ self.w[p + "gate.weight"].T
        sigmoid = self.whole != (wrong == "moe: softmax and sigmoid mistaken")
        score = logits.sigmoid() if sigmoid else logits.softmax(-1)
        bias = self.w.get(p + "e_score_correction_bias", torch.zeros(1, dtype=self.dtype))
        if wrong == "moe: choice bias ignored":
            bias = torch.zeros_like(bias)
        top = self.cfg["num_experts_per_tok"] - (wrong == "moe: one expert fewer")
        chosen = (score + bias).topk(top, dim=-1).indices
        weight = (score + bias if wrong == "moe: choice bias in the weights too" else score)
        weight = weight.gather(1, chosen)
        if self.renormalised != (wrong in ("moe: weights not renormalised",
                                           "moe: weights renormalised")):
            weight = weight / weight.sum(-1, keepdim=True)
        if wrong == "moe: weights ignored":
            weight = torch.full_like(weight, 1 / top)
        if wrong == "moe: experts one off":
            chosen = (chosen + 1) % self.n_expert
        out = torch.zeros_like(x)
        for e in range(self.n_expert):
            token, place = torch.where(chosen == e)
            gate, up, down = (self.w[f"{p}experts.{e}.{n}.weight"] for n in names)
            if wrong == "moe: gate and up swapped":
                gate, up = up, gate
            act = torch.nn.functional.silu(self.rows(x[token]) @ gate.T) * (self.rows(x[token]) @ up.T)
            out[token] += weight[token, place, None] * (self.rows(act) @ down.T)
        return out

    @torch.no_grad()
    def residuals(self, tokens, wrong=None):
        """The residual stream [tokens, hidden] before each layer and after the last."""
        if self.codes:
            self.scale(wrong)
        x = self.w["model.embed_tokens.weight"][torch.tensor(tokens)]
        out = [x]
        for i in range(self.cfg["num_hidden_layers"]):
            p = f"model.layers.{i}."
            one, two = p + "input_layernorm.weight", p + "post_attention_layernorm.weight"
            if wrong == "norm: the two of a layer swapped":
                one, two = two, one
            mixed = self.attention(self.norm(x, self.w[one], wrong), p + "self_attn.", wrong)
            x = mixed if wrong == "block: residual of attention dropped" else x + mixed
            dense = p + "mlp.gate_proj.weight" in self.w
            x = x + (self.mlp if dense else self.moe)(self.norm(x, self.w[two], wrong), p + "mlp.",
                                                      wrong)
            out.append(x)
        return out

    @torch.no_grad()
    def logprobs(self, tokens, wrong=None):
        """Log-softmax rows [tokens, vocab] of the model as it is, or with one mistake."""
        assert wrong is None or wrong in MISTAKES
        x = self.residuals(tokens, wrong)[-1]
        embed = self.w["model.embed_tokens.weight"]
        if wrong != "norm: last one skipped":
            x = self.norm(x, self.w["model.norm.weight"], wrong)
        head = self.w.get("lm_head.weight", embed)
        if wrong == "head: own one ignored (embedding used)":
            head = embed
        if wrong == "head: tied one replaced (rows shifted)":
            head = embed.roll(1, dims=0)
        return torch.log_softmax(x @ head.T, dim=-1)
