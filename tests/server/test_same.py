# SPDX-License-Identifier: Apache-2.0
"""Random requests with random fields: the stream, put together, is the answer; both pass the checker."""
import concurrent.futures
import json
import random

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"a": {"type": "string", "maxLength": 6}, "b": {"type": "boolean"}},
    "required": ["a"], "additionalProperties": False}}} for name in ("look", "find")]
TEXTS = ["Hi.", "Count from one to ten.", "Ünïcode 世界 🦆, please.", "Write <tool_call> and {\"a\": 1}.", "List: 1."]


def make_request(r):
    body = {"seed": r.randrange(99), "temperature": r.choice([0, 0.2, 1.5]), "n": r.choice([1, 1, 2, 3])}
    if r.random() < 0.3:
        body["logprobs"] = r.randrange(3)
    if r.random() < 0.3:
        body["return_token_ids"] = True
    if r.random() < 0.3:
        body["stop"] = r.sample([".", "\n", " the", "o", "🦆", "zzz"], 2)
    if r.random() < 0.2:
        body["ignore_eos"] = True
    if r.random() < 0.2:
        body["repetition_penalty"] = 1.3
    if r.random() < 0.2:
        body["min_tokens"] = 5
    if r.random() < 0.1:
        body["skip_special_tokens"] = False
    body["max_tokens"] = r.choice([1, 3, 12, 30])
    if r.random() < 0.35:
        body["prompt"] = r.sample(TEXTS, 2) if r.random() < 0.3 else r.choice(TEXTS)
        if r.random() < 0.3:
            body["echo"] = True
        if r.random() < 0.2:
            body["regex"] = r"[a-z ]{2,20}\."
        return "/v1/completions", body
    body["messages"] = [{"role": "user", "content": r.choice(TEXTS)}]
    if "logprobs" in body:
        body["top_logprobs"], body["logprobs"] = body["logprobs"], True
    if r.random() < 0.5:
        body["tools"] = TOOLS
        body["tool_choice"] = r.choice(["auto", "required", "none", {"type": "function", "function": {"name": "find"}}])
        body["parallel_tool_calls"] = r.random() < 0.5
        body["max_tokens"] = r.choice([5, 40])
    elif r.random() < 0.3:
        body["response_format"] = r.choice([{"type": "json_object"}, {"type": "json_schema", "json_schema": {
            "name": "x", "schema": TOOLS[0]["function"]["parameters"]}}])
    elif r.random() < 0.2:
        body["messages"].append({"role": "assistant", "content": "One, two,"})
    return "/v1/chat/completions", body


def events_of(content):
    """Of a stream without its [DONE]; a busy machine gets comments to keep the connection alive."""
    return [json.loads(e[6:]) for e in content.decode().split("\n\n")[:-2] if not e.startswith(":")]


def joined(route, content):
    """The choices of a stream in the form of an answer's."""
    out, usage = {}, None
    for event in events_of(content):
        usage = event["usage"] or usage
        for c in event["choices"]:
            o = out.setdefault(c["index"], {"text": "", "calls": [], "logprobs": [], "ids": [], "finish": None})
            delta = c.get("delta", {})
            o["text"] += c.get("text", "") + (delta.get("content") or "")
            o["ids"] += c.get("token_ids", [])
            o["finish"] = c["finish_reason"] or o["finish"]
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    o["calls"].append([call["function"]["name"], ""])
                o["calls"][-1][1] += call["function"]["arguments"]
            o["logprobs"] += flat(c["logprobs"])
    return [out[i] for i in sorted(out)], usage


def flat(logprobs):
    if not logprobs:
        return []
    if "content" in logprobs:
        return logprobs["content"]
    return [list(t) for t in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["text_offset"])]


def whole(body):
    out = []
    for c in body["choices"]:
        message = c.get("message", {})
        out.append({"text": c.get("text", message.get("content") or ""), "ids": c.get("token_ids", []),
                    "calls": [[t["function"]["name"], t["function"]["arguments"]] for t in message.get("tool_calls", [])],
                    "logprobs": flat(c["logprobs"]), "finish": c["finish_reason"]})
    return out, body["usage"]


def ask_twice(server, route, body):
    plain = server.post(route, body)
    streamed = server.post(route, {**body, "stream": True, "stream_options": {"include_usage": True}})
    return route, body, plain, streamed


def test_streams_equal_answers(server):
    r = random.Random(6)
    requests = [make_request(r) for _ in range(40)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda request: ask_twice(server, *request), requests))
    for route, body, plain, streamed in results:
        assert plain.status_code == streamed.status_code == 200, (body, plain.text, streamed.text)
        want, usage = whole(plain.json())
        got, streamed_usage = joined(route, streamed.content)
        assert got == want, (route, body)
        for key in ("prompt_tokens", "completion_tokens"):
            assert usage[key] == streamed_usage[key], (body, usage, streamed_usage)
        if body.get("return_token_ids"):
            assert sum(len(c["ids"]) for c in want) == usage["completion_tokens"], (body, usage)
