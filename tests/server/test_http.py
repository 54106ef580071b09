# SPDX-License-Identifier: Apache-2.0
"""What holds for all routes: paths, methods, bodies, texts, ids, origins, hosts."""
import json
import socket

import pytest

ASK = [{"role": "user", "content": "Hello"}]
CHAT = {"messages": ASK, "max_tokens": 1, "temperature": 0}


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/chat/completions", "/v1/chat/completions?x=1", "/chat/completions/?a"])
def test_paths(server, path):
    assert server.post(path, CHAT).status_code == 200


def test_unknown_paths(server):
    twice = server.post("/v1/v1/chat/completions", CHAT)
    assert twice.status_code == 404 and "/v1" in twice.json()["error"]["message"] and "base" in twice.json()["error"]["message"]
    near = server.post("/v1/chat/completion", CHAT)
    assert near.status_code == 404 and "/v1/chat/completions" in near.json()["error"]["message"]
    for path in ("/v1/embeddings", "/api/pull", "/api/embed", "/lora-adapters", "/x/../y", "/v1/chat//completions"):
        assert server.http.get(path).status_code == 404
    assert server.http.get("/%00").status_code == 400
    assert server.http.get("/" + "x" * 1000, headers={"x-request-id": "long-path"}).status_code == 404
    assert len(server.request_line("long-path")["route"]) == 160


def test_methods(server):
    for path in ("/v1/models", "/version", "/health"):
        head = server.http.head(path)
        assert head.status_code == 200 and int(head.headers["content-length"]) > 0
    for method, path, allow in (("GET", "/v1/chat/completions", "POST"), ("POST", "/v1/models", "GET"),
                                ("DELETE", "/v1/messages", "POST"), ("PUT", "/health", "GET")):
        answer = server.http.request(method, path)
        assert answer.status_code == 405 and allow in answer.headers["allow"], path
    for path, allow in (("/v1/models", "GET, HEAD, OPTIONS"), ("/v1/messages", "POST, OPTIONS"),
                        ("/livez", "GET, HEAD, OPTIONS")):
        answer = server.http.options(path)
        assert answer.status_code == 204 and answer.headers["allow"] == allow, path


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "text/plain", "a/b; charset=latin1", None])
def test_content_types(server, kind):
    headers = {"content-type": kind} if kind else {}
    assert server.post("/v1/chat/completions", json.dumps(CHAT), headers=headers).status_code == 200


def test_encodings(server):
    assert server.post("/v1/chat/completions", b"x", headers={"content-encoding": "gzip"}).status_code == 415
    assert server.post("/v1/chat/completions", json.dumps(CHAT), headers={"content-encoding": "identity"}).status_code == 200


def test_texts(server):
    def prompt(body):
        answer = server.post("/apply-template", body)
        assert answer.status_code == 200, answer.text
        return answer.json()["prompt"]
    assert prompt(b"\xef\xbb\xbf" + json.dumps({"messages": ASK}).encode()) == prompt({"messages": ASK})
    assert "a\ufffdb" in prompt(rb'{"messages":[{"role":"user","content":"a\ud83db"}]}')
    assert "a\ufffd\ufffdb" in prompt(rb'{"messages":[{"role":"user","content":"a\udc00\ud83db"}]}')
    assert "a🦆b" in prompt(rb'{"messages":[{"role":"user","content":"a\ud83e\udd86b"}]}')
    assert "a\u0000b" in prompt(rb'{"messages":[{"role":"user","content":"a\u0000b"}]}')
    for path in ("/v1/chat/completions", "/v1/messages"):
        for text in (rb"a\ud83d", rb"a\u0000b", rb"\ud83d\ud83d"):
            body = b'{"max_tokens":1,"messages":[{"role":"user","content":"' + text + b'"}]}'
            assert server.post(path, body).status_code == 200


def test_fields(server):
    plain = server.post("/v1/chat/completions", CHAT).json()["choices"]
    odd = {**CHAT, "max_tokens": 1.0, "n": 1.0, "chat_id": "x", "context_management": {}, "zzz": [{"deep": None}],
           **{k: None for k in ("stop", "seed", "top_p", "tools", "tool_choice", "response_format", "stream", "user",
                                "logprobs", "top_logprobs", "stream_options", "logit_bias", "reasoning_effort",
                                "max_completion_tokens", "parallel_tool_calls", "presence_penalty", "model",
                                "functions", "function_call", "audio", "regex", "choice", "metadata")},
           "user": "me", "store": True, "service_tier": "auto", "modalities": ["text"], "verbosity": "low",
           "prompt_cache_key": "k", "safety_identifier": "s", "prediction": {"type": "content", "content": ""}}
    assert server.post("/v1/chat/completions", odd).json()["choices"] == plain
    twice = b'{"max_tokens":0,"messages":[{"role":"user","content":"Hello"}],"temperature":0,"max_tokens":1}'
    assert server.post("/v1/chat/completions", twice).json()["choices"] == plain


