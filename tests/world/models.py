#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the settings of published models against whimbrel, and print tables.

usage: models.py WHIMBREL JUDGE FOLDER...

Every folder below FOLDER with a config.json is inspected as a model without weights, with its generation_config.json
and tokenizer_config.json; every tokenizer.json is opened, and its ids of hard strings are compared with those of the
tokenizers package of PyPI. JUDGE is the program tokenizer_judge_test of a build. Nothing is fetched. Fails where the
program ends by a signal or without a message, or where ids differ."""

import collections
import json
import os
import re
import subprocess
import sys

TEXTS = (
    "", " ", "  ", "   \n\n \t x", "a", "Hello, world!", " Hello  world ", "I'm you'll HE'S don’t they'Ve", "\r\n\r\n\r \n\t\t",
    "1234567890 12 345 6789 0.5 1,000,000 3e-10 ½ Ⅷ ²", "def f(x):\n\treturn x**2  # square\n\n\n    pass\n",
    "for (int i = 0; i < n; i++) {\n    sum += a[i]*b[i];\n}", "https://example.org/a/b?c=d&e=%20#f", "\u00a0\u2003\u3000\u200b\ufeff x",
    "naïve café résumé façade Straße İstanbul ſ ẞ ﬁ ﬂ", "e\u0301 a\u0323\u0302 \u1112\u1161\u11ab \u0958 \u212b \ufb1d Å",
    "Москва река Ελλάδα θάλασσα שלום עולם مرحبا بالعالم", "नमस्ते दुनिया สวัสดีชาวโลก ជំរាបសួរ བོད་ཡིག မြန်မာ",
    "こんにちは世界 カタカナ 漢字かな交じり文 你好，世界！ 안녕하세요", "😀👨‍👩‍👧‍👦🏳️‍🌈👍🏽🇳🇴🇯🇵❤️☎︎1️⃣", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈𐌰 \U0002a6d6 \ue000 \ufffd", "\x00\x01\x7f\x85\u2028\u2029",
    "<s></s><unk><|im_start|>user\nhi<|im_end|>\n<|endoftext|><|begin_of_text|><|eot_id|>", "[INST] hi [/INST]<pad> <mask>",
    " <|im_end|> x  </s> y", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "----====____....!!!!????((((", "\\n\\t\\\\ \"'`´‘’“”",
    "ALLCAPS camelCase snake_case kebab-case XMLHttpRequest", "▁▁ x▁y Ġ Ċ ĉ <0x0A> <0xFF>", "a\nb\n\nc\n\n\nd   \n   e",
)


def said(text, folder):
    """The last line of a message, without the folder's own name."""
    lines = [line for line in text.replace(folder.rstrip("/") + "/", "").splitlines() if line.strip()]
    return re.sub(r"^whimbrel: ", "", lines[-1])[:160] if lines else ""


def inspected(program, folder):
    """(what came of it, the message)"""
    run = subprocess.run([program, "inspect", folder, "--load-format", "dummy"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    text = said(run.stdout.decode("utf-8", "replace"), folder)
    if run.returncode == 0:
        return "opened", ""
    return ("refused" if run.returncode == 1 and text else "CRASHED"), text or f"status {run.returncode}"


class Judge:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode("utf-8", "replace")
        if not answer:
            raise RuntimeError("the judge ended")
        return answer.rstrip("\n")


def compared(program, folder):
    """(what came of it, the message)"""
    import tokenizers  # only this needs it
    judge = Judge(program)  # one each, so that one that ends does not end the others
    try:
        answer = judge.ask("T" + folder)
        try:
            theirs = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        except Exception as error:  # the package's own message
            return ("refused" if answer.startswith("error") else "opened here only"), str(error)[:160]
        if answer.startswith("error"):
            return "refused", said(answer[6:], folder)
        wrong = []
        for text in TEXTS:
            want = theirs.encode(text, add_special_tokens=False).ids
            got = judge.ask("E" + json.dumps(text))
            if got != " ".join(map(str, want)):
                wrong.append(f"{text!r}: {got[:60]} and not {' '.join(map(str, want))[:60]}")
        return ("same ids", "") if not wrong else ("OTHER IDS", f"{len(wrong)} texts, {wrong[0]}")
    except RuntimeError as error:
        return "CRASHED", str(error)
    finally:
        judge.process.stdin.close()
        judge.process.wait()


def table(what, rows):
    print(f"{what}: {len(rows)}")
    for outcome, count in collections.Counter(row[1] for row in rows).most_common():
        print(f"{count:7} {outcome}")
    for name, outcome, message in rows:
        print(f"{outcome}\t{name}\t{message}", file=sys.stderr)
    return any(outcome.isupper() for _, outcome, _ in rows)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, judge, *folders = sys.argv[1:]
    models, vocabularies = [], []
    for folder in folders:
        for place, _, files in sorted(os.walk(folder)):
            name = os.path.relpath(place, folder)
            if "config.json" in files:
                models.append((name, *inspected(program, place)))
            if "tokenizer.json" in files:
                vocabularies.append((name, *compared(judge, place)))
    bad = table("config.json", models)
    sys.exit(table("tokenizer.json", vocabularies) or bad)


if __name__ == "__main__":
    main()
