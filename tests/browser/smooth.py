# SPDX-License-Identifier: Apache-2.0
"""By hand: how smooth a long answer is. build/test-venv/bin/python tests/browser/smooth.py [TOKENS] [TOKENS-PER-SECOND]

Streams answers of so many tokens (10,000 at 200 a second unless told) of four shapes to the page in Chromium, and prints
for each the share of the time that the page was at work in the first and in the last tenth, and its longest tasks. What
must not grow with the length is counted by test_long_answer in test_people.py; this is the time of it.
"""
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "server"))
# pylint: disable=wrong-import-position
import cdp  # noqa: E402
import fake as scripted  # noqa: E402
from chatpage import ChatPage  # noqa: E402
from rawhttp import Server  # noqa: E402

WORDS = "The tide rises and falls twice a day, and **nobody** has ever stopped it from doing so, says `tide(t)`. ".split(" ")


def mixed(i):
    at = i % 250
    if at < 150:
        return WORDS[i % len(WORDS)] + " " + ("\n\n" if at % 50 == 49 else "")
    if at < 170:
        return f"\n- point {at}" if at % 4 == 0 else " of it"
    return "\n\n```c\n" if at == 170 else "\n```\n\n" if at == 249 else f"x{i} = {i};" + ("\n" if i % 5 == 0 else " ")


def one_list(i):
    return f"\n{i // 20 + 1}. **Point**" if i % 20 == 0 else " " + WORDS[i % len(WORDS)]


def one_code(i):
    return "```c\n" if i == 0 else f"x{i} = {i};" + ("\n" if i % 5 == 0 else " ")


def one_paragraph(i):
    return WORDS[i % len(WORDS)] + " "


def paced(pieces, rate):
    start = time.monotonic()
    for i, piece in enumerate(pieces):
        time.sleep(max(0, start + i / rate - time.monotonic()))
        yield piece


def busy(chat):
    """(seconds at work, seconds since the start) of the page."""
    got = {m["name"]: m["value"] for m in chat.call("Performance.getMetrics")["metrics"]}
    return got["TaskDuration"], got["Timestamp"]


def share(before, after):
    return 100 * (after[0] - before[0]) / (after[1] - before[1])


def measure(profile, fake, name, shape, tokens, rate):
    fake.reset()
    gates = [scripted.Gate() for _ in range(4)]
    pieces = [shape(i) for i in range(tokens)]
    tenth = tokens // 10
    parts = [pieces[:tenth], pieces[tenth:-tenth], pieces[-tenth:]]
    fake.answers = [[gates[0], *(x for part, gate in zip(parts, gates[1:]) for x in (paced(part, rate), gate))]]
    chat = ChatPage(profile, fake.url)
    chat.call("Performance.enable", timeDomain="timeTicks")
    chat.js("window.tasks = []; new PerformanceObserver(l => tasks.push(...l.getEntries().map(e => e.duration)))"
            ".observe({type: 'longtask'})")
    chat.send(name)
    marks = []
    for i, gate in enumerate(gates):
        while not gate.reached.wait(0.1):
            chat.browser.read(0)
        marks.append(busy(chat))
        gate.open()
        if i < len(gates) - 1:
            marks.append(busy(chat))
    chat.ended()
    tasks = chat.js("tasks")
    print(f"{name:14} first tenth {share(marks[1], marks[2]):3.0f} %  last tenth {share(marks[5], marks[6]):3.0f} %  "
          f"tasks over 50 ms: {len(tasks)}, longest {max(tasks, default=0):.0f} ms", flush=True)
    chat.close()


def main():
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 200
    scripted.LIMIT = 10 * tokens / rate + 60
    server = Server("--ctx", 2048, "--kv-mem", "96M")
    fake = scripted.Fake(server.port)
    with tempfile.TemporaryFile() as log:
        browser = cdp.Chromium(log)
        print(f"{browser.version}, {tokens} tokens at {rate:.0f} a second; the share of the time that the page is at work:")
        try:
            profile = browser.profile()
            for shape in (mixed, one_list, one_code, one_paragraph):
                measure(profile, fake, shape.__name__, shape, tokens, rate)
        finally:
            browser.close()
            fake.close()
            server.stop()


if __name__ == "__main__":
    main()
