# SPDX-License-Identifier: Apache-2.0
"""A server whose page is real and whose answers are scripted.

`/`, `/dashboard`, `/assets/...` and `/favicon.ico` come from a real server, byte for byte with their headers; the API
answers what a test has put in `answers`. The same is served below /some/prefix, as behind a proxy.
"""
import http.client
import http.server
import json
import socket
import threading
import time
import types

LIMIT = 60
PREFIX = "/some/prefix"
MODEL = "org/scripted-model"
USAGE = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46,
         "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 0}}
TIMINGS = {"tokens_per_second": 12.5, "first_token_ms": 250.0}


class Gate:
    """A place in an answer where it waits until the test opens it. `reached` is set when it got there."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait_reached(self):
        assert self.reached.wait(LIMIT), "the answer did not come so far"

    def open(self):
        self.opened.set()


class Cut:
    """The connection breaks here."""


class End:
    """The stream ends here, well for HTTP, without a finish and without [DONE]."""


class Finish:
    """The answer ends here, for a reason."""

    def __init__(self, reason="stop", usage=None, stop_reason=None):
        self.reason, self.usage, self.stop_reason = reason, usage or USAGE, stop_reason


class Status:
    """No stream but an error of HTTP."""

    def __init__(self, status, message, code=None, kind="invalid_request_error", **headers):
        self.status, self.headers = status, headers
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Reading:
    """So much of the prompt is read."""

    def __init__(self, processed, total, cache=0):
        self.told = {"total": total, "cache": cache, "processed": processed, "time_ms": 1}


def reasoning(text):
    return {"reasoning_content": text, "reasoning": text}


def tool_call(name, arguments, number=0):
    return {"tool_calls": [{"index": number, "id": f"call_{number}", "type": "function",
                            "function": {"name": name, "arguments": arguments}}]}


def stream_error(message, code=None):
    return b"data: " + json.dumps({"error": {"message": message, "type": "server_error", "param": None,
                                             "code": code}}).encode() + b"\n\n"


class Fake:
    def __init__(self, upstream_port):
        self.upstream_port = upstream_port
        self.reset()
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.fake = self
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.lan_url = f"http://lan.test:{self.port}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def reset(self):
        self.answers, self.requests = [], []
        self.key = None      # the key that is asked for
        self.gone = False    # nothing is answered, as if there were no server
        self.loading = None  # None or how far it is, 0 to 1
        self.metrics = ""    # text of /metrics, or what makes it
        self.metrics_asked = 0
        self.history = {"step_s": 5, "columns": [], "rows": []}  # of /metrics/history
        self.running = []    # of /requests
        self.count_tokens = lambda text: len(text.split())  # of /tokenize; None: there is no such route
        self.demo = False    # it is the bundled model
        self.left = 0        # clients that went in the middle of an answer
        self.sampling = {"temperature": 0.25, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.0}
        self.thinking = False

    def chats(self):
        """The bodies of the requests for answers, oldest first."""
        return [r["body"] for r in self.requests if r["path"].endswith("/chat/completions")]

    def wait_chats(self, n):
        end = time.monotonic() + LIMIT
        while len(self.chats()) < n:
            assert time.monotonic() < end, f"{len(self.chats())} requests came, not {n}"
            time.sleep(0.01)
        return self.chats()

    def wait_left(self):
        """Until a client has gone in the middle of its answer."""
        end = time.monotonic() + LIMIT
        while self.left == 0:
            assert time.monotonic() < end, "nobody has left"
            time.sleep(0.01)

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def models(self):
        return {"object": "list", "data": [{
            "id": MODEL, "object": "model", "created": 1, "owned_by": "whimbrel", "context_length": 2048,
            "max_model_len": 2048, "display_name": MODEL, "whimbrel": {
                "architecture": "llama", "weights": "Q4_1", "backend": "cpu", "tools": "hermes",
                "demo": self.demo, "reasoning": self.thinking, "thinking_switch": self.thinking, "sampling": self.sampling}}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # a browser that leaves

    @property
    def fake(self):
        return self.server.fake

    def do_GET(self):
        path = self.path.split("?")[0]
        self.prefixed = path.startswith(PREFIX + "/")
        path = path[len(PREFIX):] if self.prefixed else path
        fake = self.fake
        fake.requests.append({"method": "GET", "path": path, "headers": dict(self.headers), "prefixed": self.prefixed,
                              "body": None})
        if fake.gone:
            self.break_off()
        elif path in ("/", "/dashboard", "/favicon.ico") or path.startswith("/assets/"):
            self.pass_on(path)
        elif path in ("/health", "/readyz", "/livez"):
            self.health(path)
        elif self.refused():
            pass
        elif path == "/metrics":
            fake.metrics_asked += 1
            text = fake.metrics() if callable(fake.metrics) else fake.metrics
            self.answer(200, text.encode(), "text/plain; version=0.0.4")
        elif path == "/metrics/history":
            self.json(200, fake.history)
        elif path == "/requests":
            self.json(200, {"object": "list", "data": fake.running})
        elif path == "/v1/models":
            self.json(200, fake.models())
        elif path == "/version":
            self.json(200, {"version": "0.0.0-scripted"})
        else:
            self.json(404, {"error": {"message": f"no route {path}", "type": "invalid_request_error", "param": None,
                                      "code": None}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        self.prefixed = path.startswith(PREFIX + "/")
        path = path[len(PREFIX):] if self.prefixed else path
        if self.fake.gone:
            self.break_off()
            return
        self.fake.requests.append({"method": "POST", "path": path, "headers": dict(self.headers),
                                   "prefixed": self.prefixed, "body": json.loads(body or b"null")})
        if self.refused():
            return
        if path == "/tokenize" and self.fake.count_tokens:
            n = self.fake.count_tokens(self.fake.requests[-1]["body"]["content"])
            self.json(200, {"tokens": [], "count": n, "max_model_len": 2048})
        elif path == "/v1/chat/completions":
            script = self.fake.answers.pop(0) if self.fake.answers else ["An answer without a script."]
            if isinstance(script, Status):
                self.json(script.status, script.body, script.headers)
            else:
                self.stream(script)
        else:
            self.json(404, {"error": {"message": f"no route {path}", "type": "invalid_request_error", "param": None,
                                      "code": None}})

    # --- kinds of answers ---

    def answer(self, status, data, kind, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in dict(headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def json(self, status, what, headers=()):
        self.answer(status, json.dumps(what).encode(), "application/json", headers)

    def break_off(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def refused(self):
        if self.fake.key and self.headers.get("Authorization") != f"Bearer {self.fake.key}":
            self.json(401, {"error": {"message": "the key is missing or wrong", "type": "invalid_request_error",
                                      "param": None, "code": "invalid_api_key"}}, {"WWW-Authenticate": "Bearer"})
            return True
        return False

    def health(self, path):
        loading = self.fake.loading
        if path == "/livez" or loading is None:
            self.json(200, {"status": "ready", "version": "0.0.0-scripted", "model": MODEL})
        else:
            self.json(503, {"status": "loading", "progress": loading}, {"Retry-After": "1"})

    def pass_on(self, path):
        upstream = http.client.HTTPConnection("127.0.0.1", self.fake.upstream_port, timeout=LIMIT)
        wanted = {k: v for k, v in self.headers.items() if k.lower() in ("host", "accept-encoding", "if-none-match")}
        upstream.request("GET", path, headers=wanted)
        got = upstream.getresponse()
        data = got.read()
        self.send_response(got.status)
        for name, value in got.getheaders():
            if name.lower() not in ("date", "connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        upstream.close()

    # --- the stream of an answer ---

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, choices, **more):
        self.chunk(b"data: " + json.dumps({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": choices,
            **more}).encode() + b"\n\n")

    def delta(self, delta, reason=None, **more):
        self.event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **more}], usage=None)

    def stream(self, script):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.delta({"role": "assistant", "content": ""})
            self.play(script)
        except OSError:
            self.fake.left += 1
            self.close_connection = True

    def play(self, script):
        end = Finish()
        for step in script:
            if isinstance(step, str):
                self.delta({"content": step})
            elif isinstance(step, types.GeneratorType):
                for piece in step:  # that come in their own time
                    self.delta({"content": piece})
            elif isinstance(step, dict):
                self.delta(step)
            elif isinstance(step, bytes):
                self.chunk(step)
            elif isinstance(step, Reading):
                self.event([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}], usage=None,
                           prompt_progress=step.told)
            elif isinstance(step, Gate):
                step.reached.set()
                self.wait(step)
            elif isinstance(step, Finish):
                end = step
            elif step is Cut:
                self.break_off()
                return
            elif step is End:
                end = None
        if end:
            self.delta({}, end.reason, **({"stop_reason": end.stop_reason} if end.stop_reason else {}))
            self.event([], usage=end.usage, timings=TIMINGS)
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def wait(self, gate):
        """Comments until the gate opens: who has left is noticed by them."""
        end = time.monotonic() + LIMIT
        while not gate.opened.wait(0.05) and time.monotonic() < end:
            self.chunk(b": waiting\n\n")