def test_request_ids(server):
    for given in ("abc-1.2_X", "x" * 128):
        assert server.http.get("/v1/models", headers={"x-request-id": given}).headers["x-request-id"] == given
    for given in ("x" * 129, "a b", "ü".encode(), "a;b"):
        got = server.http.get("/v1/models", headers={"x-request-id": given}).headers["x-request-id"]
        assert got != given and got
    body = server.post("/v1/messages", {}, headers={"x-request-id": "my-id"}).json()
    assert body["request_id"] == "my-id"
    server.post("/v1/chat/completions", CHAT, headers={"x-request-id": "logged-1"})
    line = server.request_line("logged-1")
    assert line["status"] == "200" and line["route"] == "/v1/chat/completions" and line["reason"] == "length"
    assert {"prompt", "cached", "new", "queue_ms", "ttft_ms", "total_ms", "client"} <= set(line)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8", "app://x",
                                    "tauri://localhost", "vscode-webview://abc"])
def test_origins_allowed(server, origin):
    answer = server.http.options("/v1/chat/completions", headers={
        "origin": origin, "access-control-request-method": "POST",
        "access-control-request-headers": "x-stainless-os, anthropic-version"})
    assert answer.status_code in (200, 204)
    h = answer.headers
    assert h["access-control-allow-origin"] == origin and "origin" in h["vary"].lower()
    assert {"GET", "POST", "OPTIONS"} <= {m.strip() for m in h["access-control-allow-methods"].split(",")}
    assert h["access-control-allow-headers"] == "x-stainless-os, anthropic-version"
    assert h["access-control-max-age"] == "600" and "access-control-allow-credentials" not in h
    real = server.post("/v1/chat/completions", CHAT, headers={"origin": origin})
    assert real.status_code == 200 and real.headers["access-control-allow-origin"] == origin
    assert {"x-request-id", "request-id", "retry-after"} <= {
        n.strip() for n in real.headers["access-control-expose-headers"].split(",")}
    bad = server.post("/v1/chat/completions", {}, headers={"origin": origin})
    assert bad.status_code == 400 and bad.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "chrome-extension://x", "http://localhost.evil.example",
                                    "http://127.0.0.1.evil.example", "file://"])
def test_origins_refused(server, origin):
    for answer in (server.post("/v1/chat/completions", CHAT, headers={"origin": origin}),
                   server.http.options("/v1/models", headers={"origin": origin})):
        assert answer.status_code == 403 and "--cors-origin" in answer.json()["error"]["message"]
        assert "access-control-allow-origin" not in answer.headers
        assert answer.json()["error"]["type"] == "permission_error"


def test_hosts(server):
    for host in ("127.0.0.1", "[::1]:80", "localhost", "a.localhost:1", socket.gethostname(), "host.docker.internal:8080",
                 "host.containers.internal", "192.168.1.7:8080"):
        assert server.http.get("/v1/models", headers={"host": host}).status_code == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example"):
        answer = server.http.get("/v1/models", headers={"host": host})
        assert answer.status_code == 403 and "--allow-host" in answer.json()["error"]["message"], host
    assert server.post("/v1/messages", {}, headers={"host": "evil.example"}).json()["error"]["type"] == "permission_error"


def raw(server, data, until_close=True):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(data)
        out = b""
        while until_close or b"\r\n\r\n" not in out:
            piece = s.recv(65536)
            if not piece:
                break
            out += piece
    return out


def test_expect_continue(server):
    body = json.dumps(CHAT).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        assert s.recv(100).startswith(b"HTTP/1.1 100 ")
        s.sendall(body)
        out = b""
        while piece := s.recv(65536):
            out += piece
    assert out.startswith(b"HTTP/1.1 200 ")


def test_http10_stream(server):
    body = json.dumps({**CHAT, "stream": True}).encode()
    out = raw(server, b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    head, _, rest = out.partition(b"\r\n\r\n")
    assert b" 200 " in head and b"chunked" not in head.lower()
    assert rest.startswith(b"data: {") and rest.endswith(b"data: [DONE]\n\n")


def test_limits(server):
    assert raw(server, b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 414 ")
    big = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40000 + b"\r\n\r\n"
    assert raw(server, big).startswith(b"HTTP/1.1 431 ")
    both = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert raw(server, both).startswith(b"HTTP/1.1 400 ")
    assert server.http.get("/v1/models").status_code == 200


def test_first_event_before_prefill(server):
    """The head and the first event do not wait for the prompt."""
    prompt = [{"role": "user", "content": "An early stream. " * 150}]
    with server.http.stream("POST", "/v1/chat/completions", json={"messages": prompt, "max_tokens": 1, "stream": True}) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        assert b'"role":"assistant"' in first and b"finish_reason\":null" in first
        assert first.count(b"data: ") == 1
        for _ in pieces:
            pass
