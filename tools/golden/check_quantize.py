# SPDX-License-Identifier: Apache-2.0
"""Do others read what `whimbrel quantize` writes, and see the same model in it? By hand, with PyTorch, transformers,
compressed-tensors and accelerate: check_quantize.py WHIMBREL. Tiny models (dense, experts one by one, experts in one
tensor beside gated delta nets) are quantised to each kind; transformers opens the result with its own readers and
computes in F32; its log-probabilities are compared with whimbrel's on the same folder."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM, CompressedTensorsConfig, FineGrainedFP8Config

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/support"))
import tiny_folders

KINDS = ("q8", "q4", "fp8")
ISA = {"aarch64": "dotprod", "x86_64": "avx2"}[platform.machine()]  # products with BF16 weights stay in F32 there
# FP8 products are in F32 as the reference's are; int8 activations move log-probabilities (tools/golden/README.md).
MEAN_BOUND = {"q8": 0.05, "q4": 0.05, "fp8": 2e-4}


def whimbrel_logprobs(program, folder, ids):
    """[len(ids) - 1, vocab], of what comes after each id but the last."""
    said = json.loads(subprocess.run(
        [program, "run", folder, "-q", "--json", "--isa", ISA, "--kv-dtype", "f32", "-n", "1", "--prompt-logprobs",
         "100", "--ids", " ".join(map(str, ids))], check=True, capture_output=True, text=True).stdout)
    rows = np.full((len(ids) - 1, tiny_folders.VOCAB), np.nan)
    for row, entry in zip(rows, [e for e in said["prompt_logprobs"] if e is not None]):
        for token, logprob in entry["top"]:
            row[token] = logprob
    assert not np.isnan(rows).any()
    return rows


@torch.no_grad()
def reference_logprobs(folder, kind, ids):
    how = FineGrainedFP8Config(dequantize=True) if kind == "fp8" else CompressedTensorsConfig(dequantize=True)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=how, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager", output_loading_info=True)
    assert not any(v for k, v in info.items() if k != "unexpected_keys"), info
    assert all(".visual." in k for k in info["unexpected_keys"]), info
    logits = model.float().eval()(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    return torch.log_softmax(logits.double(), -1).numpy()


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("whimbrel")
    args = args.parse_args()
    ids = np.random.default_rng(7).integers(0, tiny_folders.VOCAB, 100).tolist()
    good = True
    with tempfile.TemporaryDirectory() as tmp:
        for make in (tiny_folders.dense, tiny_folders.moe, tiny_folders.hybrid):
            source = os.path.join(tmp, make.__name__)
            make(source)
            plain = whimbrel_logprobs(args.whimbrel, source, ids)
            for kind in KINDS:
                out = f"{source}-{kind}"
                subprocess.run([args.whimbrel, "quantize", source, out, "--to", kind, "-q", "--no-report"], check=True,
                               capture_output=True)
                ours, theirs = whimbrel_logprobs(args.whimbrel, out, ids), reference_logprobs(out, kind, ids)
                off, moved = np.abs(ours - theirs), np.abs(plain - theirs)
                fine = off.mean() <= MEAN_BOUND[kind]
                good &= bool(fine)
                print(f"{make.__name__:7} {kind:4} |ours - theirs|: mean {off.mean():.6f}, largest {off.max():.6f}; "
                      f"quantising moved them by {moved.mean():.6f}, {moved.max():.6f}{'' if fine else '  TOO FAR'}",
                      flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
