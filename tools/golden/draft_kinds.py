# SPDX-License-Identifier: Apache-2.0
"""DSpark and DFlash2 in plain PyTorch, on top of ../train-draft/dflash.py: what goldens are made of.

DSpark: slot j proposes the token at position start + j + 1, and the token before it corrects its
scores. DFlash2: convolutions within a block around attention and MLP, and a selector that scores
pairs of tokens among the best of each slot.
"""
import dataclasses

import dflash
import torch
from torch import nn


@dataclasses.dataclass
class SparkConfig(dflash.Config):
    markov_rank: int = 0
    confident: bool = True
    confident_of_pairs: bool = True
    anchor_first: bool = True
    nested: bool = False          # the fields stand in "dspark_config"

    def published(self, dtype, draft_tokens):
        out = super().published(dtype, draft_tokens)
        out["architectures"] = ["Qwen3DSparkModel"]
        fields = {**out.pop("dflash_config"), "num_anchors": 512, "markov_rank": self.markov_rank,
                  "markov_head_type": "vanilla", "enable_confidence_head": self.confident,
                  "confidence_head_with_markov": self.confident_of_pairs}
        if not self.anchor_first:
            fields["sample_from_anchor"] = False
        if self.nested:
            return {**out, "dspark_config": fields}
        return {**out, **fields}


class Spark(dflash.Draft):
    def __init__(self, config):
        super().__init__(config)
        c, rank = config, config.markov_rank
        self.markov_head = nn.ModuleDict({"markov_w1": nn.Embedding(c.vocab, rank),
                                          "markov_w2": nn.Linear(rank, c.vocab, bias=False)})
        if c.confident:
            width = c.hidden + (rank if c.confident_of_pairs else 0)
            self.confidence_head = nn.ModuleDict({"proj": nn.Linear(width, 1)})

    @torch.no_grad()
    def choose(self, z, scores, anchor):
        """Tokens of slots, margins over the second best, and how sure it is (logits, or None)."""
        tokens, margins, sure, previous = [], [], [], anchor
        for z_j, base in zip(z, scores):
            e = self.markov_head["markov_w1"].weight[previous]
            row = base + self.markov_head["markov_w2"].weight @ e
            best = row.topk(2)
            # The engine corrects the best 16 only.
            assert int(best.indices[0]) in base.topk(16).indices.tolist()
            if self.config.confident:
                seen = torch.cat((z_j, e)) if self.config.confident_of_pairs else z_j
                proj = self.confidence_head["proj"]
                sure.append(float(proj.weight[0] @ seen + proj.bias[0]))
            previous = int(best.indices[0])
            tokens.append(previous)
            margins.append(float(best.values[0] - best.values[1]))
        return tokens, margins, sure or None


@dataclasses.dataclass
class Flash2Config(dflash.Config):
    taps: int = 2
    group: int = 8
    rank: int = 32
    top: int = 16
    multiplier: float = 1.0
    cap: float = None
    embed_scale: float = 1.0

    def published(self, dtype, draft_tokens):
        out = super().published(dtype, draft_tokens)
        out["architectures"] = ["DFlash2DraftModel"]
        out["dflash_config"].update(
            conv_kernel_size=self.taps, conv_group_size=self.group, selector_rank=self.rank,
            selector_top_k=self.top, output_multiplier=self.multiplier,
            input_embedding_scale=self.embed_scale)
        if self.cap is not None:
            out["dflash_config"]["final_logit_softcapping"] = self.cap
        return out


class Conv(nn.Module):
    """Taps that reach back within a block; side 0 on a sublayer's input, side 1 on its output."""

    def __init__(self, c):
        super().__init__()
        self.taps, self.group = c.taps, c.group
        self.base_kernel = nn.Parameter(torch.zeros(2, c.taps, c.hidden))
        self.kernel_projection = dflash.linear(c.hidden, 2 * c.taps * c.hidden // c.group)

    def deltas(self, x):
        d = self.kernel_projection(x).unflatten(-1, (2, self.taps, -1))
        return d.repeat_interleave(self.group, dim=-1)

    def forward(self, x, deltas, side):
        out = torch.zeros_like(x)
        for tap in range(min(self.taps, x.shape[-2])):
            kernel = self.base_kernel[side, tap] + deltas[..., side, tap, :]
            back = torch.zeros_like(x)
            back[..., tap:, :] = x[..., :x.shape[-2] - tap, :]
            out = out + kernel * back
        return out


class ConvLayer(dflash.Layer):
    def __init__(self, c, layer):
        super().__init__(c, layer)
        self.attention_conv, self.mlp_conv = Conv(c), Conv(c)

    def forward(self, h, turn, start, ctx):
        x = self.input_layernorm(h)
        d = self.attention_conv.deltas(x)
        x = self.self_attn(self.attention_conv(x, d, 0), turn, start, ctx)
        h = h + self.attention_conv(x, d, 1)
        x = self.post_attention_layernorm(h)
        d = self.mlp_conv.deltas(x)
        return h + self.mlp_conv(self.mlp(self.mlp_conv(x, d, 0)), d, 1)


class Selector(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.zeros(c.vocab, c.rank))
        self.successor_codebook = nn.Parameter(torch.zeros(c.vocab, c.rank))
        self.hidden_projection = dflash.linear(c.hidden, c.rank)


class Flash2(dflash.Draft):
    def __init__(self, config):
        super().__init__(config)
        self.layers = nn.ModuleList(ConvLayer(config, i) for i in range(config.layers))
        self.candidate_selector = Selector(config)

    @torch.no_grad()
    def choose(self, z, scores, anchor):
        c, s = self.config, self.candidate_selector
        tokens, margins, previous = [], [], anchor
        logits = scores * c.multiplier
        if c.cap is not None:
            logits = c.cap * torch.tanh(logits / c.cap)
        for z_j, row in zip(z, logits):
            best = row.topk(c.top)
            pair = s.predecessor_codebook[previous] * s.hidden_projection(z_j)
            among = best.values + s.successor_codebook[best.indices] @ pair
            two = among.topk(2)
            # A candidate that comes or goes by rounding would be one that nobody chooses.
            previous = int(best.indices[two.indices[0]])
            tokens.append(previous)
            margins.append(float(two.values[0] - two.values[1]))
        return tokens, margins, None


EXTRAS = ("markov_head.", "confidence_head.", "_conv.", "candidate_selector.")


def is_extra(name):
    """Whether a parameter is one that DFlash does not have."""
    return any(part in name for part in EXTRAS)


def extra_values(name, shape, generator):
    """Values of everyday size, so that every part has a say and none drowns the others."""
    if name.endswith("base_kernel"):
        values = torch.randn(shape, generator=generator) * 0.4
        values[:, 0] += 0.8
        return values
    scale = {"markov_w1.weight": 1.0, "predecessor_codebook": 1.0,
             "markov_w2.weight": 0.4 * shape[-1] ** -0.5,
             "successor_codebook": 1.5 * shape[-1] ** -0.5,
             "kernel_projection.weight": 0.4 * shape[-1] ** -0.5,
             "proj.weight": 1.5 * shape[-1] ** -0.5, "proj.bias": 1.0}
    for end, by in scale.items():
        if name.endswith(end):
            return torch.randn(shape, generator=generator) * by
    return torch.randn(shape, generator=generator) * shape[-1] ** -0.5
