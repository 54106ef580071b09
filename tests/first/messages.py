#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md quotes what the product says: every message of its tables is in the sources.
messages.py write: write the page's last part anew, which lists every other message of the sources."""
import glob
import os
import re
import sys

from first import ROOT, main

PAGE = ROOT + "/docs/troubleshooting.md"
SOURCES = ("apps/**/*.c", "src/**/*.c", "src/**/*.h", "src/**/*.def", "tools/*", "Makefile", "mk/*.mk", "tests/run-tests",
           "tests/server/run.sh")
CALLS = re.compile(r"\b(?:complain|whim_child_complain|whim_fail|whim_got|whim_fault_set)\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
FORMAT = re.compile(r"%(?= )|%[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:ll|l|z|h)?[a-zA-Z]|\$\{[^}]*\}|\$\$?\([^)]*\)+|\$\$?\w+")


def squeeze(text):
    """Without quotes of the page and escapes of C; an end of line is a blank, however it is written."""
    return re.sub(r"\s+", " ", text.replace("`", "").replace("\\n", " ").replace("\\", ""))


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


# Which of the remaining messages belong together: (title, cause and cure, path, words); the first that fits.
GROUPS = (
    ("Memory ran out", "The system had no memory left at that moment. End other programs, take a smaller model, or lower `--ctx`, "
     "`--max-seqs` and `--kv-mem`.", r"", r"out of memory|no memory|no room"),
    ("Models that are not known yet", "The file is sound, but asks for something that whimbrel does not have. Take another model, or "
     "another conversion of it (a plain GGUF file usually does).", r"src/(weights|text|models|layers)/", r"not supported|supported|expected "
     r"(ByteLevel|BPE|NFC|Split|Isolated|always)|no model of"),
    ("Model files that contradict themselves", "A download that was cut, a damaged file, or a tool that wrote it wrongly. Compare "
     "its checksum, fetch it again, or convert it anew; the message names the file and the place.", r"src/(weights|text|models)/", r""),
    ("Chat templates and conversations", "The template of the model (or of `--chat-template`) fails on this conversation; the "
     "message names the place in it. Use another template, or a conversation of the form that it expects.", r"src/(chat|jinja|grammar)/", r""),
    ("Requests", "The client asked for something that cannot be done; other requests go on. [api.md](api.md) has every field.",
     r"src/(http|server|sched)/", r""),
    ("Models by name", "The hub refused, or something between it and the cache failed; the message names the host, the file "
     "or the variable. What arrived is kept, and the same command continues from there.", r"src/hub/|apps/hub|apps/cmd_pull", r""),
    ("Options, and programs that use the library", "A field of the request is wrong, or calls came in another order than "
     "[library.md](library.md) says. On the command line, the name of the option comes first.", r"src/library/", r""),
    ("Options and commands", "The options do not go together, or one is wrong; the message says what would work.", r"apps/", r""),
    ("The rest", "Limits of files and of the system; the message says which. If a message calls itself a bug, please report it.",
     r"", r""),
)
HEAD = "## Every other message\n"


def error_texts():
    """(path, message) of every error in the sources, what is filled in as ... ."""
    seen = set()
    for path in sorted(glob.glob(f"{ROOT}/apps/**/*.c", recursive=True) + glob.glob(f"{ROOT}/src/**/*.c", recursive=True)):
        if "/guard/" in path:
            continue  # of test builds only
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for call in CALLS.finditer(text):
            first = re.search(r'"(?:[^"\\]|\\.)*"(?:\s*(?:"(?:[^"\\]|\\.)*"|PRI[a-zA-Z0-9]+))*', text[call.end():text.find(";\n", call.end())])
            said = "".join(LITERAL.findall(first.group())) if first else ""
            said = re.sub(r"(\.\.\. ?)+(?=\.\.\.)", "", FORMAT.sub("...", squeeze(said).replace("%%", "%")))
            if len(re.sub(r"[^a-z]", "", said)) > 7 and "|" not in said and said not in seen:
                seen.add(said)
                yield path[len(ROOT) + 1:], said.strip()


def rest():
    """The page's last part: every message that its tables do not have, in groups."""
    with open(PAGE, encoding="utf-8") as f:
        head = f.read().partition(HEAD)[0]
    tables = squeeze(head)
    groups = [[] for _ in GROUPS]
    for path, said in error_texts():
        pieces = [x.strip() for x in said.split("...") if len(x.strip()) > 6]
        if any(x in tables for x in pieces):
            continue
        for group, (_, _, where, words) in zip(groups, GROUPS):
            if re.search(where, path) and re.search(words, said):
                group.append(said)
                break
    parts = [head, HEAD, "\nMade by `tests/first/messages.py write` from the sources.\n"]
    for (title, cure, _, _), group in zip(GROUPS, groups):
        parts.append(f"\n**{title}.** {cure}\n\n" + "".join(f"- `{x}`\n" for x in sorted(group)))
    return "".join(parts)


def escapes(r):
    r.equal("a line's end in a message is a blank", squeeze(r'the name\n  %s\n\"%s\"'), 'the name %s "%s"')


def complete(r):
    with open(PAGE, encoding="utf-8") as f:
        same = f.read() == rest()
    r.check("every message of the sources is there", same, "run tests/first/messages.py write, then look at the difference")


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        made = rest()
        with open(PAGE, "w", encoding="utf-8") as page:
            page.write(made)
        sys.exit(0)
    sys.exit(main([messages, escapes, complete]))
