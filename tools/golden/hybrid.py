# SPDX-License-Identifier: Apache-2.0
"""The tiny hybrid models: gated delta nets and gated attention, as Qwen3.5 and Qwen3-Next publish them.

Configs and tensors as checkpoints.py has them for the other models, and a second implementation in F64, token by
token, that can be made wrong on demand. Values of every tensor are random, at scales that keep decays, gates and
normalisations far from 0 and from 1.
"""

import json
import math
import os

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from checkpoints import DTYPES

MISTAKES = {
    "gdn: convolution of q and k only": None,
    "gdn: convolution without silu": None,
    "gdn: convolution one token late": None,
    "gdn: taps in reverse": None,
    "gdn: no decay": None,
    "gdn: decay after the update": None,
    "gdn: decay without softplus": None,
    "gdn: decay without dt_bias": None,
    "gdn: A_log used without exp": None,
    "gdn: beta without sigmoid": None,
    "gdn: b and a swapped": None,
    "gdn: q and k swapped": None,
    "gdn: q not normalised": None,
    "gdn: k not normalised": None,
    "gdn: q without its scale": None,
    "gdn: norms of q and k by the mean": None,
    "gdn: read before write": None,
    "gdn: no read (plain linear attention)": None,
    "gdn: value heads tiled, not repeated": "ratio",
    "gdn: norm weight used as 1 + w": None,
    "gdn: norm after the gate": None,
    "gdn: gate sigmoid for silu": None,
    "gdn: gate ignored": None,
    "gdn: layout not grouped": "grouped",
    "attention: gate ignored": None,
    "attention: gate silu for sigmoid": None,
    "attention: gate halves of all heads, not of each": None,
    "attention: all dimensions rotated": None,
    "attention: q and k not normalised": None,
    "norm: weight used as w": None,
    "experts: shared one ignored": "experts",
    "experts: shared one without its gate": "experts",
    "experts: weights not renormalised": "experts",
    "layers: the third is attention": None,
}


def text_of(cfg):
    return cfg.get("text_config", cfg)


def text_config(**over):
    cfg = {
        "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True, "dtype": "float32",
        "eos_token_id": 2, "full_attention_interval": 4, "head_dim": 32, "hidden_act": "silu",
        "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 60,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"] + ["linear_attention"],
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 12, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_value_head_dim": 20, "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144, "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False, "num_attention_heads": 4, "num_hidden_layers": 5,
        "num_key_value_heads": 2, "rms_norm_eps": 0.001, "tie_word_embeddings": False, "use_cache": True,
        "vocab_size": 83,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1],
                            "partial_rotary_factor": 0.25, "rope_theta": 10000000,
                            "rope_type": "default"},
    }
    cfg.update(over)
    return cfg


def nested_config(**over):
    """As published: everything of the text inside, vision beside it."""
    text = text_config(**over)
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 70,
        "model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": text["tie_word_embeddings"],
        "transformers_version": "4.57.0.dev0", "video_token_id": 71, "vision_end_token_id": 73,
        "vision_start_token_id": 72,
        "vision_config": {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "model_type": "qwen3_5",
                          "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 48,
                          "patch_size": 2, "spatial_merge_size": 2, "temporal_patch_size": 2},
    }


def flat_config(**over):
    """A text-only export; the layers follow from their number, the rotary part from the default."""
    cfg = text_config(**over)
    for key in ("layer_types", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"):
        cfg.pop(key)
    cfg["rope_parameters"] = {"rope_theta": 10000000, "rope_type": "default"}
    return {"architectures": ["Qwen3_5ForCausalLM"], **cfg}


EXPERTS = {"num_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
           "shared_expert_intermediate_size": 24}


def moe_config(**over):
    """Experts in one tensor, without ".weight", as the published BF16 files have them."""
    cfg = nested_config(model_type="qwen3_5_moe_text", **EXPERTS, **over)
    cfg["text_config"].pop("intermediate_size")
    cfg["vision_config"]["model_type"] = "qwen3_5_moe"
    return {**cfg, "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe"}


def next_config(**over):
    """Flat, the layers by their interval, experts one by one, one layer without any."""
    cfg = flat_config(**over)
    cfg.update({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
                "decoder_sparse_step": 1, "mlp_only_layers": [1], "norm_topk_prob": True,
                "partial_rotary_factor": 0.25, "rope_theta": 5000000, "rope_scaling": None, **EXPERTS})
    cfg.pop("rope_parameters")
    return cfg


# name -> (seed, shards, config)
TINY = {
    "qwen35-moe": (34, 1, moe_config(
        linear_num_value_heads=6, num_hidden_layers=4,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])),
    "qwen3next-f32": (35, 1, next_config(num_hidden_layers=4)),
    "qwen35-f32": (31, 2, nested_config()),
    "qwen35-r1": (32, 1, flat_config(
        linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=16, linear_value_head_dim=8,
        num_hidden_layers=4, head_dim=16, linear_conv_kernel_dim=3)),
    "qwen35-bf16": (33, 1, nested_config(
        dtype="bfloat16", tie_word_embeddings=True, linear_num_key_heads=1, linear_num_value_heads=3,
        num_key_value_heads=1, hidden_size=64, linear_key_head_dim=16, linear_value_head_dim=16)),
}


