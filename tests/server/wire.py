# SPDX-License-Identifier: Apache-2.0
"""The checker of what goes over the wire. Every client of these tests speaks through `CheckedTransport`, so every
answer and every stream of every test is held against docs/api*.md here; what is wrong is gathered in `violations`,
and conftest.py fails the test in which it happened."""
import json
import re

import httpx2

import wire_chat
import wire_llamacpp
import wire_messages
import wire_responses

violations = []  # (request line, what is wrong)
recorded = []  # (route, request body, bytes of the stream) of complete streams, newest last, for test_wire.py

STREAMS = {
    "chat/completions": wire_chat.ChatStream,
    "completions": wire_chat.CompletionStream,
    "messages": wire_messages.MessageStream,
    "responses": wire_responses.ResponseStream,
    "completion": wire_llamacpp.CompletionStream,
    "infill": wire_llamacpp.CompletionStream,
}
ANSWERS = {
    "chat/completions": wire_chat.check_chat_answer,
    "completions": wire_chat.check_completion_answer,
    "messages": wire_messages.check_message,
    "messages/count_tokens": wire_messages.check_count,
    "responses": wire_responses.check_response,
    "completion": wire_llamacpp.check_answer,
    "infill": wire_llamacpp.check_answer,
}
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def route_of(path):
    return path.split("?")[0].strip("/").removeprefix("v1/")


def loads(text):
    """JSON as the standard has it: no NaN, no key twice."""
    def pairs(items):
        out = dict(items)
        assert len(out) == len(items), f"a key comes twice: {[k for k, _ in items]}"
        return out

    def constant(name):
        raise AssertionError(f"{name} is no JSON")
    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


def check_error(body, route, status=None):
    """An error body in the dialect of its route."""
    if route.startswith("api/"):
        assert set(body) == {"error"} and isinstance(body["error"], str) and body["error"], body
        return
    if route.startswith("messages"):
        assert set(body) == {"type", "error", "request_id"} and body["type"] == "error", body
        assert set(body["error"]) == {"type", "message"}, body
    else:
        assert set(body) == {"error", "request_id"}, body
        error = body["error"]
        assert set(error) == {"message", "type", "param", "code"}, body
        assert error["param"] is None or isinstance(error["param"], str), body
        assert error["code"] is None or isinstance(error["code"], str), body
    assert isinstance(body["error"]["type"], str) and body["error"]["message"], body
    if status is not None and status >= 500:
        assert "/" not in body["error"]["message"], f"a path in the text of a {status}: {body}"


class Sse:
    """Bytes to events: (event name or None, data), comments as (None, None)."""

    def __init__(self):
        self.rest = b""

    def feed(self, data):
        *blocks, self.rest = (self.rest + data).split(b"\n\n")
        for block in blocks:
            lines = block.decode("utf-8", "strict").split("\n")
            if all(line.startswith(":") for line in lines):
                assert lines == [": keep-alive"], f"a comment that is none of ours: {lines}"
                yield None, None
                continue
            name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else None
            assert len(lines) == 1 and lines[0].startswith("data: "), f"an event of other lines: {block}"
            yield name, lines[0].removeprefix("data: ")


class StreamCheck:
    """One stream from its first byte to its last, or to where the client left."""

    def __init__(self, route, request):
        self.sse = Sse()
        self.rules = STREAMS[route](request)
        self.route = route
        self.over = False

    def feed(self, data):
        for name, text in self.sse.feed(data):
            assert not self.over, f"after the end: {name} {text}"
            if text is None:
                assert self.rules.comments, "a comment in a stream that has pings"
                continue
            if text != "[DONE]":
                event = loads(text)
                if "error" in event and event.get("type", "error") == "error" and self.route != "responses":
                    check_error(event, self.route)
            else:
                event = "[DONE]"
            self.over = self.rules.take(name, event)

    def end(self):
        assert self.sse.rest == b"", f"half an event at the end: {self.sse.rest!r}"
        assert self.over, "the stream ends without its last event"


