# SPDX-License-Identifier: Apache-2.0
"""One client that asks for more than there is of the queue and of the memory for requests, beside one that does not."""
import concurrent.futures
import json
import re
import socket
import threading
import time

import httpx2
import pytest

from serving import ROOT, Server, write_tokenizer

KEYS = ("greedy-0123456789", "polite-0123456789")
GREEDY, POLITE = ({"Authorization": f"Bearer {key}"} for key in KEYS)
WAITING, REQUEST_MEM = 3, 4 << 20
SMALL = {"prompt": "ab", "max_tokens": 2, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def args(tmp_path_factory):
    """A tiny model whose context has room for long answers, and keys."""
    path = tmp_path_factory.mktemp("crowd")
    golden = ROOT / "tests" / "data" / "golden" / "llama-bf16"
    (path / "model.safetensors").symlink_to(golden / "model.safetensors")
    config = json.loads((golden / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8192}))
    write_tokenizer(path, config["vocab_size"])
    (path / "keys").write_text("\n".join(KEYS) + "\n")
    return str(path), "--api-key-file", str(path / "keys"), "--threads", "1", "--no-kv-dir"


def ask(server, body, key, name):
    return server.post("/v1/completions", body, headers={**key, "x-request-id": name})


def until(what, is_so):
    last = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < last, what
        time.sleep(0.02)


def meter(server, name):
    text = httpx2.get(server.url + "/metrics", headers=POLITE, timeout=300).text
    return float(re.search(rf"^whimbrel:{re.escape(name)} (\S+)", text, re.M).group(1))


def test_a_flood_fills_the_queue_for_its_own_client(args):
    """Steps are slow, so that the first one is at it throughout."""
    server = Server("crowd-queue", *args, "--max-seqs", "1", "--max-waiting", str(WAITING), "--plan-pause", "100")
    long = {**SMALL, "max_tokens": 8000, "stream": True}
    with concurrent.futures.ThreadPoolExecutor(WAITING) as pool, \
            server.http.stream("POST", "/v1/completions", json=long, headers=GREEDY) as running:
        pieces = running.iter_raw()
        while b'"text":""' in next(pieces):
            pass
        waiting = []
        for i in range(WAITING):
            waiting.append(pool.submit(ask, server, SMALL, GREEDY, f"greedy-{i}"))
            until("a request does not wait", lambda: server.http.get("/health").json()["answers_active"] == 2 + len(waiting) - 1)
        refused = ask(server, SMALL, GREEDY, "greedy-more")
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        polite = ask(server, SMALL, POLITE, "polite")
        assert polite.status_code == 200
        given = waiting[-1].result(60)  # the newest of who has most
        assert given.status_code == 429 and int(given.headers["retry-after"]) >= 1
        assert "another client" in given.json()["error"]["message"]
        assert server.request_line(f"greedy-{WAITING - 1}")["reason"] == "the queue is full"
        assert not any(w.done() for w in waiting[:-1])
        running.close()
        for w in waiting[:-1]:
            assert w.result(60).json()["choices"][0]["text"] == polite.json()["choices"][0]["text"]
    assert "event=answer_failed" not in server.log()
    assert server.stop() == 0


def unread_stream(server):
    """A stream of log-probabilities whose client reads nothing."""
    body = json.dumps({**SMALL, "n": 8, "max_tokens": 8000, "logprobs": 20, "stream": True}).encode()
    s = socket.create_connection(("127.0.0.1", server.port))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
              % (KEYS[0].encode(), len(body), body))
    return s


def test_answers_that_nobody_reads_stay_within_the_memory_for_them(args):
    """Those that are told at their end, with more log-probabilities than there is memory, and streams that nobody
    reads: the greedy client is told, or let go, and the polite one has its answers throughout."""
    server = Server("crowd-memory", *args, "--max-seqs", "8", "--request-mem", str(REQUEST_MEM))
    want = ask(server, SMALL, POLITE, "polite").json()["choices"][0]["text"]
    assert meter(server, "request_memory_capacity_bytes") == REQUEST_MEM
    most, said, is_over = [0], [], threading.Event()

    def polite():
        while not is_over.is_set():
            said.append(ask(server, SMALL, POLITE, "polite"))
            most[0] = max(most[0], meter(server, "request_memory_bytes"))

    other = threading.Thread(target=polite)
    other.start()
    try:
        large = {**SMALL, "n": 32, "max_tokens": 4000, "logprobs": 20}
        answer = ask(server, large, GREEDY, "large")
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
        why = answer.json()["error"]["message"]
        by_answer = "memory for requests and answers is short" in why
        assert by_answer or "memory is short, and this client holds" in why  # whichever of the two looks first
        streams = [unread_stream(server) for _ in range(3)]
        ended = re.compile(r'reason="(client gone or|the reader is) too slow"')
        until("an unread stream goes on", lambda: len(ended.findall(server.log())) == len(streams))
        for s in streams:
            s.close()
    finally:
        is_over.set()
        other.join(60)
    assert len(said) > 1 and {a.status_code for a in said} == {200}, [a.status_code for a in said]
    assert {a.json()["choices"][0]["text"] for a in said} == {want}
    assert REQUEST_MEM / 2 < most[0] < REQUEST_MEM * 1.25, most
    assert not by_answer or meter(server, 'requests_cancelled_total{reason="short_memory"}') == 1
    assert server.stop() == 0
