# SPDX-License-Identifier: Apache-2.0
"""By hand: README's picture of the chat page. build/test-venv/bin/python tests/browser/picture.py [FILE]

Serves the default model, asks it the questions below with fixed seeds, and takes the picture, docs/images/chat.png
unless another file is named. What it shows is what that model said. Look at it before it is committed.
"""
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "server"))
# pylint: disable=wrong-import-position
import cdp  # noqa: E402
from chatpage import ChatPage  # noqa: E402
from rawhttp import Server  # noqa: E402

QUESTIONS = [("What is the water cycle? Answer in one sentence.", 1),
             ("Write a Python function that returns the sum of a list of numbers.", 1)]
MOST_BYTES = 150 * 1024


def take(target, questions=tuple(QUESTIONS)):
    with tempfile.TemporaryFile() as log, Server("--ctx", 4096) as server:
        browser = cdp.Chromium(log)
        try:
            chat = ChatPage(browser.profile(), f"http://127.0.0.1:{server.port}")
            for question, seed in questions:
                chat.settings(seed=seed, temperature=0, max_tokens=400)
                chat.ask(question)
            chat.js("document.activeElement.blur()")
            chat.call("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=400)
            chat.js("document.querySelector('#scroller').scrollTop = 0")
            chat.js("new Promise(r => setTimeout(r, 500))")
            folder = pathlib.Path(tempfile.mkdtemp())
            chat.shot(str(folder / "chat"))
            print(chat.shown())
        finally:
            browser.close()
    size = (folder / "chat.png").stat().st_size
    assert size < MOST_BYTES, f"the picture has {size} bytes, more than {MOST_BYTES}"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder / "chat.png", target)
    folder.rmdir()
    print(f"{target}: {size} bytes")


if __name__ == "__main__":
    take(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "chat.png")
