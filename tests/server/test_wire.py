# SPDX-License-Identifier: Apache-2.0
"""The checker itself: it passes what the server sent, and sees each event that is missing, doubled or out of place."""
import json

import pytest

import wire
from json_prefix import JsonPrefix

TOOL = {"name": "clock", "parameters": {"type": "object", "properties": {"zone": {"enum": ["UTC"]}},
                                        "required": ["zone"], "additionalProperties": False}}
ASK = [{"role": "user", "content": "What time is it?"}]
BODIES = {
    "chat/completions": {"messages": ASK, "n": 2, "max_tokens": 40, "stream_options": {"include_usage": True},
                         "tools": [{"type": "function", "function": TOOL}], "tool_choice": "required",
                         "parallel_tool_calls": False},
    "completions": {"prompt": ["a", "b"], "max_tokens": 3, "stream_options": {"include_usage": True}},
    "messages": {"messages": ASK, "max_tokens": 40, "tools": [{"name": "clock", "input_schema": TOOL["parameters"]}],
                 "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "responses": {"input": "What time is it?", "max_output_tokens": 40, "tools": [{"type": "function", **TOOL}],
                  "tool_choice": "required", "parallel_tool_calls": False},
}


def verdict(route, body, events):
    """None, or what the checker says."""
    check = wire.StreamCheck(route, body)
    try:
        check.feed(b"".join(e + b"\n\n" for e in events))
        check.end()
    except (AssertionError, KeyError, TypeError, AttributeError, ValueError) as e:
        return e
    return None


@pytest.fixture(scope="module", params=list(BODIES))
def stream(request, server):
    route = request.param
    body = {**BODIES[route], "stream": True, "temperature": 0}
    answer = server.post("/v1/" + route, body)
    assert answer.status_code == 200, answer.text
    events = answer.content.split(b"\n\n")[:-1]
    assert verdict(route, body, events) is None and len(events) > 5
    return route, body, events


def free(event):
    """Pieces of texts and arguments, whose absence or repetition no rule of order can see, and pings."""
    data = event.split(b"data: ")[1]
    if data == b"[DONE]":
        return False
    data = json.loads(data)
    if data.get("type") in ("ping", "content_block_delta"):
        return True
    choice = (data.get("choices") or [{}])[0]
    delta = choice.get("delta") or {}
    return bool(choice.get("text") or delta.get("content") or
                any("id" not in call for call in delta.get("tool_calls", [])))


def test_missing_and_doubled(stream):
    route, body, events = stream
    for i, event in enumerate(events):
        if free(event):
            continue
        assert verdict(route, body, events[:i] + events[i + 1:]), f"without {event}"
        if b"response.in_progress" not in event:
            assert verdict(route, body, events[:i] + [event] + events[i:]), f"twice {event}"


def test_cut_off(stream):
    route, body, events = stream
    for n in range(len(events)):
        assert verdict(route, body, events[:n]), f"ends after {n} of {len(events)}"
    assert verdict(route, body, events[:-1] + [events[-1][:-1]])


def test_after_the_end(stream):
    route, body, events = stream
    for event in (events[-1], events[-2], b": keep-alive", b"event: ping\ndata: {\"type\":\"ping\"}"):
        assert verdict(route, body, events + [event])


def test_missing_keys(stream):
    """Every key of every event is needed, but for those that say nothing about the order or the form."""
    route, body, events = stream
    for i, event in enumerate(events[:-1]):
        head, _, data = event.partition(b"data: ")
        for key in json.loads(data):
            less = {k: v for k, v in json.loads(data).items() if k != key}
            changed = events[:i] + [head + b"data: " + json.dumps(less).encode()] + events[i + 1:]
            assert verdict(route, body, changed), f"{key} missing in {event}"


def test_json_prefix():
    texts = ['{"a": [1, -2.5e+3, true, null, "x\\u00e4\\n"], "b": {}}', "[]", "-0.1", '""', "[[],{}]", "false", "0"]
    for text in texts:
        p = JsonPrefix()
        for c in text:
            assert p.feed(c), (text, c)
        assert p.complete, text
        for n in range(len(text)):
            part = JsonPrefix()
            assert part.feed(text[:n])
            try:
                json.loads(text[:n])
                assert part.complete
            except ValueError:
                assert not part.complete, text[:n]
    for text in ("{,", "[1,]", "{\"a\" 1", "01", "1.e", "tru ", "\"\\x", "{\"a\":1}}", "+1", "-a", "[1 2", "\"\n", "{a", "]"):
        assert not JsonPrefix().feed(text), text
