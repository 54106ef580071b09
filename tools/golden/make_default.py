# SPDX-License-Identifier: Apache-2.0
"""Golden results of the default model, from transformers reading the same GGUF file.

transformers dequantises all weights to F32. A second run imitates the engine's default arithmetic
(int8 inputs in blocks of 32, K, V, queries and probabilities in BF16) to learn how far that may
move a log-probability and the perplexity.
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
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.utils import logging

import blocks
import reference
import tiny_gguf

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


def bf16_attention(module, query, key, value, attention_mask, scaling, **_):
    """Attention as with a BF16 cache: K, V, scaled queries and probabilities rounded to BF16."""
    def narrow(x):
        return x.to(torch.bfloat16).float()

    group = query.shape[1] // key.shape[1]
    key = narrow(key).repeat_interleave(group, dim=1)
    value = narrow(value).repeat_interleave(group, dim=1)
    scores = narrow(query * scaling) @ key.transpose(2, 3)
    n, m = scores.shape[-2:]
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
    scores = scores.masked_fill(hidden, -math.inf)
    p = torch.exp(scores - scores.amax(-1, keepdim=True))
    out = narrow(p) @ value / p.sum(-1, keepdim=True)
    return out.transpose(1, 2), None


def quantised_linears(path):
    """Names, as transformers has them, of the linears with block-quantised weights."""
    out = ["lm_head"]       # tied to the Q8_0 embedding
    for t in GGUFReader(path).tensors:
        part = t.name.split(".")
        if part[0] == "blk" and part[2] in tiny_gguf.LINEARS:
            assert blocks.is_block_quantised(t.tensor_type)
            out.append(f"model.layers.{part[1]}.{tiny_gguf.LINEARS[part[2]]}")
    return out


def load(path, attention):
    return AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32,
        attn_implementation=attention).eval()


def top_two(rows):
    """Per row [id, logp, id, logp] of the two likeliest tokens."""
    order = np.argsort(-rows, axis=1)[:, :2]
    return [[int(a), round(float(r[a]), 5), int(b), round(float(r[b]), 5)]
            for r, (a, b) in zip(rows, order)]


def perplexity(rows, tokens):
    """exp of the mean negative log-likelihood of tokens 1.. given those before them."""
    nll = [-float(rows[i - 1][tokens[i]]) for i in range(1, len(tokens))]
    return math.exp(math.fsum(nll) / len(nll))


def golden_prompt(model, narrow, tok, text):
    tokens = tok.encode(text).ids
    greedy = reference.greedy_batch(model, [tokens], STEPS)[0][0].tolist()
    rows = reference.logprobs(model, tokens + greedy[:-1])[len(tokens) - 1:]
    assert rows.argmax(axis=1).tolist() == greedy
    rows_q8 = reference.logprobs(narrow, tokens + greedy[:-1])[len(tokens) - 1:]
    two = top_two(rows)
    gap = max(abs(float(rows_q8[i][t]) - lp) for i, r in enumerate(two)
              for t, lp in (r[:2], r[2:]))
    agree = int((rows_q8.argmax(axis=1) == rows.argmax(axis=1)).sum())
    print(f"{text!r} -> {tok.decode(greedy)!r}\n  gap {gap:.3f}, {agree}/{STEPS} steps agree")
    return {"text": text, "tokens": tokens, "greedy": greedy, "top2": two, "gap": round(gap, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", required=True, help="the folder to write golden.json to")
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tok = tokenizer_of(args.model)
    AttentionInterface.register("golden_bf16", bf16_attention)
    model, narrow = load(args.model, "eager"), load(args.model, "golden_bf16")
    with open(args.model, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    with open(TEXT, encoding="utf-8") as f:
        text = tok.encode(f.read()).ids
    with tiny_gguf.Int8Inputs(narrow, quantised_linears(args.model)):
        prompts = [golden_prompt(model, narrow, tok, p) for p in PROMPTS]
        rows, rows_q8 = reference.logprobs(model, text), reference.logprobs(narrow, text)
    golden = {
        "model": os.path.basename(args.model), "sha256": digest, "steps": STEPS,
        "gap": max(p["gap"] for p in prompts),
        "text": text, "perplexity": perplexity(rows, text),
        "perplexity_q8": perplexity(rows_q8, text), "prompts": prompts,
    }
    print({k: golden[k] for k in ("sha256", "gap", "perplexity", "perplexity_q8")}, len(text))
    os.makedirs(args.out, exist_ok=True)
    reference.write_json(args.out, golden)


if __name__ == "__main__":
    main()
