#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what the `tokenizers` library makes of many strings to tests/data/text/.

    make_tokenizer_golden.py --qwen3 TOKENIZER_JSON --default MODEL_GGUF [--out tests/data/text]

qwen3.golden.xz and default.golden.xz hold at least 5,000 strings each, qwen3.json.xz the Qwen3
tokenizer itself, tiny/NAME.json small tokenizers that between them use every option, with
tiny/NAME.golden.gz beside them. A golden file is, little endian, "WTG1", u32 count, then for each string:
u8 flags (1: special tokens added, 2: decoding gives the text), u32 bytes, text, u32 ids, i32 each, and
unless flag 2: u32 bytes, decoded text.
"""
import argparse
import gzip
import json
import lzma
import pathlib
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tiny_tokenizers import TINY, tiny_texts  # noqa: E402

WORDS = """the tide table of Oslo says that waders come back in March; we're, I'll, they've, don't, it's,
HE'D, 'twas O'Neil's naïve café résumé façade Straße Øresund Łódź žluťoučký kůň
Москва река куликов Ελλάδα θάλασσα שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก ជំរាបសួរ
こんにちは世界 カタカナ 漢字かな交じり文 你好，世界！ 안녕하세요 세계 გამარჯობა Բարեւ ሰላም ᓄᓇᕗᑦ བོད་ཡིག မြန်မာ
ﬁne ﬂow Ⅷ ½ ² ³ ① ㎏ ℃ Å Ω ſ ẞ İstanbul ıI ǆ ŉ""".split()
CODE = ["for (int i = 0; i < n; i++) {\n    sum += a[i]*b[i];\n}\n", "def f(x):\n\treturn x**2  # square\n",
        "SELECT * FROM waders WHERE n >= 10;", "<div class=\"x\">&nbsp;</div>\r\n", "a&&b||!c ?: ->*::",
        "x = {'k': [1, 2.5e-3, None]}\n\n\n", "https://example.org/a/b?c=d&e=%20#f", "\\begin{x}\\frac{1}{2}\\end{x}",
        "0x1F3A 1_000_000 3.14159 1e-10 12345678901234567890 007", "#!/bin/sh\nset -eu\n: \"${X:=1}\"\n"]
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇳🇴🇯🇵", "❤️", "☎︎", "🧑🏿‍🚀", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", " \n ", "\u00a0", "\u1680", "\u180e", "\u2003", "\u2028",
          "\u2029", "\u202f", "\u205f", "\u3000", "\u0085", "\u200b", "\ufeff", "\x0b", "\x0c", "\x1c", "\x1f"]
MARKS = ["e\u0301", "a\u0323\u0302", "a\u0302\u0323", "\u1112\u1161\u11ab", "\uac00\u11a8", "o\u0308\u0304", "\u0958", "\u212b",
         "\u0344", "\u0f73", "q\u0307\u0323", "\u09c7\u09be", "\u1100\u1161", "\u0301", "\u0301\u0316\u0301", "\ufb1d", "\u2126",
         "\u30ab\u3099", "\uff76\uff9e", "\u1e9b\u0323"]
# Letters that the regular expression engines and the Unicode tables know alike (Unicode 13 or older).
OLD_UNICODE = unicodedata.ucd_3_2_0


def char_of(rng):
    """Any character that Unicode 3.2 has assigned, so that every engine agrees on what it is."""
    while True:
        plane = rng.random()
        cp = rng.randrange(0x80) if plane < .2 else rng.randrange(0x3000) if plane < .7 else \
            rng.randrange(0x10000) if plane < .95 else rng.randrange(0x10000, 0x2A6D7)
        if OLD_UNICODE.category(chr(cp)) not in ("Cn", "Cs", "Co"):
            return chr(cp)


def words(rng, n):
    return "".join(rng.choice(WORDS) + rng.choice([" ", " ", " ", "  ", "\n", ", ", ". ", ""]) for _ in range(n))


def numbers(rng):
    return rng.choice(["{}", "{}.{}", "-{}", "{},{}", "({})", "{}%", "${}", "v{}", "{}th"]).format(
        rng.randrange(10 ** rng.randrange(1, 18)), rng.randrange(1000))


def lossy(rng, n):
    return bytes(rng.randrange(256) for _ in range(n)).decode("utf-8", "replace")


def strings(rng, specials, count):
    yield ""
    for part in WORDS + CODE + EMOJI + SPACES + MARKS + specials:
        yield part
        yield "a" + part + "b"
        yield part + part
    for cp in range(0x180):
        yield chr(cp)
        yield "x" + chr(cp) + "y 1" + chr(cp)
    yield "a" * 3000
    yield "ab" * 1500
    yield "Donaudampfschifffahrtsgesellschaft" * 40
    yield "的" * 1000
    yield " " * 700 + "x"
    yield "!" * 1000
    makers = [
        lambda: words(rng, rng.randrange(1, 12)),
        lambda: "".join(char_of(rng) for _ in range(rng.randrange(1, 24))),
        lambda: lossy(rng, rng.randrange(1, 24)),
        lambda: "".join(rng.choice(SPACES) for _ in range(rng.randrange(1, 8))) + rng.choice(WORDS),
        lambda: rng.choice(WORDS) + "".join(rng.choice(SPACES) for _ in range(rng.randrange(1, 8))),
        lambda: rng.choice(CODE) + rng.choice(SPACES) + rng.choice(CODE),
        lambda: "".join(rng.choice(EMOJI + MARKS) + rng.choice(["", " ", "a"]) for _ in range(rng.randrange(1, 8))),
        lambda: " ".join(numbers(rng) for _ in range(rng.randrange(1, 5))),
        lambda: "".join(rng.choice(specials + WORDS + SPACES + ["<|", "|>", "<", ">"]) for _ in range(rng.randrange(1, 9))),
        lambda: "".join(rng.choice(WORDS + EMOJI + MARKS + SPACES + CODE) for _ in range(rng.randrange(1, 6))),
        lambda: "".join(rng.choice("'stremvdlSTREMVDL ſ\u2019") for _ in range(rng.randrange(1, 14))),
        lambda: "".join(chr(rng.randrange(32)) if rng.random() < .5 else rng.choice("ab 1.") for _ in range(rng.randrange(1, 12))),
    ]
    for i in range(count):
        yield makers[i % len(makers)]()


def decode(tok, ids, contents):
    """The library's decoding, with added tokens as the file spells them: it prints normalised ones."""
    if not contents:
        return tok.decode(ids, skip_special_tokens=False)
    out, run = "", []
    for i in [*ids, None]:
        if i is None or i in contents:
            out += tok.decode(run, skip_special_tokens=False) + contents.get(i, "")
            run = []
        else:
            run.append(i)
    return out


