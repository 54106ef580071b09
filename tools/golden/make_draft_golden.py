#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny DFlash, DSpark and DFlash2 drafts for tiny targets, and what they propose, to tests/data/drafts/.

    make_draft_golden.py --data tests/data/golden --out tests/data/drafts [--check]

Everything is computed in F64 from the weights as stored (see ../train-draft/dflash.py) and written
as F32. --check says by how much each of some mistakes moves the result.
"""
import argparse
import json
import os
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train-draft"))
import dflash  # noqa: E402
import draft_kinds as kinds  # noqa: E402
import target as targets  # noqa: E402

# Name -> target, seed, dtype, what differs from BASE; "proposable": only every so many-th token.
BASE = {"ffn": 88, "heads": 6, "kv_heads": 2, "head_dim": 16, "layers": 2, "block": 5,
        "mask_token": 7, "target_layers": [0, 1], "theta": 50000.0, "eps": 1e-4}
SLIDING, FULL = "sliding_attention", "full_attention"
DRAFTS = {
    "llama-f32-dflash": ("llama-f32", 41, torch.float32, {}),
    # A causal window shorter than most contexts, then a layer that sees everything.
    "llama-f32-dflash-window": ("llama-f32", 42, torch.float32, {
        "layer_types": [SLIDING, FULL], "window": 9, "layers": 2, "target_layers": [1, 2]}),
    # Windows to both sides, shorter than the block; a head with few tokens.
    "llama-f32-dflash-tokens": ("llama-f32", 43, torch.bfloat16, {
        "layer_types": [SLIDING] * 3, "window": 3, "causal": False, "layers": 3, "block": 6,
        "proposable": 3, "target_layers": [0]}),
    "qwen3-f32-dflash": ("qwen3-f32", 44, torch.float32, {
        "head_dim": 24, "heads": 4, "target_layers": [0]}),
    # The first feature is the embedding's output. A Markov head that is asked how sure it is.
    "llama-f32-dspark": ("llama-f32", 45, torch.float32, {
        "markov_rank": 32, "target_layers": [-1, 1]}, kinds.SparkConfig, kinds.Spark),
    # Slots as of DFlash; sure of places, not of pairs; fields in an object of their own.
    "qwen3-f32-dspark-aligned": ("qwen3-f32", 46, torch.bfloat16, {
        "head_dim": 24, "heads": 4, "target_layers": [0], "markov_rank": 20, "anchor_first": False,
        "confident_of_pairs": False, "nested": True}, kinds.SparkConfig, kinds.Spark),
    # The layers of llama-f32-dflash, with convolutions around them and a selector.
    "llama-f32-dflash2": ("llama-f32", 41, torch.float32, {}, kinds.Flash2Config, kinds.Flash2),
    "qwen3-f32-dflash2-window": ("qwen3-f32", 47, torch.bfloat16, {
        "head_dim": 24, "heads": 4, "target_layers": [0], "layer_types": [SLIDING] * 2, "window": 9,
        "causal": False, "taps": 3, "group": 12, "rank": 20, "top": 5, "multiplier": 0.7, "cap": 4.0,
        "embed_scale": 1.7}, kinds.Flash2Config, kinds.Flash2),
}
PROMPTS = (1, 3)             # of the target's golden: 7 and 65 tokens
STEPS = (0, 1, 3, 4, 9, 17)  # greedy tokens that are committed when a block begins


def make_draft(target, seed, dtype, changes, config=dflash.Config, kind=dflash.Draft):
    fields = {**BASE, **{k: v for k, v in changes.items() if k != "proposable"}}
    draft = kind(config(hidden=target.hidden, target_depth=target.depth, vocab=target.vocab,
                        max_position=512, **fields))
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(draft.named_parameters(), key=lambda item: kinds.is_extra(item[0])):
        if kinds.is_extra(name):
            values = kinds.extra_values(name, p.shape, g)
        elif name.endswith("norm.weight"):
            values = 0.5 + 1.2 * torch.rand(p.shape, generator=g)
        else:
            values = torch.randn(p.shape, generator=g) * 1.2 * p.shape[1] ** -0.5
        p.data = values.to(dtype)
    every = changes.get("proposable")
    return draft, None if every is None else torch.arange(1, target.vocab, every)


@torch.no_grad()
def block(draft, target, proposable, text, length, features):
    """Hidden states [B, H] and scores [B, tokens] of the block that begins at `length`."""
    start, anchor = torch.tensor([[length]]), torch.tensor([[text[length]]])
    ctx = draft.context(features[None, :length])
    embedded = dflash.embed_blocks(target.embedding, anchor, draft.config.mask_token,
                                   draft.config.block)
    z = draft(embedded * getattr(draft.config, "embed_scale", 1.0), start, ctx)[0, 0]
    scores = z @ target.head.T
    if proposable is not None:
        other = torch.ones(target.vocab, dtype=torch.bool)
        other[proposable] = False
        scores[:, other] = -torch.inf
    return z, scores


def features_of(target, text, layers):
    """The residual stream after some layers; layer -1 is the embedding."""
    tokens, parts = torch.tensor([text]), []
    if -1 in layers:
        parts.append(target.embedding[tokens][0])
    later = [i for i in layers if i >= 0]
    return torch.cat(parts + ([target.read(tokens, later)[0][0]] if later else []), dim=-1)


def proposals(draft, z, scores, anchor):
    """Tokens that a block proposes, margins over the second best, and how sure the draft is."""
    first = 0 if getattr(draft.config, "anchor_first", False) else 1
    if hasattr(draft, "choose"):
        return draft.choose(z[first:], scores[first:], anchor)
    top = scores[first:].topk(2)
    return top.indices[:, 0].tolist(), (top.values[:, 0] - top.values[:, 1]).tolist(), None


def run(draft, target, proposable, prompts):
    """Features of each text, and for each of its steps z and scores."""
    out = []
    for p in prompts:
        text = p["tokens"] + p["greedy"]
        layers = draft.config.target_layers
        features = features_of(target, text[:-1], layers).to(draft.fc.weight.dtype)
        steps = [block(draft, target, proposable, text, len(p["tokens"]) + n, features)
                 for n in STEPS]
        out.append((features, steps))
    return out


def chain_share(draft, prompts, results):
    """Of all proposals, how many are not just the best of their slot."""
    others = []
    for p, (_, steps) in zip(prompts, results):
        for n, (z, scores) in zip(STEPS, steps):
            anchor = (p["tokens"] + p["greedy"])[len(p["tokens"]) + n]
            tokens = proposals(draft, z, scores, anchor)[0]
            best = scores[-len(tokens):].argmax(-1).tolist()
            others += [a != b for a, b in zip(tokens, best)]
    return sum(others) / len(others)


def all_z(results):
    return torch.cat([z for _, steps in results for z, _ in steps]).double()


def mistakes(draft, target, proposable, prompts):
    """What an engine may get wrong -> hidden states then."""
    def with_config(**changes):
        config = dflash.dataclasses.replace(draft.config, **changes)
        other = type(draft)(config).double()
        other.load_state_dict(draft.state_dict())
        return all_z(run(other, target, proposable, prompts))

    c, rotate = draft.config, dflash.rotate
    off = 1 if c.target_layers[-1] + 1 < c.target_depth else -1
    yield "features one layer off", with_config(target_layers=[i + off for i in c.target_layers])
    yield "theta of the target", with_config(theta=target.theta)
    yield "another mask token", with_config(mask_token=c.mask_token + 1)
    yield "epsilon of the target", with_config(eps=target.eps)
    if c.layer_types is None:
        yield "causal within a block", with_config(causal=True)
    else:
        yield "window one wider", with_config(window=c.window + 1)
        yield "window ignored", with_config(layer_types=[FULL] * c.layers, causal=False)
        yield "the other causality", with_config(causal=not c.causal_in(0))

    def interleaved(x, turn):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * turn[0] - b * turn[1], b * turn[0] + a * turn[1]), -1).flatten(-2)
    # The target rotates with the same function, and only the draft is to be wrong.
    kept = target.read
    seen = {}

    def read(tokens, layers):
        key = tuple(tokens[0].tolist())
        if key not in seen:
            seen[key] = kept(tokens, layers)
        return seen[key]
    target.read = read
    run(draft, target, proposable, prompts)
    dflash.rotate = interleaved
    yield "rope: adjacent pairs, not halves", all_z(run(draft, target, proposable, prompts))
    dflash.rotate, target.read = rotate, kept


def write(folder, draft, proposable, dtype, name, golden_of, prompts, results, noise):
    dflash.save(folder, draft, proposable, dtype)
    margin = float("inf")
    described = []
    for p, (_, steps) in zip(prompts, results):
        lines = []
        for n, (z, scores) in zip(STEPS, steps):
            anchor = (p["tokens"] + p["greedy"])[len(p["tokens"]) + n]
            tokens, margins, sure = proposals(draft, z, scores, anchor)
            margin = min(margin, *margins)
            lines.append({"accepted": n, "proposed": tokens})
            if sure is not None:
                lines[-1]["sure_millionths"] = [round(x * 1e6) for x in sure]
        described.append({"tokens": p["tokens"], "greedy": p["greedy"], "steps": lines})
    c = draft.config
    head = {"name": name, "target": golden_of, "hidden": c.hidden, "block": c.block,
            "features": len(c.target_layers) * c.hidden, "tolerance": 1e-4,
            "reference_noise": noise, "min_margin": margin}
    if dtype != torch.float32:
        head["dtype"] = "bfloat16"
    lines = [f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()]
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as f:
        f.write("{\n" + "".join(lines) + ' "prompts": [\n' + ",\n".join(
            "  " + json.dumps(p, separators=(",", ":")) for p in described) + "\n ]\n}\n")
    with open(os.path.join(folder, "hidden.bin"), "wb") as f:
        for _, steps in results:
            for z, _ in steps:
                f.write(np.ascontiguousarray(z.numpy(), dtype="<f4").tobytes())
    return margin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder with the targets' goldens")
    parser.add_argument("--out", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for name, (golden_of, seed, dtype, changes, *kind) in DRAFTS.items():
        folder = os.path.join(args.data, golden_of)
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
            every = json.load(f)["prompts"]
        prompts = [every[i] for i in PROMPTS]
        target = targets.Target(folder, dtype=torch.float64)
        draft, proposable = make_draft(target, seed, dtype, changes, *kind)
        narrow = run(draft.float(), targets.Target(folder), proposable, prompts)
        right = run(draft.double(), target, proposable, prompts)
        noise = float((all_z(narrow) - all_z(right)).abs().max())
        margin = write(os.path.join(args.out, name), draft, proposable, dtype, name, golden_of,
                       prompts, right, noise)
        print(f"{name}: noise {noise:.1e}, least margin {margin:.1e}, "
              f"hidden up to {all_z(right).abs().max():.1f}")
        if args.check and hasattr(draft, "choose"):
            share = chain_share(draft, prompts, right)
            print(f"  {'FAIL' if share < 0.2 else 'ok  '} the token before has no say: {share:.0%}")
        if args.check:
            for what, z in mistakes(draft, target, proposable, prompts):
                moved = float((z - all_z(right)).abs().max())
                print(f"  {'FAIL' if moved < 1e-3 else 'ok  '} {what}: {moved:.1e}")


if __name__ == "__main__":
    main()
