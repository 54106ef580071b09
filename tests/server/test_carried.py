# SPDX-License-Identifier: Apache-2.0
"""Prompts that are carried to another machine by a file: a server there begins with nothing and answers with nothing
computed again, bit for bit as the first one; and what is refused, with what differs and what to do. The other machine is
another folder: what a file says depends on no path."""
import json
import os
import shutil
import subprocess

import pytest

from keeping import CTX, PAGE, PROMPT, ask, conversation, draw, model_fixture, serve
from serving import PROGRAM

model = model_fixture


def kv(*words, ok=True, **env):
    """The command, with what it says: its output, or its complaint."""
    done = subprocess.run([PROGRAM, "kv", *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **env})
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


@pytest.fixture(scope="module")
def carried(model, tmp_path_factory):
    """A folder of pages, the file that was made of it, and the first answer."""
    folder = tmp_path_factory.mktemp("carried")
    server = serve("carry-one", model, "--kv-dir", str(folder / "kv"))
    first, _ = conversation()
    one, cached = ask(server, first)
    assert cached == 0 and server.stop() == 0
    said = kv("export", folder / "pages.kvx", model, "--ctx", CTX, "--kv-dir", folder / "kv")
    assert f"{(PROMPT + 1) // PAGE} pages of {PAGE} tokens" in said
    return folder, one


def test_a_prompt_goes_on_elsewhere(model, carried, tmp_path):
    folder, one = carried
    first, result = conversation()
    said = kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "kv")
    assert f"{(PROMPT + 1) // PAGE} pages of {PAGE} tokens" in said
    server = serve("carry-two", model, "--kv-dir", str(tmp_path / "kv"))
    try:
        again, cached = ask(server, first)
        assert again == one and cached >= PROMPT - PAGE
        server.post("/v1/completions", {"prompt": first + one[0] + result, "max_tokens": 1})
    finally:
        assert server.stop() == 0
    # the folder has what the server added, too; nothing of it is there twice after another import
    before = kv("export", tmp_path / "more.kvx", model, "--kv-dir", tmp_path / "kv")
    kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "kv")
    after = kv("export", tmp_path / "again.kvx", model, "--kv-dir", tmp_path / "kv")
    assert before.split(", to ")[0] == after.split(", to ")[0]


def test_a_server_that_runs_is_exported_and_not_imported_to(model, carried, tmp_path):
    folder, _ = carried
    shutil.copytree(folder / "kv", tmp_path / "kv")
    server = serve("carry-open", model, "--kv-dir", str(tmp_path / "kv"), ctx=512)
    try:
        kv("export", tmp_path / "open.kvx", model, "--kv-dir", tmp_path / "kv")
        said = kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "kv", ok=False)
        assert "in use by another whimbrel" in said and "must end before an import" in said
    finally:
        assert server.stop() == 0


def test_what_differs_is_said(model, carried, tmp_path):
    folder, _ = carried
    file, to = folder / "pages.kvx", ("--kv-dir", tmp_path / "kv")
    said = kv("import", file, model, *to, "--kv-dtype", "bf16", ok=False)
    assert "the type of keys and values" in said and "--kv-dtype" in said and "the weights" not in said
    said = kv("import", file, model, *to, "--isa", "neon" if os.uname().machine == "aarch64" else "sse2", ok=False)
    assert "the instruction level" in said and "--isa" in said
    said = kv("import", file, model, *to, "--tp", 2, "--threads", 1, "--oversubscribe", ok=False)
    assert "the ranks" in said and "--tp" in said
    edited = tmp_path / "edited"
    shutil.copytree(model, edited)
    config = (edited / "config.json").read_text()
    (edited / "config.json").write_text(config + "\n")
    said = kv("import", file, edited, *to, ok=False)
    assert "the weights" in said and "the same files" in said
    assert not (tmp_path / "kv").exists()


def test_what_cannot_be_carried_is_refused(model, carried, tmp_path):
    folder, _ = carried
    data, bad = (folder / "pages.kvx").read_bytes(), tmp_path / "bad.kvx"
    for change, word in ((data[:-1], "not copied whole"), (data[:-5] + bytes([data[-5] ^ 1]) + data[-4:], "is damaged"), (b"text", "is not a file that")):
        bad.write_bytes(change)
        assert word in kv("import", bad, model, "--kv-dir", tmp_path / "kv", ok=False)
    said = kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "small", "--kv-dir-size", "1M", ok=False)
    assert "--kv-dir-size" in said and "allow more with" in said and not (tmp_path / "small").exists()
    (tmp_path / "file").write_text("")
    said = kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "file", ok=False)
    assert "Not a directory" in said and "server" not in said
    said = kv("export", folder / "pages.kvx", model, "--kv-dir", folder / "kv", ok=False)
    assert "File exists" in said and (folder / "pages.kvx").read_bytes() == data
    said = kv("export", tmp_path / "none.kvx", model, "--kv-dir", tmp_path / "nothing", ok=False)
    assert "has no pages of this model" in said and not (tmp_path / "none.kvx").exists()
    said = kv("export", tmp_path / "none.kvx", model, "--kv-dir", folder / "kv", "--kv-dtype", "q8", ok=False)
    assert "but under" in said and "kv F32" in said


