# SPDX-License-Identifier: Apache-2.0
"""The reference: transformers, in F32 with eager attention, and what is measured with it.

Also holds the search for prompts whose greedy continuation is clear-cut, and the golden files'
format: golden.json describes, golden.bin holds rows of log-probabilities, hidden.bin the residual
stream at every layer boundary. All binaries are little-endian float32 without a header.
"""

import json
import os

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

PROMPT_LENGTHS = (1, 7, 64, 65, 200)
GREEDY = 24
BATCH = 32      # candidate prompts tried at once
BATCHES = 12    # how often, before the best one so far is taken


def load(folder, dtype=torch.float32):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager",
        output_loading_info=True)
    bad = {k: v for k, v in info.items() if v and k != "error_msgs"}
    assert not bad, f"{folder}: {bad}"
    return model.eval()


@torch.no_grad()
def logprobs(model, tokens):
    """Log-softmax rows of every position, [len(tokens), vocab], float32."""
    logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
    return torch.log_softmax(logits.float(), dim=-1).numpy()


@torch.no_grad()
def greedy_batch(model, prompts, steps):
    """Greedy ids [n, steps] and each prompt's smallest top-2 margin [n]."""
    cache = DynamicCache(config=model.config)
    ids = torch.tensor(prompts)
    picked, margin = [], torch.full((len(prompts),), float("inf"))
    for _ in range(steps):
        logits = model(ids, past_key_values=cache, use_cache=True).logits[:, -1].float()
        top = torch.topk(logits, 2, dim=-1)
        margin = torch.minimum(margin, top.values[:, 0] - top.values[:, 1])
        ids = top.indices[:, :1]
        picked.append(ids)
    return torch.cat(picked, dim=1).numpy(), margin.numpy()


def find_prompt(models, rng, length, vocab, wanted):
    """A random prompt on whose greedy continuation all models agree, with margins above `wanted`.

    Takes the first that qualifies and whose continuation is not a mere loop over few tokens; when
    none does, the one with the largest margin.
    """
    best = None
    for _ in range(BATCHES):
        prompts = rng.integers(0, vocab, (BATCH, length)).tolist()
        ids, margin = greedy_batch(models[0], prompts, GREEDY)
        for other in models[1:]:
            ids2, margin2 = greedy_batch(other, prompts, GREEDY)
            margin = np.where((ids == ids2).all(axis=1), np.minimum(margin, margin2), -1.0)
        for row in range(BATCH):
            lively = len(set(ids[row].tolist())) >= 6
            score = (lively and margin[row] > 0, float(margin[row]))
            if best is None or score > best[0]:
                best = (score, prompts[row], ids[row].tolist())
            if lively and margin[row] > wanted:
                return prompts[row], ids[row].tolist()
    return best[1], best[2]


def find_prompts(models, seed, vocab, wanted):
    rng = np.random.default_rng(seed)
    found = []
    for length in PROMPT_LENGTHS:
        tokens, greedy = find_prompt(models, rng, length, vocab, wanted)
        found.append({"tokens": tokens, "greedy": greedy})
    return found


def all_rows(model, prompts):
    """Teacher-forced rows of prompt and continuation without its last token, prompts in order."""
    return [logprobs(model, p["tokens"] + p["greedy"][:-1]) for p in prompts]


def greedy_margin(rows, prompts):
    """Smallest top-2 margin over all greedy steps; asserts that the argmax is the greedy id."""
    least = float("inf")
    for row, p in zip(rows, prompts):
        steps = row[len(p["tokens"]) - 1:]
        assert steps.argmax(axis=1).tolist() == p["greedy"], "greedy ids are not the argmax"
        top = np.sort(steps, axis=1)[:, -2:]
        least = min(least, float((top[:, 1] - top[:, 0]).min()))
    return least


def max_gap(rows_a, rows_b):
    return max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in zip(rows_a, rows_b))


def rms_gap(rows_a, rows_b):
    diff = np.concatenate(rows_a).astype(np.float64) - np.concatenate(rows_b)
    return float(np.sqrt((diff * diff).mean()))


@torch.no_grad()
def residuals(model, tokens):
    """Residual stream at every boundary [layers + 1, tokens, hidden]; the last is un-normed.

    transformers' own output_hidden_states gives the last one after the final norm, hence hooks.
    """
    seen, hooks = [], []
    layers = model.model.layers
    for layer in layers:
        hooks.append(layer.register_forward_pre_hook(lambda m, args: seen.append(args[0][0])))
    hooks.append(layers[-1].register_forward_hook(
        lambda m, args, out: seen.append((out[0] if isinstance(out, tuple) else out)[0])))
    model(torch.tensor([tokens]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return torch.stack(seen).float().numpy()


def write_bin(folder, name, rows):
    with open(os.path.join(folder, name), "wb") as f:
        for row in rows:
            f.write(np.ascontiguousarray(row, dtype="<f4").tobytes())


def write_json(folder, golden):
    """One prompt per line: diffs stay readable and the file small."""
    head = {k: v for k, v in golden.items() if k != "prompts"}
    lines = [f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()]
    prompts = ",\n".join("  " + json.dumps(p, separators=(",", ":")) for p in golden["prompts"])
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as f:
        f.write("{\n" + "".join(lines) + ' "prompts": [\n' + prompts + "\n ]\n}\n")