def record(tok, text, add_special=False, contents=None):
    ids = tok.encode(text, add_special_tokens=add_special).ids
    decoded = decode(tok, ids, contents)
    raw = text.encode()
    out = struct.pack("<BI", add_special | 2 * (decoded == text), len(raw)) + raw
    out += struct.pack(f"<I{len(ids)}i", len(ids), *ids)
    if decoded != text:
        out += struct.pack("<I", len(decoded.encode())) + decoded.encode()
    return out


def golden(records):
    return b"WTG1" + struct.pack("<I", len(records)) + b"".join(records)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    tight = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}
    packed = {".gz": lambda: gzip.compress(data, 9, mtime=0), ".xz": lambda: lzma.compress(data, filters=[tight])}
    path.write_bytes(packed.get(path.suffix, lambda: data)())
    print(f"{path}: {path.stat().st_size} bytes")


def default_tokenizer(path):
    """The library's tokenizer for the vocabulary of the default model (pre `smollm`)."""
    from gguf import GGUFReader
    fields = GGUFReader(path).fields

    def array(name):
        field = fields["tokenizer.ggml." + name]
        return [bytes(field.parts[i]).decode() for i in field.data]

    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    tokens = array("tokens")
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in array("merges")]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, types) if kind == 3]
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    return tok, control


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qwen3", type=pathlib.Path)
    parser.add_argument("--default", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/text"))
    args = parser.parse_args()
    print("tokenizers", tokenizers.__version__)
    if args.qwen3:
        source = json.loads(args.qwen3.read_text())
        plain = json.dumps(source, ensure_ascii=False, separators=(",", ":")).encode()
        args.out.mkdir(parents=True, exist_ok=True)
        write(args.out / "qwen3.json.xz", plain)
        tok = Tokenizer.from_str(plain.decode())
        specials = [t["content"] for t in source["added_tokens"]]
        records = [record(tok, s) for s in strings(random.Random(1), specials, 4600)]
        write(args.out / "qwen3.golden.xz", golden(records))
    if args.default:
        tok, specials = default_tokenizer(args.default)
        records = [record(tok, s) for s in strings(random.Random(2), specials, 4600)]
        write(args.out / "default.golden.xz", golden(records))
    for name, spec in TINY.items():
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))  # the repository counts its bytes
        tok = Tokenizer.from_str(text)
        write(args.out / "tiny" / f"{name}.json", text.encode() + b"\n")
        late = {t["id"]: t["content"] for t in spec["added_tokens"]} if spec["normalizer"] and any(
            t["normalized"] for t in spec["added_tokens"]) else None
        records = [record(tok, s, add, late) for s in tiny_texts(spec) for add in (False, True)]
        write(args.out / "tiny" / f"{name}.golden.gz", golden(records))


if __name__ == "__main__":
    main()