def check_headers(response, is_stream):
    names = [k.lower() for k, _ in response.headers.multi_items()]
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, f"headers twice: {twice}"
    ids = response.headers.get("x-request-id"), response.headers.get("request-id")
    assert ids[0] and ids[0] == ids[1] and REQUEST_ID.fullmatch(ids[0]), f"request ids {ids}"
    if is_stream:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers.get("transfer-encoding") == "chunked"
        assert "content-encoding" not in response.headers


class TeeStream(httpx2.SyncByteStream):
    def __init__(self, inner, watch):
        self.inner, self.watch = inner, watch
        self.pieces = iter(inner)

    def __iter__(self):
        for piece in self.pieces:
            self.watch.data(piece)
            yield piece
        self.watch.finished()

    def close(self):
        # Clients leave at the last event; what comes after it is looked at too.
        if self.watch.wants_rest():
            for piece in self.pieces:
                self.watch.data(piece)
            self.watch.finished()
        self.inner.close()


class StreamWatch:
    def __init__(self, line, route, body):
        self.line, self.body = line, body
        self.check = StreamCheck(route, body)
        self.bytes, self.bad, self.done = b"", False, False

    def _guard(self, step, *args):
        if self.bad:
            return
        try:
            step(*args)
        except Exception as e:
            self.bad = True
            violations.append((self.line, f"{type(e).__name__}: {e}"))

    def data(self, piece):
        self.bytes += piece
        self._guard(self.check.feed, piece)

    def wants_rest(self):
        return self.check.over and not self.done

    def finished(self):
        if not self.done:
            self.done = True
            self._guard(self.check.end)
            if not self.bad:
                recorded.append((self.check.route, self.body, self.bytes))
                del recorded[:-200]


class PlainWatch:
    def __init__(self, line, route, body, response):
        self.line, self.route, self.body, self.response = line, route, body, response
        self.bytes, self.done = b"", False

    def data(self, piece):
        self.bytes += piece

    def wants_rest(self):
        return False

    def finished(self):
        if self.done:
            return
        self.done = True
        try:
            self._check()
        except Exception as e:
            violations.append((self.line, f"{type(e).__name__}: {e}"))

    def _check(self):
        status = self.response.status_code
        if self.line.startswith("HEAD") or status in (204, 304):
            assert self.bytes == b""
            return
        if status == 200 and "content-security-policy" in self.response.headers:  # a file of the page
            assert int(self.response.headers["content-length"]) == len(self.bytes)
            return
        assert self.response.headers["content-type"].startswith("application/json"), self.response.headers
        assert int(self.response.headers["content-length"]) == len(self.bytes)
        body = loads(self.bytes.decode("utf-8", "strict"))
        if status >= 400 and route_is_api(self.route):
            check_error(body, self.route, status)
            assert self.route.startswith("api/") or body["request_id"] == self.response.headers["x-request-id"]
        elif status == 200 and self.line.startswith("POST") and self.route in ANSWERS:
            ANSWERS[self.route](body, self.body)


def route_is_api(route):
    return route not in ("livez", "readyz", "health")


class CheckedTransport(httpx2.BaseTransport):
    def __init__(self, **how):
        self.inner = httpx2.HTTPTransport(**how)

    def handle_request(self, request):
        response = self.inner.handle_request(request)
        line = f"{request.method} {request.url.raw_path.decode()} {request.content[:300]!r}"
        route = route_of(request.url.path)
        try:
            body = json.loads(request.content.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            body = None
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        try:
            check_headers(response, is_stream)
            assert not is_stream or (isinstance(body, dict) and body.get("stream") is True and route in STREAMS), \
                "a stream that nobody asked for"
        except Exception as e:
            violations.append((line, f"{type(e).__name__}: {e}"))
        watch = StreamWatch(line, route, body) if is_stream else PlainWatch(line, route, body, response)
        return httpx2.Response(response.status_code, headers=response.headers,
                               stream=TeeStream(response.stream, watch), extensions=response.extensions)

    def close(self):
        self.inner.close()