def sizes(cfg):
    t = text_of(cfg)
    key = t["linear_num_key_heads"] * t["linear_key_head_dim"]
    value = t["linear_num_value_heads"] * t["linear_value_head_dim"]
    return key, value


def layer_types(cfg):
    t = text_of(cfg)
    step = t.get("full_attention_interval", 4)
    return t.get("layer_types") or ["linear_attention" if (i + 1) % step else "full_attention"
                                    for i in range(t["num_hidden_layers"])]


def delta_shapes(cfg):
    t = text_of(cfg)
    key, value = sizes(cfg)
    hid, n = t["hidden_size"], t["linear_num_value_heads"]
    fused = {"in_proj_qkvz.weight": (2 * key + 2 * value, hid), "in_proj_ba.weight": (2 * n, hid)}
    plain = {"in_proj_qkv.weight": (2 * key + value, hid), "in_proj_z.weight": (value, hid),
             "in_proj_b.weight": (n, hid), "in_proj_a.weight": (n, hid)}
    return {**(fused if is_next(cfg) else plain),
            "conv1d.weight": (2 * key + value, 1, t["linear_conv_kernel_dim"]), "A_log": (n,),
            "dt_bias": (n,), "norm.weight": (t["linear_value_head_dim"],), "out_proj.weight": (hid, value)}


def is_next(cfg):
    return cfg["model_type"] == "qwen3_next"


def mlp_shapes(p, hid, ffn):
    return {p + "gate_proj.weight": (ffn, hid), p + "up_proj.weight": (ffn, hid),
            p + "down_proj.weight": (hid, ffn)}


def has_experts(cfg, layer):
    t = text_of(cfg)
    return "num_experts" in t and layer not in t.get("mlp_only_layers", [])


def ffn_shapes(cfg, layer):
    t = text_of(cfg)
    hid = t["hidden_size"]
    if not has_experts(cfg, layer):
        return mlp_shapes("", hid, t["intermediate_size"])
    n, width = t["num_experts"], t["moe_intermediate_size"]
    out = {"gate.weight": (n, hid), "shared_expert_gate.weight": (1, hid),
           **mlp_shapes("shared_expert.", hid, t["shared_expert_intermediate_size"])}
    if is_next(cfg):
        for e in range(n):
            out.update(mlp_shapes(f"experts.{e}.", hid, width))
    else:
        out.update({"experts.gate_up_proj": (n, 2 * width, hid), "experts.down_proj": (n, hid, width)})
    return out


def shapes(cfg):
    t = text_of(cfg)
    hid, d = t["hidden_size"], t["head_dim"]
    nq, nkv = t["num_attention_heads"] * d, t["num_key_value_heads"] * d
    p = "model.language_model." if "text_config" in cfg else "model."
    out = {p + "embed_tokens.weight": (t["vocab_size"], hid)}
    for i, kind in enumerate(layer_types(cfg)):
        at = f"{p}layers.{i}."
        if kind == "linear_attention":
            out.update({at + "linear_attn." + k: v for k, v in delta_shapes(cfg).items()})
        else:
            attn = {"q_proj": (2 * nq, hid), "k_proj": (nkv, hid), "v_proj": (nkv, hid),
                    "o_proj": (hid, nq), "q_norm": (d,), "k_norm": (d,)}
            out.update({f"{at}self_attn.{k}.weight": v for k, v in attn.items()})
        out.update({f"{at}mlp.{k}": v for k, v in ffn_shapes(cfg, i).items()})
        out[at + "input_layernorm.weight"] = out[at + "post_attention_layernorm.weight"] = (hid,)
    out[p + "norm.weight"] = (hid,)
    if not t["tie_word_embeddings"]:
        out["lm_head.weight"] = (t["vocab_size"], hid)
    if "text_config" in cfg:    # not for text; an engine leaves them alone
        out.update({"model.visual.patch_embed.proj.weight": (8, 3, 2, 2, 2),
                    "model.visual.blocks.0.norm1.weight": (8,), "mtp.fc.weight": (hid, 2 * hid),
                    "mtp.norm.weight": (hid,)})
    return out


