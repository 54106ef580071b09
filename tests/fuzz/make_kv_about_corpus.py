#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_kv_about: what the file in a folder of pages says, and what it could say instead."""
import pathlib

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus" / "kv_about"
NAME = "numerics 3, weights 0123456789abcdef, cpu avx2, kv BF16"


def about(page_len=32, page=4096, state=0, name=NAME, end="\n"):
    return f"a model\n{name}\npages of {page_len} tokens, {page} bytes, states of {state}{end}".encode()


SEEDS = {
    "good": about(),
    "states": about(512, 1 << 32, 1 << 32),
    "long_pages": about(100000),
    "no_tokens": about(0),
    "negative": about(32, -184),
    "negative_states": about(32, 4096, -1),
    "large": about(32, (1 << 32) + 1),
    "too_many_digits": about("9" * 40, "9" * 40, "9" * 40),
    "zeros": about("0032"),
    "more": about(end=" or more\n"),
    "control": about(name="\033[2J"),
    "no_end": about(end=""),
    "one_line": b"pages of 32 tokens, 4096 bytes, states of 0\n",
    "nul": about()[:20] + b"\0" + about()[20:],
    "nothing": b"",
}
OUT.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (OUT / name).write_bytes(data)
