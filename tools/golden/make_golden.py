# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny checkpoints, the tiny GGUF files and their golden results. See README.md."""

import argparse
import os
import shutil
import tempfile

import numpy
import torch
from transformers.utils import logging

import checkpoints
import hybrid
import plain
import reference
import tiny_gguf

F32_TOLERANCE = 1e-4
F32_MARGIN = 5e-3


def f64_noise(folder, rows, prompts):
    """How far the F32 reference is from an independent implementation in F64."""
    model = (hybrid.Hybrid if os.path.basename(folder) in hybrid.TINY else plain.Plain)(folder)
    exact = [model.logprobs(p["tokens"] + p["greedy"][:-1]).numpy() for p in prompts]
    noise = reference.max_gap(exact, rows)
    assert noise < F32_TOLERANCE / 3, f"{folder}: the reference itself is {noise} off"
    return noise


def rounded(folder, rows, prompts):
    """How close rows are with FP8 weights on units that take BF16 rows only: nine in ten, three times. The others may
    have gone to another expert."""
    model = plain.Plain(folder, rounds=True)
    gaps = [abs(model.logprobs(p["tokens"] + p["greedy"][:-1]).numpy() - want).max(axis=-1)
            for p, want in zip(prompts, rows)]
    return {"close_row": 3 * float(numpy.quantile(numpy.concatenate(gaps), 0.9)), "close_rows_share": 0.9}


def tolerances(native, rows, prompts):
    """The reference's own loss in the checkpoint's dtype sets what an engine may lose."""
    if native is None:
        return {"gap": 0.0, "tolerance": F32_TOLERANCE}
    rows_native = reference.all_rows(native, prompts)
    gap, rms = reference.max_gap(rows_native, rows), reference.rms_gap(rows_native, rows)
    return {"gap": gap, "gap_rms": rms, "tolerance": 3 * gap, "tolerance_rms": 3 * rms}


def make_checkpoint(out, name):
    family = hybrid if name in hybrid.TINY else checkpoints
    seed, shards, whole = family.TINY[name]
    folder = os.path.join(out, name)
    if family is hybrid:
        tensors = hybrid.make_tensors(whole, seed)
    else:
        tensors = checkpoints.make_tensors(whole, seed, name in checkpoints.FUSED)
    checkpoints.write_checkpoint(folder, whole, tensors, shards)
    cfg = hybrid.text_of(whole)
    dtype = checkpoints.DTYPES[cfg.get("torch_dtype") or cfg["dtype"]]
    fp8 = "quantization_config" in cfg
    if fp8:
        with tempfile.TemporaryDirectory() as plain_folder:
            checkpoints.write_dequantised(plain_folder, cfg, tensors)
            model = reference.load(plain_folder)
    else:
        model = reference.load(folder)
    native = None if dtype == torch.float32 else reference.load(folder, dtype)
    vocab = cfg["vocab_size"]

    wanted = F32_MARGIN
    if native is not None:
        # Wanted: a margin that no engine within tolerance can overturn (twice three times the gap).
        trial = reference.find_prompts([model], seed + 1000, vocab, F32_MARGIN)
        wanted = 6.5 * reference.max_gap(reference.all_rows(native, trial),
                                         reference.all_rows(model, trial))
    prompts = reference.find_prompts([model], seed + 100, vocab, wanted)
    rows = reference.all_rows(model, prompts)
    golden = {
        "name": name, "arch": cfg["model_type"], "dtype": str(dtype).split(".")[1],
        "vocab": vocab, "layers": cfg["num_hidden_layers"], "hidden": cfg["hidden_size"],
        "experts": checkpoints.n_expert(cfg), **tolerances(native, rows, prompts),
        "min_margin": reference.greedy_margin(rows, prompts),
        "reference_noise": f64_noise(folder, rows, prompts), "prompts": prompts,
    }
    if fp8:
        golden.update(rounded(folder, rows, prompts))
    seven = next(p["tokens"] for p in prompts if len(p["tokens"]) == 7)
    reference.write_bin(folder, "golden.bin", rows)
    reference.write_bin(folder, "hidden.bin", [reference.residuals(model, seven)])
    reference.write_json(folder, golden)
    report(golden)


def report(g):
    print(f"{g['name']:20} gap {g['gap']:.2e}  tolerance {g['tolerance']:.2e}  "
          f"margin {g['min_margin']:.2e}  noise {g.get('reference_noise', 0):.1e}  distinct "
          f"{[len(set(p['greedy'])) for p in g['prompts']]}"
          + (f"  tolerance_q8 {g['tolerance_q8']:.2e}" if "tolerance_q8" in g else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder to fill, one folder per model")
    parser.add_argument("--only", nargs="*", help="make these models only")
    args = parser.parse_args()
    # One thread: the order of every float sum is then fixed, so the files come out the same.
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    makers = {name: make_checkpoint for name in (*checkpoints.TINY, *hybrid.TINY)}
    makers.update({name: lambda out, n: report(tiny_gguf.make(out, n)) for name in tiny_gguf.TINY})
    for name in args.only or makers:
        shutil.rmtree(os.path.join(args.out, name), ignore_errors=True)
        makers[name](args.out, name)


if __name__ == "__main__":
    main()
