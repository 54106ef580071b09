# SPDX-License-Identifier: Apache-2.0
"""DFlash drafts in plain PyTorch: the reference that trains, measures and makes goldens.

A draft has no embedding and no head of its own. It reads the target's residual stream at a few
layers (the features), makes keys and values of them for every committed token, and then fills a
block, the anchor and masks, in one pass. Slot j proposes the token at position start + j.
"""

import dataclasses
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclasses.dataclass
class Config:
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    block: int
    mask_token: int
    target_layers: list      # layers whose output is a feature, ascending
    target_depth: int        # layers of the target
    vocab: int
    eps: float = 1e-5
    theta: float = 10000.0
    max_position: int = 8192
    layer_types: list = None     # None: every layer sees everything
    window: int = None
    causal: bool = None          # None: sliding layers are causal within a block, full ones are not

    @classmethod
    def read(cls, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        inner = {**c, **c.get("dflash_config", {})}   # nested fields win
        return cls(c["hidden_size"], c["intermediate_size"], c["num_attention_heads"],
                   c["num_key_value_heads"], c["head_dim"], c["num_hidden_layers"],
                   inner.get("block_size", 16), inner["mask_token_id"],
                   inner["target_layer_ids"], c["num_target_layers"], c["vocab_size"],
                   c["rms_norm_eps"], c["rope_theta"], c["max_position_embeddings"],
                   c.get("layer_types"), c.get("sliding_window"), c.get("is_causal"))

    def published(self, dtype, draft_tokens):
        """config.json as drafts are published."""
        dflash = {"target_layer_ids": list(self.target_layers), "mask_token_id": self.mask_token}
        if draft_tokens is not None:
            dflash["draft_tokens"] = len(draft_tokens)
        out = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3",
               "block_size": self.block, "dflash_config": dflash,
               "num_target_layers": self.target_depth, "num_hidden_layers": self.layers,
               "hidden_size": self.hidden, "intermediate_size": self.ffn,
               "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
               "head_dim": self.head_dim, "rms_norm_eps": self.eps, "rope_theta": self.theta,
               "max_position_embeddings": self.max_position, "attention_bias": False,
               "hidden_act": "silu", "vocab_size": self.vocab,
               "dtype": str(dtype).removeprefix("torch.")}
        if self.layer_types is not None:
            out.update(layer_types=self.layer_types, sliding_window=self.window)
        if self.causal is not None:
            out["is_causal"] = self.causal
        return out

    def window_of(self, layer):
        sliding = self.layer_types and self.layer_types[layer] == "sliding_attention"
        return self.window if sliding else None

    def causal_in(self, layer):
        return self.window_of(layer) is not None if self.causal is None else self.causal


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def linear(n_in, n_out):
    layer = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def rotation(positions, head_dim, theta, dtype):
    """cos and sin, [..., 1, head_dim / 2], of positions [...]."""
    power = torch.arange(0, head_dim, 2, dtype=torch.float64, device=positions.device) / head_dim
    angle = positions[..., None, None].double() * theta ** -power
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, turn):
    """x [..., heads, d]; the two halves of a head are pairs."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * turn[0] - b * turn[1], b * turn[0] + a * turn[1]), dim=-1)


class Attention(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.q_proj = linear(c.hidden, c.heads * c.head_dim)
        self.k_proj = linear(c.hidden, c.kv_heads * c.head_dim)
        self.v_proj = linear(c.hidden, c.kv_heads * c.head_dim)
        self.o_proj = linear(c.heads * c.head_dim, c.hidden)
        self.q_norm, self.k_norm = Norm(c.head_dim, c.eps), Norm(c.head_dim, c.eps)
        self.d, self.kv_heads, self.group = c.head_dim, c.kv_heads, c.heads // c.kv_heads
        self.window, self.causal = c.window_of(layer), c.causal_in(layer)

    def keys_values(self, x, turn):
        """x [..., H] -> keys and values [..., kv_heads, d]."""
        k = self.k_norm(self.k_proj(x).unflatten(-1, (self.kv_heads, self.d)))
        return rotate(k, turn), self.v_proj(x).unflatten(-1, (self.kv_heads, self.d))

    def seen(self, start, width, n_ctx):
        """Which keys a slot sees: of the context [b, A, B, T], of its block [B, B]."""
        slot = torch.arange(width, device=start.device)
        ctx = torch.arange(n_ctx, device=start.device)
        far = start[..., None, None] + slot[:, None] - ctx
        of_ctx = (ctx < start[..., None, None]).expand(*start.shape, width, n_ctx)
        back = slot[:, None] - slot
        of_block = back >= 0 if self.causal else torch.ones_like(back, dtype=torch.bool)
        if self.window is not None:
            of_ctx, of_block = of_ctx & (far < self.window), of_block & (back.abs() < self.window)
        return of_ctx, of_block

    def forward(self, x, turn, start, ctx):
        """x [b, A, B, H]: A blocks of B slots in b sequences; ctx: keys, values [b, T, ...]."""
        b, n_block, width, _ = x.shape
        q = self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.d)))
        q = rotate(q, turn) * self.d ** -0.5
        k, v = self.keys_values(x, turn)
        q = q.view(b, n_block, width, self.kv_heads, self.group, self.d).permute(0, 3, 1, 2, 4, 5)
        k_ctx, v_ctx = (t.transpose(1, 2) for t in ctx)              # [b, kv, T, d]
        k, v = (t.permute(0, 3, 1, 2, 4) for t in (k, v))            # [b, kv, A, B, d]
        of_ctx, of_block = self.seen(start, width, k_ctx.shape[2])
        rows = q.flatten(2, 4) @ k_ctx.transpose(-1, -2)
        rows = rows.view(*q.shape[:5], -1).masked_fill(~of_ctx[:, None, :, :, None], -torch.inf)
        near = (q.flatten(3, 4) @ k.transpose(-1, -2)).view(*q.shape[:5], width)
        near = near.masked_fill(~of_block[:, None], -torch.inf)
        p = torch.cat((rows, near), dim=-1)
        p = torch.softmax(p, dim=-1, dtype=torch.promote_types(p.dtype, torch.float32)).to(q.dtype)
        p_ctx, p_near = p.split((rows.shape[-1], width), dim=-1)
        out = (p_ctx.flatten(2, 4) @ v_ctx).view(q.shape)
        out = out + (p_near.flatten(3, 4) @ v).view(q.shape)
        return self.o_proj(out.permute(0, 2, 3, 1, 4, 5).reshape(b, n_block, width, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = linear(c.hidden, c.ffn), linear(c.hidden, c.ffn)
        self.down_proj = linear(c.ffn, c.hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.input_layernorm = Norm(c.hidden, c.eps)
        self.post_attention_layernorm = Norm(c.hidden, c.eps)
        self.self_attn, self.mlp = Attention(c, layer), Mlp(c)

    def forward(self, h, turn, start, ctx):
        h = h + self.self_attn(self.input_layernorm(h), turn, start, ctx)
        return h + self.mlp(self.post_attention_layernorm(h))


class Draft(nn.Module):
    """Parameters are named as in the published files."""

    def __init__(self, config):
        super().__init__()
        c = self.config = config
        self.fc = linear(len(c.target_layers) * c.hidden, c.hidden)
        self.hidden_norm, self.norm = Norm(c.hidden, c.eps), Norm(c.hidden, c.eps)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.layers))
        for layer in self.layers:   # begin with small steps away from the anchor's embedding
            layer.self_attn.o_proj.weight.data.mul_(0.3)
            layer.mlp.down_proj.weight.data.mul_(0.3)

    def context(self, features):
        """Each layer's keys and values of committed tokens; features [b, T, K * H]."""
        g = self.hidden_norm(self.fc(features))
        turn = self.turn(torch.arange(features.shape[1], device=features.device), g.dtype)
        return [layer.self_attn.keys_values(g, turn) for layer in self.layers]

    def turn(self, positions, dtype):
        return rotation(positions, self.config.head_dim, self.config.theta, dtype)

    def forward(self, embedded, start, ctx):
        """Final hidden states [b, A, B, H] of blocks that begin at start [b, A].

        embedded: the target's embedding of anchor, mask, mask, ...; slot 0 proposes nothing.
        """
        slot = torch.arange(embedded.shape[2], device=start.device)
        turn = self.turn(start[..., None] + slot, embedded.dtype)
        h = embedded
        for layer, kv in zip(self.layers, ctx):
            h = layer(h, turn, start, kv)
        return self.norm(h)


def embed_blocks(embedding, anchors, mask_token, width):
    """Embedded blocks [b, A, B, H] of anchors [b, A]."""
    ids = torch.full((*anchors.shape, width), mask_token, device=anchors.device)
    ids[..., 0] = anchors
    return embedding[ids]


def load(folder):
    """The draft in F32, and the tokens that it may propose (None: all)."""
    tensors = {k.removeprefix("model."): v
               for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
    tokens = tensors.pop("draft_tokens", None)
    draft = Draft(Config.read(folder))
    draft.load_state_dict({k: v.float() for k, v in tensors.items()})
    return draft, None if tokens is None else tokens.long()


def save(folder, draft, draft_tokens=None, dtype=torch.bfloat16):
    """config.json and model.safetensors; draft_tokens: ascending ids, or None for all."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(draft.config.published(dtype, draft_tokens), f, indent=1)
        f.write("\n")
    tensors = {k: v.detach().to("cpu", dtype).contiguous() for k, v in draft.state_dict().items()}
    if draft_tokens is not None:
        tensors["draft_tokens"] = draft_tokens.to("cpu", torch.int32)
    path = os.path.join(folder, "model.safetensors")
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)
