# SPDX-License-Identifier: Apache-2.0
"""Shows that the goldens notice the mistakes an engine can make.

For every tiny checkpoint and every mistake of plain.py: the largest change of any log-probability,
as a multiple of the golden's tolerance. Fails when the plain model does not match the golden, when
an F32 golden would let a mistake pass, or when a mistake could not be tried on any F32 golden.
"""

import argparse
import json
import os
import sys

import numpy as np
import torch

import plain

ENOUGH = 10.0   # a mistake must move something by this many tolerances
# Theta matters little where scaling has flattened the low frequencies, epsilon where it is small:
# these need only be noticed by one F32 golden.
SOMEWHERE = ("norm: epsilon ignored", "norm: epsilon outside the root", "rope: theta 10% off",
             "qk norm: epsilon ignored")
# Only BF16 models are tied, or leave the experts' weights as they are; with F32 activations the tests hold them
# to the tolerance of F32.
NOWHERE = ("head: tied one replaced (rows shifted)", "moe: weights renormalised")


def read_golden(folder):
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
        golden = json.load(f)
    rows = np.fromfile(os.path.join(folder, "golden.bin"), dtype="<f4")
    return golden, rows.reshape(-1, golden["vocab"])


def change(model, golden, rows, wrong):
    worst, at = 0.0, 0
    for p in golden["prompts"]:
        tokens = p["tokens"] + p["greedy"][:-1]
        got = model.logprobs(tokens, wrong).numpy()
        diff = np.abs(got - rows[at:at + len(tokens)]).max()
        worst = max(worst, float("inf") if np.isnan(diff) else float(diff))
        at += len(tokens)
    assert at == len(rows), "golden.bin has another number of rows than golden.json implies"
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the folder that make_golden.py filled")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = sorted(n for n in os.listdir(args.data)
                   if os.path.exists(os.path.join(args.data, n, "config.json")))
    table, exact, failures = {}, set(), []
    for name in names:
        folder = os.path.join(args.data, name)
        golden, rows = read_golden(folder)
        model = plain.Plain(folder)
        right = change(model, golden, rows, None)
        if right > golden["tolerance"]:
            failures.append(f"{name}: the plain model is {right:.1e} off")
        if golden["gap"] == 0:
            exact.add(name)
        for wrong, needs in plain.MISTAKES.items():
            if model.has(needs):
                table[wrong, name] = change(model, golden, rows, wrong) / golden["tolerance"]
    print("largest change / tolerance\n" + " " * 42 + " ".join(f"{n:>12}" for n in names))
    for wrong in plain.MISTAKES:
        cells = [table.get((wrong, n)) for n in names]
        print(f"{wrong:42}" + " ".join(f"{'-' if c is None else f'{c:.3g}':>12}" for c in cells))
        found = {n: table[wrong, n] for n in exact if (wrong, n) in table}
        if wrong in SOMEWHERE:
            found = {n: v for n, v in found.items() if v == max(found.values())}
        if not found and wrong not in NOWHERE:
            failures.append(f"{wrong}: tried on no F32 golden")
        failures += [f"{n}: would let pass: {wrong}" for n, v in found.items() if v < ENOUGH]
    print("\n".join(failures) or "every mistake is noticed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
