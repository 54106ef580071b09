# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/clients.md, taken out of the page and run. A section says in its first line how it was checked;
those that say `make test` run here, those run by hand only where WHIMBREL_CLIENTS names a virtual environment that has
the tools (blocks marked `sh` and `python`; others do not end by themselves). So the page cannot promise what does not work."""
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "clients.md"
URL = "http://127.0.0.1:8080"
TOOLS = os.environ.get("WHIMBREL_CLIENTS")
LIMIT_S = 600
HOW = {"test": r"Run by `make test`", "hand": r"Run by hand on 20\d\d-\d\d-\d\d with \S+ \d",
       "no": r"Written from its documentation, not run here"}


def how_checked(text):
    first = text.strip().split("\n")[0]
    kinds = [kind for kind, pattern in HOW.items() if re.match(pattern, first)]
    return kinds[0] if kinds else None


def sections():
    """Title, how it was checked, blocks as (language, text)."""
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]:
        title, text = part.split("\n", 1)
        yield title, how_checked(text), re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.M | re.S)


def recipes(how, *languages):
    """What pytest runs: one block each, named by its section and the comment that is its first line."""
    return [pytest.param(title, text, id=f"{title}: {text.split(chr(10))[0].lstrip('# ')}")
            for title, checked, blocks in sections() if checked == how
            for language, text in blocks if language in languages]


def chat_text(out):
    choice, = json.loads(out)["choices"]
    return choice["message"]["content"] and choice["finish_reason"] in ("stop", "length")


def chat_stream(out):
    lines = [line for line in out.split("\n") if line.startswith("data: ")]
    chunks = [json.loads(line[6:]) for line in lines[:-1]]
    text = "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])
    return text and chunks[-1]["usage"]["completion_tokens"] > 0 and lines[-1] == "data: [DONE]"


def chat_call(out):
    call, = json.loads(out)["choices"][0]["message"]["tool_calls"]
    return call["function"]["name"] == "weather" and set(json.loads(call["function"]["arguments"])) == {"city"}


def message_text(out):
    return json.loads(out)["content"][0]["text"]


# What the output must be, where more can be said than that there is some: by the comment at the head of the block.
WANT = {
    "an answer": chat_text,
    "a stream": chat_stream,
    "a tool call": chat_call,
    "a message": message_text,
    "a tool and its result": lambda out: re.match(r"weather \{'city': ['\"]", out),
    "whole, streamed, with a tool": lambda out: re.search(r"^weather \{'city': ['\"]", out, re.M),
    "a task made of a file": lambda out: re.search(r"^\|facts\|.*\|acc .*\|", out, re.M),
    "an object, and the responses API": lambda out: re.match(r"name=(['\"]).*\1 can_fly=(True|False)\n.", out),
}


def check(text, out):
    want = WANT.get(text.split("\n")[0].lstrip("# "), str.strip)
    assert want(out), out[-2000:]


def run_shell(text, server, folder, path=None):
    env = {**os.environ, "HOME": str(folder), "PATH": (path + ":" if path else "") + os.environ["PATH"]}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text.replace(URL, server.url)], cwd=folder, env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S)
    out = done.stdout.decode(errors="replace")
    assert done.returncode == 0, f"{out[-2000:]}\n{done.stderr.decode(errors='replace')[-2000:]}"
    return out


def test_every_section_says_how_it_was_checked():
    found = {title: how for title, how, _ in sections()}
    assert None not in found.values(), found
    assert [t for t, how in found.items() if how == "test"] == ["curl", "openai for Python", "ollama for Python",
                                                               "anthropic for Python"]
    table = dict(re.findall(r"^\| \[(.*?)\]\(#.*?\) \|.*\| (.*?) \|$", PAGE.read_text(encoding="utf-8"), flags=re.M))
    words = {"test": "by `make test`", "hand": "by hand", "no": "not run"}
    for title, how in found.items():
        assert table.pop(title).startswith((words[how], "its requests are replayed") if how == "no" else words[how])
    assert not table


def test_every_address_is_the_one_that_is_replaced():
    for title, how, blocks in sections():
        for text in (text for language, text in blocks if how != "no" and language in ("sh", "python")):
            assert set(re.findall(r"http://[^/\s\"'`]+", text)) <= {URL}, title


@pytest.mark.parametrize("title, text", recipes("test", "sh"))
def test_shell(server, tmp_path, title, text):
    if not shutil.which("curl"):
        pytest.skip("curl is not here; Debian's package is curl")
    check(text, run_shell(text, server, tmp_path))


@pytest.mark.parametrize("title, text", recipes("test", "python"))
def test_python(server, title, text):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text.replace(URL, server.url), f"{PAGE.name}, {title}", "exec"), {"__name__": "__main__"})
    check(text, out.getvalue())


if TOOLS:
    @pytest.mark.parametrize("title, text", recipes("hand", "sh"))
    def test_by_hand(server, tmp_path, title, text):
        check(text, run_shell(text, server, tmp_path, os.path.abspath(TOOLS) + "/bin"))

    @pytest.mark.parametrize("title, text", recipes("hand", "python"))
    def test_python_by_hand(server, tmp_path, title, text):
        script = tmp_path / "recipe.py"
        script.write_text(text.replace(URL, server.url), encoding="utf-8")
        check(text, run_shell(f"python {script}", server, tmp_path, os.path.abspath(TOOLS) + "/bin"))
