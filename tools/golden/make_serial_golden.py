#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny EAGLE3 drafts for tiny targets, tiny models with an MTP layer, and what these propose.

    make_serial_golden.py --data tests/data/golden --out tests/data/drafts [--check]

Everything is computed in F64 from the weights as stored (see serial_drafts.py). --check says by how
much each of some mistakes moves the result.
"""
import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import hybrid
import plain
import serial_drafts

PROPOSED = 7
PROMPTS = (1, 3)             # of the target's golden: 7 and 65 tokens
STEPS = (0, 1, 3, 4, 9, 17)  # greedy tokens that are committed when proposals are asked for

# Name -> target, seed, dtype, what differs. "own_names": layers.0. in place of midlayer. Without ids it
# reads the usual boundaries, for which none of the targets has layers enough: DEEP is made for it.
DEEP = "deep"
EAGLE3 = {
    "llama-f32-eagle3": ("llama-f32", 51, torch.float32, {"ids": [0, 1, 2], "proposable": 61}),
    # Another width than the target's, so an embedding of its own; two features, normalised together.
    "llama-f32-eagle3-narrow": ("llama-f32", 52, torch.float32, {
        "hidden": 40, "ids": [0, 2], "proposable": 50, "norm_before_fc": True, "norm_output": True,
        "own_names": True}),
    # The target's head, and a norm of each feature under its old name.
    "qwen3-f32-eagle3": ("qwen3-f32", 53, torch.float32, {"ids": [0, 1], "norm_parts": True}),
    "qwen3moe-f32-eagle3": ("qwen3moe-f32", 56, torch.float32, {"ids": [0, 1, 2], "proposable": 40}),
    "llama-deep-eagle3": (DEEP, 57, torch.float32, {"ids": None, "proposable": 40}),
    "minimax-f32-eagle3": ("minimax-f32", 55, torch.float32, {"ids": [0, 1], "proposable": 61}),
}

# Name -> the model that gets a whole MTP layer, seed. The folder is the model with it.
MTP = {"qwen35-f32-mtp": ("qwen35-f32", 61), "qwen35-moe-mtp": ("qwen35-moe", 62),
       "qwen3next-f32-mtp": ("qwen3next-f32", 63)}


def eagle3_config(target, changes, dtype):
    hidden, wide = changes.get("hidden", target["hidden_size"]), target["hidden_size"]
    eagle = {"use_aux_hidden_state": True}
    if changes["ids"] is not None:
        eagle = {"eagle_aux_hidden_state_layer_ids": changes["ids"], **eagle}
    if changes.get("norm_before_fc"):
        eagle["norm_before_fc"] = True
    c = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "eagle_config": eagle,
         "hidden_size": hidden, "intermediate_size": 52, "num_hidden_layers": 1,
         "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-4,
         "rope_theta": 30000.0, "max_position_embeddings": 256, "attention_bias": False,
         "hidden_act": "silu", "vocab_size": target["vocab_size"], "tie_word_embeddings": False,
         "torch_dtype": str(dtype).removeprefix("torch.")}
    if hidden != wide:
        c["target_hidden_size"] = wide
    if "proposable" in changes:
        c["draft_vocab_size"] = changes["proposable"]
    if changes.get("norm_parts"):
        c["fc_norm"] = True
    if changes.get("norm_output"):
        c["norm_output"] = True
    return c


def n_features(changes):
    return 3 if changes["ids"] is None else len(changes["ids"])


def eagle3_shapes(c, target, changes):
    h, d, ffn, wide = c["hidden_size"], c["head_dim"], c["intermediate_size"], target["hidden_size"]
    p = "layers.0." if changes.get("own_names") else "midlayer."
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out = {"fc.weight": (h, n_features(changes) * wide), "norm.weight": (h,),
           p + "hidden_norm.weight": (h,), p + "input_layernorm.weight": (h,),
           p + "post_attention_layernorm.weight": (h,),
           p + "self_attn.q_proj.weight": (q, 2 * h), p + "self_attn.k_proj.weight": (kv, 2 * h),
           p + "self_attn.v_proj.weight": (kv, 2 * h), p + "self_attn.o_proj.weight": (h, q),
           p + "mlp.gate_proj.weight": (ffn, h), p + "mlp.up_proj.weight": (ffn, h),
           p + "mlp.down_proj.weight": (h, ffn)}
    if changes.get("norm_before_fc"):
        out["input_norm.weight"] = (n_features(changes) * wide,)
    for i in range(n_features(changes) if changes.get("norm_parts") else 0):
        out[f"aux_norm_{('low', 'mid', 'high')[i]}.weight"] = (wide,)
    if "proposable" in changes:
        out["lm_head.weight"] = (changes["proposable"], h)
    if h != wide:
        out["embed_tokens.weight"] = (target["vocab_size"], h)
    return out


def make_eagle3(target, seed, dtype, changes):
    """config, tensors as they are stored."""
    c = eagle3_config(target.cfg, changes, dtype)
    g = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in eagle3_shapes(c, target.cfg, changes).items():
        if len(shape) == 1:
            values = 0.5 + 1.2 * torch.rand(shape, generator=g)
        elif name.startswith(("embed", "lm_head")):
            values = torch.randn(shape, generator=g)
        else:
            values = torch.randn(shape, generator=g) * 1.2 * shape[1] ** -0.5
        tensors[name] = values.to(dtype)
    n = changes.get("proposable", c["vocab_size"])
    if n < c["vocab_size"]:
        chosen = torch.randperm(c["vocab_size"], generator=g)[:n].sort().values
        tensors["d2t"] = chosen - torch.arange(n)
        seen = torch.zeros(c["vocab_size"], dtype=torch.bool)
        seen[chosen] = True
        tensors["t2d"] = seen
    return c, tensors


def make_deep(folder, seed):
    """A narrow Llama of nine layers in `folder`."""
    c = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16,
         "intermediate_size": 24, "num_hidden_layers": 9, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-4, "rope_theta": 10000.0,
         "max_position_embeddings": 256, "hidden_act": "silu", "vocab_size": 83,
         "tie_word_embeddings": True, "eos_token_id": 2, "torch_dtype": "float32"}
    h, ffn, q, kv = c["hidden_size"], c["intermediate_size"], 32, 16
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], h), "model.norm.weight": (h,)}
    for i in range(c["num_hidden_layers"]):
        shapes.update({f"model.layers.{i}.{name}.weight": shape for name, shape in {
            "input_layernorm": (h,), "post_attention_layernorm": (h,), "self_attn.q_proj": (q, h),
            "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q),
            "mlp.gate_proj": (ffn, h), "mlp.up_proj": (ffn, h), "mlp.down_proj": (h, ffn)}.items()})
    g = torch.Generator().manual_seed(seed)
    tensors = {name: 0.5 + torch.rand(shape, generator=g) if len(shape) == 1
               else torch.randn(shape, generator=g) * (1 if "embed" in name else shape[1] ** -0.5)
               for name, shape in shapes.items()}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(c, f, indent=1)
        f.write("\n")
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    return plain.Plain(folder)


def deep_prompts(target, seed):
    """Prompts of the usual form: beside a short one, one of more than a page."""
    g = torch.Generator().manual_seed(seed)
    out = []
    for n in (7, 37):
        tokens = torch.randint(3, target.cfg["vocab_size"], (n,), generator=g).tolist()
        greedy = []
        while len(greedy) < STEPS[-1] + 3:
            greedy.append(int(target.logprobs(tokens + greedy)[-1].argmax()))
        out.append({"tokens": tokens, "greedy": greedy})
    return out


def mtp_shapes(cfg):
    """The tensors of the layer, which is the model's own attention and MLP."""
    own = hybrid.shapes(cfg)
    last = max(i for i, kind in enumerate(hybrid.layer_types(cfg)) if kind == "full_attention")
    at = next(n for n in own if f"layers.{last}." in n).partition(f"layers.{last}.")
    hid = hybrid.text_of(cfg)["hidden_size"]
    out = {"mtp.fc.weight": (hid, 2 * hid), "mtp.norm.weight": (hid,),
           "mtp.pre_fc_norm_embedding.weight": (hid,), "mtp.pre_fc_norm_hidden.weight": (hid,)}
    out.update({n.replace("".join(at[:2]), "mtp.layers.0."): shape for n, shape in own.items()
                if "".join(at[:2]) in n})
    return out


