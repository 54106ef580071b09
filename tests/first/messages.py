#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md quotes what the product says: every message of its tables is in the sources.
messages.py --missing: the error texts of the program that no page of docs/ quotes (a list to work from, not a test)."""
import glob
import os
import re
import sys

from first import ROOT, main

PAGE = ROOT + "/docs/troubleshooting.md"
SOURCES = ("apps/*.c", "src/**/*.c", "src/**/*.h", "src/**/*.def", "tools/*", "Makefile", "mk/*.mk", "tests/run-tests",
           "tests/server/run.sh")
CALLS = re.compile(r"\b(?:complain|whim_fail|whim_fault_set)\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
FORMAT = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:ll|l|z|h)?[a-zA-Z]|\$\{[^}]*\}|\$\$?\([^)]*\)+|\$\$?\w+")


def squeeze(text):
    return re.sub(r"\s+", " ", text.replace("`", "").replace("\\", ""))


def sources():
    """All sources as one text: neighbouring literals joined, what is filled in later as ... ."""
    parts = []
    for pattern in SOURCES:
        for path in filter(os.path.isfile, sorted(glob.glob(f"{ROOT}/{pattern}", recursive=True))):
            with open(path, encoding="utf-8", errors="replace") as f:
                parts.append(re.sub(r'"\s*\\?\n\s*"|"\s+"', "", f.read()))
    return squeeze("\n".join(parts))


def quoted():
    """The messages in the first column of the page's tables."""
    with open(PAGE, encoding="utf-8") as f:
        for line in f:
            found = re.match(r"\| `([^`]+)` \|", line)
            if found:
                yield found.group(1)


def messages(r):
    text = sources()
    n = 0
    for message in quoted():
        pieces = [x.strip() for x in squeeze(message).split("...") if len(x.strip()) > 2]
        n += 1
        if message.startswith("event="):  # of the log: the name of the event
            pieces = ['"' + message[6:].split()[0]]
        for piece in pieces:
            r.check(f"\"{message}\" is said", piece in text, f"no source has: {piece}")
    r.check("the tables are read", n > 50, n)


def missing():
    docs = ""
    for path in glob.glob(f"{ROOT}/docs/*.md"):
        with open(path, encoding="utf-8") as f:
            docs += squeeze(f.read())
    for path in sorted(glob.glob(f"{ROOT}/apps/*.c") + glob.glob(f"{ROOT}/src/**/*.c", recursive=True)):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for call in CALLS.finditer(text):
            said = "".join(LITERAL.findall(text[call.end():text.find(";\n", call.end())]))
            pieces = [x.strip() for x in FORMAT.split(squeeze(said)) if len(x.strip()) > 6]
            if pieces and not any(x in docs for x in pieces):
                print(f"{path[len(ROOT) + 1:]}: {said}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--missing"]:
        missing()
        sys.exit(0)
    sys.exit(main([messages]))
