#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_kv_archive: files of pages as src/kv/archive.h has them, and what they could be instead.
An S in front has the target make length and sum of the head."""
import hashlib
import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus" / "kv_archive"
MAGIC, SPACE, PAGE_LEN, PAGE, STATE = b"WHIMKVX1", 288, 2, 8, 4


def part(name=b"numerics 3, weights 0, cpu avx2, kv BF16", page_len=PAGE_LEN, page=PAGE, state=STATE, n=(2, 1)):
    return struct.pack("<iiqqqq", page_len, 0, page, state, *n) + name.ljust(SPACE, b"\0")


def record(number, item):
    body = bytes([number]) * 32 + struct.pack(f"<{PAGE_LEN}i", *range(PAGE_LEN)) + item
    return body + hashlib.sha256(struct.pack("<q", number) + body).digest()


def archive(parts, records=b"", version=1, magic=MAGIC, n_part=None, bytes_=None):
    n_part = len(parts) if n_part is None else n_part
    rest = b"".join(parts)
    size = 24 + len(rest) + 32 + len(records) if bytes_ is None else bytes_
    head = magic + struct.pack("<IIq", version, n_part, size) + rest
    return head + hashlib.sha256(head).digest() + records


RECORDS = record(0, b"p" * PAGE) + record(1, b"q" * PAGE) + record(2, b"s" * STATE)
GOOD = archive([part()], RECORDS)
TWO = archive([part(b"x, rank 0 of 2", n=(1, 0)), part(b"x, rank 1 of 2", n=(0, 0), state=0)], record(0, b"p" * PAGE))
SEEDS = {
    "good": GOOD,
    "two_parts": TWO,
    "empty": archive([part(n=(0, 0))]),
    "damaged_record": GOOD[:-40] + b"\xff" + GOOD[-39:],
    "damaged_head": GOOD[:40] + b"\xff" + GOOD[41:],
    "cut": GOOD[:-1],
    "version": archive([part()], RECORDS, version=2),
    "magic": archive([part()], RECORDS, magic=b"WHIMKVX0"),
    "no_parts": archive([]),
    "many_parts": archive([], n_part=65),
    "no_name_end": archive([part(b"n" * SPACE)], RECORDS),
    "odd_sizes": archive([part(page_len=0)], RECORDS),
    "large_items": archive([part(page=1 << 32, n=(1, 0))]),
    "many_items": archive([part(page=1 << 32, n=(1 << 31, 1 << 31))]),
    "negative": archive([part(page=-8, n=(-2, 1))]),
    "states_of_nothing": archive([part(state=0, n=(0, 7))]),
    "sealed": b"S" + GOOD,
    "sealed_two": b"S" + TWO,
    "text": b"{\"prompts\": []}",
    "nothing": b"",
}
OUT.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (OUT / name).write_bytes(data)
