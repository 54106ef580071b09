#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_bridge: the node that hears, then heads as of comm/link.h."""
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus" / "bridge"
HELLO, ROUND, LETTER, READ, END, BYE, WORK = range(7)


def head(kind, node, rank=0, count=0, size=0, at=0, back=0, part=0, n_part=1, generation=0):
    call = struct.pack("<iiq32s", 0, 0, 4096, b"mlp")
    return struct.pack("<QiiQiiiiii", generation, kind, node, count, rank, size, at, back, part, n_part) + call


SEEDS = {
    "hello": (0, head(HELLO, 1), head(HELLO, 2), head(BYE, 1), head(END, 2, size=40)),
    "rounds": (0, *(head(ROUND, 1, 1, n, 4096) for n in range(1, 6))),
    "parts": (0, head(ROUND, 2, 3, 1, 65536, 65536), head(ROUND, 2, 3, 2, 1024, 64, 1, 1, 2),
              head(ROUND, 2, 3, 2, 65536, 65536, 0, 0, 2)),
    "early": (1, head(ROUND, 0, 0, 2, 16), head(ROUND, 0, 0, 1, 16), head(ROUND, 0, 0, 3, 16)),
    "letters": (1, head(LETTER, 0, 0, 2, 5000), head(LETTER, 0, 0, 1, 4 << 20), head(LETTER, 0, 0, 3)),
    "read": (0, head(READ, 1, 2, 1), head(READ, 1, 2, 3), head(READ, 2, 3, 2), head(READ, 2, 3, 4)),
    "work": (0, head(WORK, 1, 2, 7), head(WORK, 1, 2, 5), head(WORK, 2, 1, 7)),
    "stale": (2, head(ROUND, 0, 0, 1, 16, generation=1), head(ROUND, 0, 0, 1, 16)),
    "outside": (0, head(ROUND, 1, 1, 1, 262144, 1)),
    "negative": (0, head(ROUND, 1, 1, 1, -1, -1)),
    "cut": (0, head(ROUND, 1, 1, 1, 16)[:50]),
}

FOLDER.mkdir(parents=True, exist_ok=True)
for name, (node, *heads) in SEEDS.items():
    (FOLDER / name).write_bytes(bytes([node]) + b"".join(heads))
