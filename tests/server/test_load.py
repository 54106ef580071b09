# SPDX-License-Identifier: Apache-2.0
"""Clients that hang up, and a queue that is full."""
import json
import socket
import threading
import time

import anthropic
import openai
import pytest

from conftest import KEY, anthropic_client, openai_client
from serving import Server

LONG = {"model": "org/tiny", "max_tokens": 400, "temperature": 0, "extra_body": {"ignore_eos": True}}


def ask(text):
    return [{"role": "user", "content": text}]


def test_closed_stream_is_cancelled(oai, server):
    stream = oai.chat.completions.create(messages=ask("Tell me a very long story."), stream=True, **LONG,
                                         extra_headers={"x-request-id": "hang-up-1"})
    for _ in zip(range(4), stream):
        pass
    stream.close()
    line = server.request_line("hang-up-1")
    # The socket tells, or the next words that cannot be written, whichever comes first.
    assert line["reason"] in ("client gone", "client gone or too slow") and int(line["new"]) < 400
    wait_idle(server)


def test_closed_answer_is_cancelled(server):
    """Without a stream there is nothing to write that could fail; the socket itself tells. A client that has only
    shut its side looks the same, so the server gives it a second."""
    body = json.dumps({"messages": ask("Tell me a very long story."), "max_tokens": 2000, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-request-id: hang-up-2\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        server.wait_log(r"event=admit id=hang-up-2")
    line = server.request_line("hang-up-2")
    assert line["reason"] == "client gone" and int(line["new"]) < 2000
    wait_idle(server)


def wait_idle(server):
    until = time.monotonic() + 60
    while server.http.get("/health").json()["answers_active"] > 0:
        assert time.monotonic() < until, "an answer is still under way"
        time.sleep(0.02)


def test_full_queue(small):
    """One runs, one waits, the third is told to come again; the one that hangs up makes room."""
    oai = openai_client(small, KEY)
    running = oai.chat.completions.create(messages=ask("Story one."), stream=True, **LONG)
    next(iter(running))
    done = {}

    def wait():
        done["answer"] = openai_client(small, KEY).chat.completions.create(
            messages=ask("Story two."), **{**LONG, "max_tokens": 2}, extra_headers={"x-request-id": "waits-1"})
    waiting = threading.Thread(target=wait)
    waiting.start()
    until = time.monotonic() + 60
    while small.http.get("/health").json()["answers_active"] < 2:
        assert time.monotonic() < until and waiting.is_alive(), "the second request does not wait"
        time.sleep(0.01)
    with pytest.raises(openai.RateLimitError) as e:
        oai.chat.completions.create(messages=ask("Story three."), **LONG)
    assert (e.value.type, e.value.code) == ("rate_limit_error", "rate_limit_exceeded")
    assert int(e.value.response.headers["retry-after"]) >= 1
    ant = anthropic_client(small, KEY)
    with pytest.raises(anthropic.APIStatusError) as e:
        ant.messages.create(model="org/tiny", max_tokens=1, messages=ask("Story four."))
    assert e.value.status_code == 529 and e.value.body["error"]["type"] == "overloaded_error"
    assert int(e.value.response.headers["retry-after"]) >= 1
    # What needs no place in the queue works on.
    assert ant.messages.count_tokens(model="org/tiny", messages=ask("x")).input_tokens > 0
    assert "answer" not in done
    running.close()
    waiting.join(60)
    assert done["answer"].usage.completion_tokens == 2
    assert float(small.request_line("waits-1")["queue_ms"]) > 0
    wait_idle(small)


def test_retry_after_a_full_queue(small):
    """The official client comes back by itself."""
    oai = openai_client(small, KEY).with_options(max_retries=50)
    answers = []

    def one(i):
        answers.append(oai.chat.completions.create(messages=ask(f"Number {i}."), model="org/tiny", max_tokens=8))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert len(answers) == 3


@pytest.fixture(scope="module")
def narrow():
    s = Server("narrow", "--max-seqs", "1", "--threads", "1")
    yield s
    assert s.stop() == 0, "the server does not end well"


def test_keep_alive(narrow):
    """Streams that wait for their turn hear something after 10 s of silence, each in its dialect's way."""
    many = {"prompt": "x", "n": 64, "max_tokens": 4000, "ignore_eos": True, "stream": True}
    waits = {"/v1/chat/completions": {"messages": ask("Hi"), "max_tokens": 1},
             "/v1/messages": {"messages": ask("Hi"), "max_tokens": 1},
             "/v1/responses": {"input": "Hi", "max_output_tokens": 1}}
    heard = {}

    def listen(path, body):
        with narrow.http.stream("POST", path, json={**body, "stream": True}) as answer:
            began = time.monotonic()
            heard[path] = b""
            for piece in answer.iter_raw():
                heard[path] += piece
                if time.monotonic() - began > 9:
                    break
    with narrow.http.stream("POST", "/v1/completions", json=many) as busy:
        pieces = busy.iter_raw()
        while b'"text":""' in next(pieces):  # choices are opened at once; a text is from one that runs
            pass
        threads = [threading.Thread(target=listen, args=item) for item in waits.items()]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    last = {path: text.rstrip(b"\n").rsplit(b"\n\n", 1)[-1] for path, text in heard.items()}
    assert last["/v1/chat/completions"] == b": keep-alive"
    assert last["/v1/messages"] == b'event: ping\ndata: {"type":"ping"}'
    assert heard["/v1/responses"].count(b"event: response.in_progress") == 2
    wait_idle(narrow)