def test_a_refused_import_removes_nothing(model, carried, tmp_path):
    folder, _ = carried
    shutil.copytree(folder / "kv", tmp_path / "kv")
    before = {path: path.read_bytes() for path in (tmp_path / "kv").rglob("*") if path.is_file()}
    said = kv("import", folder / "pages.kvx", model, "--kv-dir", tmp_path / "kv", "--kv-dir-size", "1M", ok=False)
    assert "allow more with" in said
    assert before == {path: path.read_bytes() for path in (tmp_path / "kv").rglob("*") if path.is_file()}


def test_only_some_prompts_are_carried(model, tmp_path):
    """Of three that were computed two, in other forms than they were asked in; with what they have in common once."""
    template, file, to = tmp_path / "t.jinja", tmp_path / "prompts.json", ("--kv-dir", tmp_path / "other")
    template.write_text("{{ mode }}{% for m in messages %}{{ m['content'] }};{% endfor %}"
                        "{% if add_generation_prompt %}" + 2 * PAGE * "A" + "{% endif %}")
    word = "".join(chr(33 + t) for t in draw(11, 200)).replace("<", "#").replace("\\", "#")
    chat = {"messages": [{"role": "user", "content": word}], "chat_template_kwargs": {"mode": "FAST"}}
    ids, other = draw(12, 300), draw(13, 400)
    args = ("--chat-template", str(template), "--kv-dir")
    server = serve("carry-some", model, *args, str(tmp_path / "kv"), ctx=1024)
    wanted = ask(server, ids)[0]
    ask(server, other)
    first = server.post("/v1/chat/completions", {**chat, "max_tokens": 4, "temperature": 0}).json()
    assert server.stop() == 0
    file.write_text(json.dumps([chat, {"prompt": ids}, {"prompt": ids[:200]}]))
    said = kv("export", tmp_path / "some.kvx", model, *args, tmp_path / "kv", "--prompts", file)
    n_chat = first["usage"]["prompt_tokens"] // PAGE
    assert said.startswith(f"{n_chat + 300 // PAGE} pages of {PAGE} tokens"), said
    # a list of prompts is each of them, whatever each is given as
    file.write_text(json.dumps([{"prompt": [ids, text_of(ids[:200])]}, chat]))
    assert kv("export", tmp_path / "list.kvx", model, *args, tmp_path / "kv", "--prompts", file).split(", ")[0] == said.split(", ")[0]
    file.write_text(json.dumps([{**chat, "add_generation_prompt": False}]))
    assert kv("export", tmp_path / "turn.kvx", model, *args, tmp_path / "kv", "--prompts", file).startswith(f"{n_chat} pages")
    for bad in ([ids[0], -1], [ids[0], "a"], [[1], 2], [1 << 40], [["a"]]):
        file.write_text(json.dumps([chat, {"prompt": bad}]))
        assert "prompt 2: its \"prompt\"" in kv("export", tmp_path / "x.kvx", model, *args, tmp_path / "kv", "--prompts", file, ok=False)
    kv("import", tmp_path / "some.kvx", model, *to)
    server = serve("carry-some-two", model, *args, str(tmp_path / "other"), ctx=1024)
    try:
        again, cached = ask(server, ids)
        assert again == wanted and cached == 300 // PAGE * PAGE
        assert ask(server, other)[1] == 0
        second = server.post("/v1/chat/completions", {**chat, "max_tokens": 4, "temperature": 0}).json()
        assert second["choices"] == first["choices"]
        assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == n_chat * PAGE
    finally:
        assert server.stop() == 0
    file.write_text(json.dumps([draw(99, 200)]))
    assert "is no prompt" in kv("export", tmp_path / "x.kvx", model, *args, tmp_path / "kv", "--prompts", file, ok=False)
    file.write_text(json.dumps([{"prompt": draw(99, 200)}]))
    assert "of these prompts yet" in kv("export", tmp_path / "x.kvx", model, *args, tmp_path / "kv", "--prompts", file, ok=False)
    assert "fills a page" in kv("export", tmp_path / "x.kvx", model, *args, tmp_path / "kv", "--prompts", short(file), ok=False)
    assert "takes the whole file" in kv("import", tmp_path / "some.kvx", model, *to, "--prompts", file, ok=False)


def text_of(ids):
    """What the tiny tokenizer makes these of."""
    return "".join(chr(33 + t) for t in ids)


def short(file):
    file.write_text(json.dumps(["a"]))
    return file


def test_parts_of_ranks_travel_together(model, tmp_path):
    words = ("--tp", "2", "--oversubscribe", "--kv-dir")
    prompt = draw(9, 200)
    server = serve("carry-ranks", model, *words, str(tmp_path / "kv"), ctx=512)
    one, _ = ask(server, prompt)
    assert server.stop() == 0
    kv("export", tmp_path / "ranks.kvx", model, *words, tmp_path / "kv", "--threads", 1)
    kv("import", tmp_path / "ranks.kvx", model, *words, tmp_path / "other", "--threads", 1)
    server = serve("carry-ranks-two", model, *words, str(tmp_path / "other"), ctx=512)
    try:
        again, cached = ask(server, prompt)
        assert again == one and cached == 192
    finally:
        assert server.stop() == 0
