# SPDX-License-Identifier: Apache-2.0
"""What goes on inside: a prompt that is being read (`return_progress`), and the list of requests."""
import json
import threading

import httpx2
import pytest

from conftest import KEY, openai_client

LONG = " ".join(f"number {i}" for i in range(110))
TURNS = [{"role": "user", "content": LONG}]


def told(chunks):
    return [chunk.prompt_progress for chunk in chunks if getattr(chunk, "prompt_progress", None)]


def check(progress):
    first, last = progress[0], progress[-1]
    assert len(progress) > 2, "a prompt of several steps is told several times"
    assert first["processed"] == first["cache"] and last["processed"] == last["total"] > 250
    assert len({p["total"] for p in progress}) == 1
    assert [p["processed"] for p in progress] == sorted({p["processed"] for p in progress}), "each tells something new"


def test_official_client_sees_a_prompt_being_read(oai):
    ask = dict(model="x", messages=TURNS, max_tokens=3, temperature=0, stream=True,
               stream_options={"include_usage": True})
    plain = list(oai.chat.completions.create(**ask))
    assert told(plain) == []
    asked = list(oai.chat.completions.create(**{**ask, "messages": TURNS + [{"role": "user", "content": LONG[::-1]}]},
                                             extra_body={"return_progress": True}))
    check(told(asked))
    at = max(i for i, chunk in enumerate(asked) if getattr(chunk, "prompt_progress", None))
    assert not any(c.choices and c.choices[0].delta.content for c in asked[:at]), "the answer comes after its prompt"
    again = list(oai.chat.completions.create(**ask, extra_body={"return_progress": True}))
    text = ["".join(c.choices[0].delta.content or "" for c in chunks if c.choices) for chunks in (plain, again)]
    assert text[0] == text[1], "the answer is the same"
    assert told(again)[0]["cache"] > 200 and told(again)[0]["processed"] == told(again)[0]["cache"]


def test_completions_and_llamacpp(server):
    oai = openai_client(server, strict=False)  # its own type forbids a null finish_reason
    chunks = list(oai.completions.create(model="x", prompt=["one " + LONG, "two " + LONG], max_tokens=2, stream=True,
                                         extra_body={"return_progress": True}))
    for index in range(2):
        check(told([c for c in chunks if c.choices[0].index == index]))
    with httpx2.stream("POST", server.url + "/completion", timeout=300, json={
            "prompt": "three " + LONG, "n_predict": 2, "stream": True, "return_progress": True}) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    check([e["prompt_progress"] for e in events if "prompt_progress" in e])
    assert events[-1]["stop"] and "prompt_progress" not in events[-1]


@pytest.mark.parametrize("value", ["yes", 1, []])
def test_must_be_a_boolean(server, value):
    refused = server.post("/v1/chat/completions", {"messages": TURNS, "stream": True, "return_progress": value})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "return_progress"


def test_without_a_stream_there_is_nobody_to_tell(server):
    answer = server.post("/v1/chat/completions", {"messages": TURNS, "max_tokens": 2, "return_progress": True})
    assert answer.status_code == 200 and "prompt_progress" not in answer.json()


def requests(server, **how):
    return server.http.get("/requests", **how).json()["data"]


def test_requests_are_listed_while_they_run(small):
    """One answers and another waits for it; neither's text is told."""
    auth = {"authorization": f"Bearer {KEY}"}
    oai = openai_client(small, KEY)
    assert small.http.get("/requests").status_code == 401
    assert requests(small, headers=auth) == []
    stream = oai.chat.completions.create(model="org/tiny", messages=[{"role": "user", "content": "secret words"}],
                                         stream=True, max_tokens=400, extra_body={"ignore_eos": True})
    for _ in range(4):
        next(stream)
    waits = threading.Thread(target=lambda: httpx2.post(
        small.url + "/v1/messages", headers=auth, timeout=300,
        json={"model": "org/tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "more words"}]}))
    waits.start()
    listed = []
    while len(listed) < 2:
        listed = sorted(requests(small, headers=auth), key=lambda one: -one["age_s"])
    stream.close()
    waits.join()
    first, second = listed
    assert (first["state"], second["state"]) == ("answering", "waiting")
    assert (first["route"], second["route"]) == ("/v1/chat/completions", "/v1/messages")
    assert first["prompt_tokens_read"] == first["prompt_tokens"] > 5 and first["generated_tokens"] >= 2
    assert second["prompt_tokens_read"] == second["generated_tokens"] == 0 and second["prompt_tokens"] > 5
    assert first["client"] == second["client"] == "127.0.0.1" and first["id"].startswith("req_")
    assert "words" not in json.dumps(listed)
    while requests(small, headers=auth):
        pass


def test_a_prompt_that_is_read_is_listed_as_such(server):
    with httpx2.stream("POST", server.url + "/v1/chat/completions", timeout=300, json={
            "messages": [{"role": "user", "content": LONG + LONG[::-1]}], "max_tokens": 1, "stream": True}) as answer:
        seen = []
        while not seen or seen[-1]["state"] != "reading":
            seen += [one for one in requests(server) if one["prompt_tokens"] > 500]
        answer.read()
    assert 0 <= seen[-1]["prompt_tokens_read"] < seen[-1]["prompt_tokens"]
