# SPDX-License-Identifier: Apache-2.0
"""Prompts that `whimbrel warm` has computed ahead: a server that starts later answers without computing them again and bit
for bit as one that knows nothing of them, whatever the form in which they were given; and what is refused."""
import json
import os
import signal
import subprocess
import time

import pytest

from keeping import CTX, PAGE, ask, draw, model_fixture, serve
from serving import PROGRAM

model = model_fixture
# What a client's request says stands in the prompt: a tool, a variable, who speaks.
TEMPLATE = ("{% for t in tools or [] %}TOOL:{{ t.function.name }};{% endfor %}{{ mode or 'plain' }}:"
            "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }};{% endfor %}")


def text(seed, n):
    """Characters that the tiny tokenizer knows."""
    return "".join(chr(33 + t) for t in draw(seed, n)).replace("<", "#").replace("\\", "#")


def turns(seed, n):
    return [{"role": "system", "content": text(seed, n)}, {"role": "user", "content": "go"}]


AGENT = {"messages": turns(1, 6000), "chat_template_kwargs": {"mode": "AGENT"}, "stream": True, "max_tokens": 5000, "n": 2,
         "tools": [{"type": "function", "function": {"name": "LOOK", "parameters": {"type": "object", "properties": {}}}}]}


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "template.jinja"
    path.write_text(TEMPLATE)
    return "--chat-template", str(path)


def warm(*words, code=0, **env):
    done = subprocess.run([PROGRAM, "warm", *map(str, words)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **env})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def chat(server, body):
    body = {k: v for k, v in body.items() if k not in ("stream", "n")}
    reply = server.post("/v1/chat/completions", {**body, "max_tokens": 6, "temperature": 0, "ignore_eos": True,
                                                 "logprobs": True, "top_logprobs": 3})
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    usage, choice = answer["usage"], answer["choices"][0]
    return ((choice["message"], choice["logprobs"]), usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])


def test_a_server_that_starts_later_knows_them(model, template, tmp_path):
    others = [{"messages": turns(seed, 900)} for seed in (2, 3)]
    file, kv = tmp_path / "prompts.json", ("--kv-dir", str(tmp_path / "kv"))
    file.write_text(json.dumps({"prompts": [AGENT, others[0], others[1]["messages"], text(4, 700)]}))
    said = warm(file, model, *template, *kv, "--ctx", CTX, "--threads", 1)
    assert said.startswith("4 prompts, ") and "known before" in said and str(tmp_path / "kv") in said
    plain = serve("warm-plain", model, *template, "--no-kv-dir")
    wanted = [chat(plain, body)[0] for body in (AGENT, *others)]
    wanted_text = ask(plain, text(4, 700))[0]
    assert plain.stop() == 0
    server = serve("warm-kept", model, *template, *kv)
    try:
        for body, right in zip((AGENT, *others), wanted):
            got, n_prompt, cached = chat(server, body)
            assert got == right and n_prompt > 900
            assert cached >= n_prompt - PAGE - 1, (cached, n_prompt)
        got, cached = ask(server, text(4, 700))
        assert got == wanted_text and cached >= 700 - PAGE
    finally:
        assert server.stop() == 0
    said = warm(file, model, *template, *kv, "--ctx", CTX, "--threads", 1)
    computed = int(said.split(" tokens: ")[1].split(" computed")[0])
    assert computed <= 4 * (PAGE + 1), said


def test_lines_and_other_forms(model, template, tmp_path):
    kv = ("--kv-dir", str(tmp_path / "kv"), "--ctx", "2048", "--threads", "1")
    body = {"messages": turns(5, 300)}
    for name, content, n in (
            ("one.json", json.dumps(body), 1), ("messages.json", json.dumps(body["messages"]), 1),
            ("prompts.json", json.dumps({"prompts": body["messages"]}), 1),
            ("list.json", json.dumps([text(6, 100), {"prompt": draw(6, 100)}]), 2),
            ("batch.jsonl", json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}) +
             "\n\n" + json.dumps(body) + "\n", 2)):
        file = tmp_path / name
        file.write_text(content)
        assert warm(file, model, *template, *kv).startswith(f"{n} prompt{'s' if n > 1 else ''}, ")


def test_what_is_no_prompt_is_named(model, tmp_path):
    file = tmp_path / "bad.json"
    for content, word in (
            ("{", "not valid JSON"), ("[]", "there is no prompt"), ("[\"a\", 3]", "[1] is no prompt"),
            ('{"prompts": 3}', '"prompts" is no list'), ('{"prompts": [{}]}', "prompts[0] is an object without"),
            ('{"system": "x", "messages": []}', "/v1/messages"), ("7", "no prompt")):
        file.write_text(content)
        said = warm(file, model, code=1)
        assert str(file) in said and word in said, said
    lines = tmp_path / "bad.jsonl"
    lines.write_text('{"prompt": "a"}\n{]\n')
    assert "line 2" in warm(lines, model, code=1)
    assert "No such file" in warm(tmp_path / "none.json", model, code=1)
    # what the server refuses is told in its words, with the place
    file.write_text(json.dumps([text(7, 50), text(8, 600)]))
    said = warm(file, model, "--ctx", 256, "--kv-dir", tmp_path / "kv", code=1)
    assert "prompt 2 of 2: " in said and "context" in said and "those before it are kept" in said
    assert "give --kv-dir FOLDER" in warm(file, model, "--no-kv-dir", code=1)


def test_a_server_that_runs_can_do_it(model, template, tmp_path):
    kv = ("--kv-dir", str(tmp_path / "kv"))
    file, body = tmp_path / "one.json", {"messages": turns(9, 500)}
    file.write_text(json.dumps(body))
    server = serve("warm-url", model, *template, *kv, ctx=2048, env={"WHIMBREL_API_KEY": ""})
    try:
        said = warm(file, model, *template, *kv, code=1)
        assert "in use by another whimbrel" in said and f"--url {server.url} lets it" in said
        assert "1 prompt, " in warm(file, "--url", server.url)
        assert "leave MODEL out" in warm(file, model, "--url", server.url, code=2)
        _, n_prompt, cached = chat(server, body)
        assert cached >= n_prompt - PAGE - 1
    finally:
        assert server.stop() == 0


def test_what_had_to_go_again_is_not_called_kept(model, tmp_path):
    file = tmp_path / "many.json"
    file.write_text(json.dumps([text(40 + i, 3000) for i in range(8)]))
    words = (file, model, "--ctx", CTX, "--threads", 1, "--kv-dir", tmp_path / "kv", "--kv-dir-size")
    said = warm(*words, "1M", code=1)
    assert "not all prompts are kept" in said and "--kv-dir-size" in said
    assert "kept in" in warm(*words, "1G")


def test_ctrl_c_keeps_what_was_computed(model, tmp_path):
    file = tmp_path / "many.json"
    file.write_text(json.dumps([text(20 + i, 3000) for i in range(200)]))
    words = [PROGRAM, "warm", file, model, "--ctx", str(CTX), "--threads", "1", "--kv-dir", tmp_path / "kv"]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until = time.monotonic() + 120
        while not any(p.stat().st_size > 1 << 14 for p in (tmp_path / "kv").glob("*/pages-*.kv")):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 130 and "stopped; what was computed is kept" in said
    server = serve("warm-stopped", model, "--kv-dir", str(tmp_path / "kv"))
    try:
        assert ask(server, text(20, 3000))[1] >= 3000 - PAGE
    finally:
        assert server.stop() == 0