def tensor_values(rng, name, shape, tied):
    normal = rng.standard_normal(shape).astype(np.float32)
    if name.endswith("A_log"):
        return np.log(rng.uniform(0.2, 3.0, shape)).astype(np.float32)
    if name.endswith("dt_bias"):
        return rng.uniform(-2.0, 1.0, shape).astype(np.float32)
    if name.endswith("linear_attn.norm.weight"):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if name.endswith("norm.weight"):
        values = rng.uniform(-0.5, 0.6, shape).astype(np.float32)
        last = tied and name.endswith("model.norm.weight")
        # Some signs turned, so that a tied head does not predict its own token for ever.
        return np.where(rng.random(shape) < 0.5, -2 - values, values).astype(np.float32) if last else values
    if name.endswith("conv1d.weight"):
        return normal * np.float32(0.6)
    if name.endswith("embed_tokens.weight"):
        rows = np.exp(rng.uniform(np.log(0.3), 0.0, (shape[0], 1))).astype(np.float32)
        return normal * np.sqrt(rows) * np.float32(0.12) if tied else normal * rows
    gain = {"q_proj": 1.25, "k_proj": 1.25, "lm_head": 1.0, "o_proj": 1.2, "out_proj": 0.7, "down_proj": 0.7}
    part = name.split(".")[-1 if name.endswith("_proj") else -2]
    if name.endswith("mlp.gate.weight"):
        return normal * np.float32(2.0 / math.sqrt(shape[1]))
    return normal * np.float32(gain.get(part, 1.0) / math.sqrt(shape[-1]))


def make_tensors(cfg, seed):
    rng = np.random.default_rng(seed)
    t = text_of(cfg)
    return {name: torch.from_numpy(np.ascontiguousarray(
        tensor_values(rng, name, shape, t["tie_word_embeddings"]))).to(DTYPES[t["dtype"]])
            for name, shape in shapes(cfg).items()}


