# SPDX-License-Identifier: Apache-2.0
"""Golden results of the default model, from transformers reading the same GGUF file.

transformers dequantises all weights to F32 (golden.json). exact.py takes the engine's own steps,
int8 inputs included, along its own greedy ids, with a cache of F32 and of BF16 (golden.json in
kv-f32/ and kv-bf16/).
"""

import argparse
import hashlib
import json
import math
import os

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import exact
import reference

STEPS = 32
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
PROMPTS = [
    "The capital of France is",
    "Once upon a time, a small bird",
    "Water boils when",
    "The three primary colours are red,",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "#include <stdio.h>\n\nint main(void)\n{\n    for (int i = 0; i < 10; i++) {\n",
    "In 1969, 3 astronauts flew to the Moon. Their names were",
    "Q: What is 12 + 30?\nA:",
    CHAT.format("Name three birds that live near the sea."),
    CHAT.format("Explain in one sentence why the sky is blue."),
]
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "waders.txt")


def tokenizer_of(path):
    """Byte-level BPE from the file's own vocabulary and merges, digits split one by one."""
    fields = GGUFReader(path).fields
    tokens, merges = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "merges"))
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)},
                               merges=[tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(list(SPECIAL))
    return tok


def load(path):
    return AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32,
        attn_implementation="eager").eval()


def top_two(rows):
    """Per row [id, logp, id, logp] of the two likeliest tokens."""
    order = np.argsort(-rows, axis=1)[:, :2]
    return [[int(a), round(float(r[a]), 7), int(b), round(float(r[b]), 7)]
            for r, (a, b) in zip(rows, order)]


def perplexity(rows, tokens):
    """exp of the mean negative log-likelihood of tokens 1.. given those before them."""
    nll = [-float(rows[i - 1][tokens[i]]) for i in range(1, len(tokens))]
    return math.exp(math.fsum(nll) / len(nll))


def plain_prompt(model, tok, text):
    tokens = tok.encode(text).ids
    greedy = reference.greedy_batch(model, [tokens], STEPS)[0][0].tolist()
    rows = reference.logprobs(model, tokens + greedy[:-1])[len(tokens) - 1:]
    assert rows.argmax(axis=1).tolist() == greedy
    print(f"{text!r} -> {tok.decode(greedy)!r}", flush=True)
    return {"text": text, "tokens": tokens, "greedy": greedy, "top2": top_two(rows)}


def check_same_model(model, prompts):
    """Without int8 inputs exact.py must agree with transformers."""
    worst = 0.0
    model.narrow = False
    for p in prompts:
        rows = model.logprobs(p["tokens"] + p["greedy"][:-1])[len(p["tokens"]) - 1:]
        worst = max([worst] + [abs(rows[i][t] - lp) for i, two in enumerate(p["top2"])
                               for t, lp in (two[:2], two[2:])])
    model.narrow = True
    print(f"exact.py in plain arithmetic: largest difference {worst:.2g}", flush=True)
    assert worst < 1e-3


def exact_golden(model, kv_type, prompts, text):
    """The engine's own arithmetic with a cache of that type."""
    model.kv_type = kv_type
    out, differ = [], []
    for p in prompts:
        greedy, rows = model.greedy(p["tokens"], STEPS)
        out.append({"tokens": p["tokens"], "greedy": greedy, "top2": top_two(rows)})
        same = [a == b for a, b in zip(greedy, p["greedy"])] + [False]
        if same.index(False) < STEPS:
            two = p["top2"][same.index(False)]
            differ.append(round(two[1] - two[3], 3))
    margin = min(two[1] - two[3] for p in out for two in p["top2"])
    ppl = perplexity(model.logprobs(text), text)
    print(f"{kv_type}: perplexity {ppl:.4f}, smallest margin {margin:.2g}; leaves the plain ids at "
          f"margins {differ}", flush=True)
    return {"kv_type": kv_type, "perplexity": ppl, "min_margin": margin, "prompts": out}


def write(folder, golden):
    os.makedirs(folder, exist_ok=True)
    reference.write_json(folder, golden)


def remake_text(args, text):
    """The text's ids and perplexities anew; the prompts stay as they are."""
    def change(folder, values):
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
            write(folder, {**json.load(f), **values})

    plain = perplexity(reference.logprobs(load(args.model), text), text)
    print(f"{len(text)} tokens, plain perplexity {plain:.5f}", flush=True)
    change(args.out, {"text": text, "perplexity": plain})
    model = exact.Model(args.model)
    for model.kv_type in ("f32", "bf16"):
        value = perplexity(model.logprobs(text), text)
        print(f"{model.kv_type}: perplexity {value:.5f}, {value / plain - 1:+.2%}", flush=True)
        change(os.path.join(args.out, "kv-" + model.kv_type), {"perplexity": value})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--text-only", action="store_true",
                        help="only the perplexities, after a change of waders.txt")
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tok = tokenizer_of(args.model)
    with open(TEXT, encoding="utf-8") as f:
        text = tok.encode(f.read()).ids
    if args.text_only:
        remake_text(args, text)
        return
    model = load(args.model)
    with open(args.model, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    prompts = [plain_prompt(model, tok, p) for p in PROMPTS]
    head = {"model": os.path.basename(args.model), "sha256": digest, "steps": STEPS}
    plain = {**head, "text": text, "perplexity": perplexity(reference.logprobs(model, text), text),
             "prompts": prompts}
    print({k: plain[k] for k in ("sha256", "perplexity")}, len(text), flush=True)
    write(args.out, plain)
    model = exact.Model(args.model)
    check_same_model(model, prompts)
    for kv_type in ("f32", "bf16"):
        write(os.path.join(args.out, "kv-" + kv_type),
              {**head, **exact_golden(model, kv_type, prompts, text)})


if __name__ == "__main__":
    main()