def make_mtp(source, folder, seed):
    """The model of `source`, by links to its files, with what it lacks of an MTP layer."""
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        cfg = json.load(f)
    os.makedirs(folder, exist_ok=True)
    where = {}
    for file in sorted(os.listdir(source)):
        name = file.replace("model.safetensors", "text.safetensors")   # no single file any more
        if file != "config.json" and not file.endswith(".safetensors"):
            continue
        link = os.path.join(folder, name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(os.path.relpath(os.path.join(source, file), folder), link)
        if file.endswith(".safetensors"):
            where.update({key: name for key in load_file(os.path.join(source, file))})
    rng = np.random.default_rng(seed)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(
        hybrid.tensor_values(rng, name, shape, False)))
        for name, shape in mtp_shapes(cfg).items() if name not in where}
    where.update({name: "mtp.safetensors" for name in tensors})
    save_file(tensors, os.path.join(folder, "mtp.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "mtp.safetensors"), 0o644)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f, indent=1)
        f.write("\n")
    return serial_drafts.Mtp(hybrid.Hybrid(folder))


def run(draft, prompts, wrong=None):
    """For each prompt what was captured, and its steps' hidden states and scores."""
    out = []
    for p in prompts:
        text = p["tokens"] + p["greedy"]
        captured = draft.captured(draft.target.residuals(text[:-1]), wrong)
        steps = [serial_drafts.propose(draft, captured, text, len(p["tokens"]) + n, PROPOSED, wrong)
                 for n in STEPS]
        out.append((captured, steps))
    return out


def all_hidden(results):
    return torch.cat([z for _, steps in results for z, _ in steps])


def write_golden(folder, head, prompts, results):
    """golden.json; returns the least margin of a proposal."""
    margin, described = float("inf"), []
    for p, (_, steps) in zip(prompts, results):
        lines = []
        for n, (_, scores) in zip(STEPS, steps):
            top = scores.topk(2).values
            margin = min(margin, float((top[:, 0] - top[:, 1]).min()))
            lines.append({"accepted": n, "proposed": scores.argmax(-1).tolist(),
                          "last_score_millionths": round(float(top[-1, 0]) * 1e6)})
        described.append({"tokens": p["tokens"], "greedy": p["greedy"], "steps": lines})
    head = {**head, "block": PROPOSED, "tolerance": 1e-4, "min_margin": margin}
    lines = [f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()]
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as f:
        f.write("{\n" + "".join(lines) + ' "prompts": [\n' + ",\n".join(
            "  " + json.dumps(p, separators=(",", ":")) for p in described) + "\n ]\n}\n")
    return margin


def write_features(folder, results):
    with open(os.path.join(folder, "features.bin"), "wb") as f:
        for captured, _ in results:
            f.write(np.ascontiguousarray(captured.numpy(), dtype="<f4").tobytes())


def check(draft, prompts, right):
    for wrong in draft.MISTAKES:
        moved = float((all_hidden(run(draft, prompts, wrong)) - all_hidden(right)).abs().max())
        if moved == 0 and wrong.startswith("a norm of features"):
            continue   # it has none
        print(f"  {'FAIL' if moved < 1e-3 else 'ok  '} {wrong}: {moved:.1e}")


def prompts_of(folder):
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
        every = json.load(f)["prompts"]
    return [every[i] for i in PROMPTS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder with the targets' goldens")
    parser.add_argument("--out", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for name, (golden_of, seed, dtype, changes) in EAGLE3.items():
        source, folder = os.path.join(args.data, golden_of), os.path.join(args.out, name)
        if golden_of == DEEP:
            golden_of = f"../drafts/{name}/target"
            target = make_deep(os.path.join(folder, "target"), seed)
            prompts = deep_prompts(target, seed)
        else:
            prompts, target = prompts_of(source), plain.Plain(source)
        config, tensors = make_eagle3(target, seed, dtype, changes)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
        draft = serial_drafts.Eagle3(config, tensors, target)
        right = run(draft, prompts)
        head = {"name": name, "target": golden_of, "hidden": config["hidden_size"],
                "boundaries": draft.boundaries(),
                "features": n_features(changes) * target.cfg["hidden_size"]}
        margin = write_golden(folder, head, prompts, right)
        write_features(folder, right)
        print(f"{name}: least margin {margin:.1e}, hidden up to {all_hidden(right).abs().max():.1f}")
        if args.check:
            check(draft, prompts, right)
    for name, (golden_of, seed) in MTP.items():
        source, folder = os.path.join(args.data, golden_of), os.path.join(args.out, name)
        prompts, draft = prompts_of(source), make_mtp(source, folder, seed)
        right = run(draft, prompts)
        hidden = draft.target.t["hidden_size"]
        head = {"name": name, "target": golden_of, "hidden": hidden,
                "boundaries": [draft.target.t["num_hidden_layers"]], "features": hidden}
        margin = write_golden(folder, head, prompts, right)
        print(f"{name}: least margin {margin:.1e}, hidden up to {all_hidden(right).abs().max():.1f}")
        if args.check:
            check(draft, prompts, right)


if __name__ == "__main__":
    main()
