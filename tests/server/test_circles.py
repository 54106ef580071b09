# SPDX-License-Identifier: Apache-2.0
"""Answers that go round in a circle, in every dialect, and the server's bound of all answers. A bias makes a tiny model
say one letter for ever."""
import concurrent.futures
import json

import httpx2
import pytest

from serving import ROOT, Server, write_tokenizer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-bf16"
N_VOCAB, LETTER = 83, "a"
LIMIT, MORE = 2048, 2066
HI = [{"role": "user", "content": "Hi"}]
SAY = {"temperature": 0, "logit_bias": {str(ord(LETTER) - 33): 100}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("circles")
    (path / "model.safetensors").symlink_to(MODEL / "model.safetensors")
    config = json.loads((MODEL / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    (path / "template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    write_tokenizer(path, N_VOCAB)
    return path


@pytest.fixture(scope="module")
def server(folder):
    s = Server("circles", str(folder), "--chat-template", str(folder / "template.jinja"))
    yield s
    assert s.stop() == 0


def events_of(answer):
    return [e.split("data: ", 1)[1] for e in answer.text.split("\n\n") if "data: " in e]


@pytest.fixture(scope="module")
def answers(server):
    """All at once: they take their steps together."""
    asked = {
        "chat": ("/v1/chat/completions", {"messages": HI, "return_token_ids": True}),
        "stream": ("/v1/chat/completions", {"messages": HI, "stream": True}),
        "off": ("/v1/chat/completions", {"messages": HI, "max_tokens": MORE, "repetition_detection": False,
                                         "return_token_ids": True}),
        "held": ("/v1/chat/completions", {"messages": HI, "regex": "a*"}),
        "messages": ("/v1/messages", {"messages": HI, "max_tokens": 4000}),
        "messages off": ("/v1/messages", {"messages": HI, "max_tokens": MORE, "repetition_detection": False}),
        "responses": ("/v1/responses", {"input": "Hi"}),
        "responses off": ("/v1/responses", {"input": "Hi", "max_output_tokens": MORE, "repetition_detection": False}),
        "completions": ("/v1/completions", {"prompt": "Hi", "max_tokens": MORE}),
        "completions on": ("/v1/completions", {"prompt": "Hi", "max_tokens": 4000, "repetition_detection": True}),
    }
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        sent = {name: pool.submit(server.post, path, {**SAY, **body}) for name, (path, body) in asked.items()}
        return {name: one.result() for name, one in sent.items()}


def test_chat(answers, server):
    body = answers["chat"].json()
    choice = body["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", "repetition")
    assert body["usage"]["completion_tokens"] == LIMIT and choice["message"]["content"] == LETTER * LIMIT
    line = server.request_line(answers["chat"].headers["x-request-id"])
    assert line["reason"] == "repetition", line
    # chat, stream, held, messages, responses and completions that asked for it
    assert 'whimbrel:requests_finished_total{reason="repetition"} 6\n' in httpx2.get(server.url + "/metrics", timeout=300).text


def test_nothing_before_the_end_changes(answers):
    ended, went_on = answers["chat"].json()["choices"][0], answers["off"].json()["choices"][0]
    assert went_on["finish_reason"] == "length" and "stop_reason" not in went_on
    assert len(went_on["token_ids"]) == MORE and went_on["token_ids"][:LIMIT] == ended["token_ids"]


def test_stream(answers):
    last = events_of(answers["stream"])[-2]
    assert '"finish_reason":"length","stop_reason":"repetition"' in last, last


def test_an_answer_held_to_a_grammar(answers):
    body = answers["held"].json()
    assert body["usage"]["completion_tokens"] == LIMIT and body["choices"][0]["stop_reason"] == "repetition"


def test_messages(answers):
    for name, n in (("messages", LIMIT), ("messages off", MORE)):
        body = answers[name].json()
        assert (body["stop_reason"], body["usage"]["output_tokens"]) == ("max_tokens", n), name


def test_responses(answers):
    for name, n in (("responses", LIMIT), ("responses off", MORE)):
        body = answers[name].json()
        assert body["status"] == "incomplete" and body["usage"]["output_tokens"] == n, name
        assert body["incomplete_details"] == {"reason": "max_output_tokens"}


def test_completions_only_where_asked_for(answers):
    raw, asked = answers["completions"].json(), answers["completions on"].json()
    assert raw["usage"]["completion_tokens"] == MORE and "stop_reason" not in raw["choices"][0]
    assert asked["usage"]["completion_tokens"] == LIMIT and asked["choices"][0]["stop_reason"] == "repetition"


@pytest.fixture(scope="module")
def bounded(folder):
    s = Server("bounded", str(folder), "--chat-template", str(folder / "template.jinja"), "--max-tokens", str(MORE),
               "--no-repetition-detection")
    yield s
    assert s.stop() == 0


def test_the_server_bounds_all_answers(bounded):
    asked = [("/v1/chat/completions", {"messages": HI}, "completion_tokens"),
             ("/v1/chat/completions", {"messages": HI, "max_tokens": 4000}, "completion_tokens"),
             ("/v1/completions", {"prompt": "Hi", "max_tokens": 4000}, "completion_tokens"),
             ("/v1/messages", {"messages": HI, "max_tokens": 4000}, "output_tokens"),
             ("/v1/responses", {"input": "Hi"}, "output_tokens")]
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        got = list(pool.map(lambda a: bounded.post(a[0], {**SAY, **a[1]}).json(), asked))
    for (path, _, key), body in zip(asked, got):
        assert body["usage"][key] == MORE, path
    for body in got[:3]:
        assert body["choices"][0]["finish_reason"] == "length" and "stop_reason" not in body["choices"][0]
    assert got[3]["stop_reason"] == "max_tokens" and got[4]["status"] == "incomplete"
    assert bounded.http.get("/v1/models").json()["data"][0]["max_tokens"] == MORE


def test_a_request_may_ask_for_less_or_for_detection(bounded):
    say = {**SAY, "messages": HI}
    less = bounded.post("/v1/chat/completions", {**say, "max_tokens": 3}).json()
    assert less["usage"]["completion_tokens"] == 3
    ended = bounded.post("/v1/chat/completions", {**say, "repetition_detection": True}).json()
    assert ended["usage"]["completion_tokens"] == LIMIT and ended["choices"][0]["stop_reason"] == "repetition"
