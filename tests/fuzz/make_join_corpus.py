#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_join: frames behind an f, and messages of joining as src/ranks/join.h has them."""
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "data" / "corpus" / "join"
WIRE, JOIN = 0x65726977, 0x6e696f6a
VERSION = (HERE.parents[1] / "VERSION").read_text().strip().encode()


def frame(kind, channel, data, magic=WIRE, bytes_=None):
    return struct.pack("<IIQii", magic, len(data) if bytes_ is None else bytes_, 7, kind, channel) + data


def facts(word):
    rows = re.findall(r"^WHIM_JOIN_(NUMBER|TEXT_OF)\((\w+),", (HERE.parents[1] / "src/ranks/join.def").read_text(), re.M)
    return b"".join(struct.pack("<q", 2) if kind == "NUMBER" else word.ljust(32, b"\0") for kind, _ in rows)


def hello(word=b"avx2", node=1, version=VERSION):
    body = version.ljust(32, b"\0") + struct.pack("<6q", node, 1 << 30, 4, 0, 256, 64) + facts(word) + bytes(range(32)) + bytes(32)
    return struct.pack("<II", JOIN, len(body) + 8) + body


def challenge(version=VERSION):
    return struct.pack("<II", JOIN, 72) + version.ljust(32, b"\0") + bytes(32)


def answer(err, text):
    body = struct.pack("<q", err) + text.ljust(1024, b"\0") + struct.pack("<q", 700_000_000) + bytes(32)
    return struct.pack("<II", JOIN, len(body) + 8) + body


SEEDS = {
    "frames": b"f" + frame(0, 0, b"") + frame(1, 0, b"") + frame(2, 3, b"reply") + frame(3, -1, b"ended") + frame(4, 0, b""),
    "cut": b"f" + frame(2, 3, b"reply")[:-2],
    "long": b"f" + frame(2, 3, b"", bytes_=16385),
    "magic": b"f" + frame(2, 3, b"x", magic=1),
    "kind": b"f" + frame(5, 3, b"x"),
    "channel": b"f" + frame(2, 1024, b"x"),
    "empty": b"f" + frame(2, 1, b""),
    "good": hello() + challenge() + answer(0, b""),
    "refused": hello() + challenge() + answer(9, b"node 1 has joined already"),
    "version": hello(version=b"9" * 32) + challenge(b"\x1b" * 32) + answer(1, b"x" * 1024),
    "texts": hello(b"y" * 32, node=-1) + challenge() + answer(1 << 40, b"\xff" * 1024),
    "http": b"GET / HTTP/1.1\r\n\r\n",
}
OUT.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (OUT / name).write_bytes(data)