class Hybrid:
    """The model in F64, one token after the other."""

    def __init__(self, folder, dtype=torch.float64):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.cfg = json.load(f)
        self.t, self.dtype, self.w = text_of(self.cfg), dtype, {}
        for file in sorted(os.listdir(folder)):
            if file.endswith(".safetensors"):
                self.w.update(load_file(os.path.join(folder, file)))
        self.w = {k.replace("model.language_model.", "model."): v.to(dtype) for k, v in self.w.items()}

    def has(self, what):
        t = self.t
        return {None: True, "ratio": t["linear_num_value_heads"] > t["linear_num_key_heads"] > 1,
                "grouped": is_next(self.cfg), "experts": "num_experts" in t}[what]

    def norm(self, x, name, wrong, mistake="norm: weight used as w"):
        y = x / ((x * x).mean(-1, keepdim=True) + self.t["rms_norm_eps"]).sqrt()
        return y * (self.w[name] + (0 if wrong == mistake else 1))

    def attention(self, x, p, wrong):
        t, n = self.t, x.shape[0]
        nq, nkv, d = t["num_attention_heads"], t["num_key_value_heads"], t["head_dim"]
        both = x @ self.w[p + "q_proj.weight"].T
        if wrong == "attention: gate halves of all heads, not of each":
            q, gate = (part.reshape(n, nq, d) for part in both.chunk(2, -1))
        else:
            q, gate = both.view(n, nq, 2 * d).chunk(2, -1)
        k = (x @ self.w[p + "k_proj.weight"].T).view(n, nkv, d)
        v = (x @ self.w[p + "v_proj.weight"].T).view(n, nkv, d)
        if wrong != "attention: q and k not normalised":
            q, k = self.norm(q, p + "q_norm.weight", wrong), self.norm(k, p + "k_norm.weight", wrong)
        rope = t.get("rope_parameters") or t
        rd = int(d * rope.get("partial_rotary_factor", 0.25))
        if wrong == "attention: all dimensions rotated":
            rd = d
        freq = rope["rope_theta"] ** (-torch.arange(0, rd, 2, dtype=torch.float64) / rd)
        angle = torch.arange(n, dtype=torch.float64)[:, None, None] * freq

        def rotate(h):
            a, b = h[..., :rd // 2], h[..., rd // 2:rd]
            return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(),
                              h[..., rd:]), -1)

        q, k = rotate(q).transpose(0, 1), rotate(k).transpose(0, 1)
        group = torch.arange(nq) // (nq // nkv)
        scores = q @ k[group].transpose(1, 2) * d ** -0.5
        scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
        out = (scores.softmax(-1) @ v.transpose(0, 1)[group]).transpose(0, 1)
        if wrong == "attention: gate silu for sigmoid":
            out = out * torch.nn.functional.silu(gate)
        elif wrong != "attention: gate ignored":
            out = out * gate.sigmoid()
        return out.reshape(n, -1) @ self.w[p + "o_proj.weight"].T

    def projections(self, x, p, wrong):
        """q k v together, z, b and a."""
        t, (key, value) = self.t, sizes(self.cfg)
        if not is_next(self.cfg):
            return [x @ self.w[p + f"in_proj_{part}.weight"].T for part in ("qkv", "z", "b", "a")]
        n, nk = x.shape[0], t["linear_num_key_heads"]
        both, ba = x @ self.w[p + "in_proj_qkvz.weight"].T, x @ self.w[p + "in_proj_ba.weight"].T
        if wrong == "gdn: layout not grouped":
            return [both[:, :2 * key + value], both[:, 2 * key + value:], *ba.chunk(2, -1)]
        k, v = key // nk, value // nk
        q_, k_, v_, z_ = both.view(n, nk, -1).split((k, k, v, v), -1)
        b, a = ba.view(n, nk, -1).chunk(2, -1)
        flat = [part.reshape(n, -1) for part in (q_, k_, v_, z_, b, a)]
        return [torch.cat(flat[:3], -1), *flat[3:]]

    def convolve(self, u, weight, wrong):
        taps = weight.shape[-1]
        if wrong == "gdn: taps in reverse":
            weight = weight.flip(-1)
        late = 1 if wrong == "gdn: convolution one token late" else 0
        padded = torch.cat((torch.zeros(taps - 1 + late, u.shape[1], dtype=u.dtype), u))
        c = sum(weight[:, 0, j] * padded[j:j + u.shape[0]] for j in range(taps))
        if wrong == "gdn: convolution without silu":
            return c
        c = torch.nn.functional.silu(c)
        if wrong == "gdn: convolution of q and k only":
            key, _ = sizes(self.cfg)
            c = torch.cat((c[:, :2 * key], u[:, 2 * key:]), -1)
        return c

    def unit(self, x, wrong, what):
        if wrong == f"gdn: {what} not normalised":
            return x
        square = (x * x).sum(-1, keepdim=True)
        if wrong == "gdn: norms of q and k by the mean":
            square = square / x.shape[-1]
        return x / (square + 1e-6).sqrt()

    def decay(self, p, a, wrong):
        dt = a if wrong == "gdn: decay without dt_bias" else a + self.w[p + "dt_bias"]
        if wrong != "gdn: decay without softplus":
            dt = torch.nn.functional.softplus(dt)
        rate = self.w[p + "A_log"]
        rate = rate.abs() if wrong == "gdn: A_log used without exp" else rate.exp()
        fade = torch.exp(-rate * dt)
        return torch.ones_like(fade) if wrong == "gdn: no decay" else fade

    def heads(self, c, wrong):
        t, (key, _) = self.t, sizes(self.cfg)
        nk, nv = t["linear_num_key_heads"], t["linear_num_value_heads"]
        q, k = c[:, :key].view(-1, nk, t["linear_key_head_dim"]), c[:, key:2 * key].view(
            -1, nk, t["linear_key_head_dim"])
        if wrong == "gdn: q and k swapped":
            q, k = k, q
        q, k = self.unit(q, wrong, "q"), self.unit(k, wrong, "k")
        if wrong != "gdn: q without its scale":
            q = q * t["linear_key_head_dim"] ** -0.5
        j = torch.arange(nv)
        of = j % nk if wrong == "gdn: value heads tiled, not repeated" else j // (nv // nk)
        return q[:, of], k[:, of], c[:, 2 * key:].view(-1, nv, t["linear_value_head_dim"])

    def scan(self, q, k, v, fade, beta, wrong):
        state = torch.zeros(v.shape[1], k.shape[2], v.shape[2], dtype=self.dtype)
        rows = []
        for i in range(q.shape[0]):
            f = fade[i, :, None, None]
            if wrong != "gdn: decay after the update":
                state = state * f
            before = torch.einsum("hkv,hk->hv", state, q[i])
            read = torch.einsum("hkv,hk->hv", state, k[i])
            if wrong == "gdn: no read (plain linear attention)":
                read = torch.zeros_like(read)
            state = state + torch.einsum("hk,hv->hkv", k[i], beta[i, :, None] * (v[i] - read))
            rows.append(before if wrong == "gdn: read before write"
                        else torch.einsum("hkv,hk->hv", state, q[i]))
            if wrong == "gdn: decay after the update":
                state = state * f
        return torch.stack(rows)

    def delta(self, x, p, wrong):
        u, z, b, a = self.projections(x, p, wrong)
        if wrong == "gdn: b and a swapped":
            b, a = a, b
        c = self.convolve(u, self.w[p + "conv1d.weight"], wrong)
        q, k, v = self.heads(c, wrong)
        beta = b if wrong == "gdn: beta without sigmoid" else b.sigmoid()
        o = self.scan(q, k, v, self.decay(p, a, wrong), beta, wrong)
        z = z.view(o.shape)
        gate = {"gdn: gate sigmoid for silu": z.sigmoid(), "gdn: gate ignored": torch.ones_like(z)}.get(
            wrong, torch.nn.functional.silu(z))
        if wrong == "gdn: norm after the gate":
            o, gate = o * gate, torch.ones_like(gate)
        y = o / ((o * o).mean(-1, keepdim=True) + self.t["rms_norm_eps"]).sqrt()
        y = y * (self.w[p + "norm.weight"] + (wrong == "gdn: norm weight used as 1 + w")) * gate
        return y.reshape(x.shape[0], -1) @ self.w[p + "out_proj.weight"].T

    def mlp(self, x, p):
        gate, up = x @ self.w[p + "gate_proj.weight"].T, x @ self.w[p + "up_proj.weight"].T
        return torch.nn.functional.silu(gate) * up @ self.w[p + "down_proj.weight"].T

    def expert(self, x, p, e):
        if p + "experts.gate_up_proj" not in self.w:
            return self.mlp(x, f"{p}experts.{e}.")
        gate, up = (x @ self.w[p + "experts.gate_up_proj"][e].T).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up @ self.w[p + "experts.down_proj"][e].T

    def ffn(self, x, p, layer, wrong):
        if not has_experts(self.cfg, layer):
            return self.mlp(x, p)
        scores = (x @ self.w[p + "gate.weight"].T).softmax(-1)
        top = scores.topk(self.t["num_experts_per_tok"], -1)
        weight = top.values
        if wrong != "experts: weights not renormalised":
            weight = weight / weight.sum(-1, keepdim=True)
        each = torch.stack([self.expert(x, p, e) for e in range(self.t["num_experts"])], 1)
        rows = torch.arange(x.shape[0])[:, None]
        y = (weight[:, :, None] * each[rows, top.indices]).sum(1)
        if wrong == "experts: shared one ignored":
            return y
        shared = self.mlp(x, p + "shared_expert.")
        if wrong != "experts: shared one without its gate":
            shared = shared * (x @ self.w[p + "shared_expert_gate.weight"].T).sigmoid()
        return y + shared

    @torch.no_grad()
    def residuals(self, tokens, wrong=None):
        """The residual stream [tokens, hidden] before each layer and after the last."""
        x = self.w["model.embed_tokens.weight"][torch.tensor(tokens)]
        out = [x]
        for i, kind in enumerate(layer_types(self.cfg)):
            p = f"model.layers.{i}."
            if wrong == "layers: the third is attention" and i in (2, 3):
                p = f"model.layers.{5 - i}."
                kind = "full_attention" if i == 2 else "linear_attention"
            h = self.norm(x, p + "input_layernorm.weight", wrong)
            x = x + (self.delta(h, p + "linear_attn.", wrong) if kind == "linear_attention"
                     else self.attention(h, p + "self_attn.", wrong))
            x = x + self.ffn(self.norm(x, p + "post_attention_layernorm.weight", wrong), p + "mlp.", i, wrong)
            out.append(x)
        return out

    @torch.no_grad()
    def logprobs(self, tokens, wrong=None):
        assert wrong is None or wrong in MISTAKES
        embed = self.w["model.embed_tokens.weight"]
        x = self.norm(self.residuals(tokens, wrong)[-1], "model.norm.weight", wrong)
        return torch.log_softmax(x @ self.w.get("lm_head.weight", embed).T, dim=-1)
