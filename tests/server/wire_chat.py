# SPDX-License-Identifier: Apache-2.0
"""The rules of /v1/chat/completions and /v1/completions, for answers and for streams (docs/api.md)."""
import json
import math
import re

from json_prefix import JsonPrefix

CALL_ID = re.compile(r"call_[A-Za-z0-9]{24}")
ENVELOPE = {"id", "object", "created", "model", "system_fingerprint", "choices"}


def check_keys(choice, keys, *ours):
    """The keys of a choice or of a piece of it; a stop_reason only where a circle ended it."""
    assert set(choice) - {"stop_reason", "token_ids", *ours} == {"index", "logprobs", "finish_reason", *keys}, choice
    assert "stop_reason" not in choice or \
        (choice["finish_reason"], choice["stop_reason"]) == ("length", "repetition"), choice


def check_usage(usage):
    assert set(usage) == {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details",
                          "completion_tokens_details"}, usage
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], usage
    assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"], usage
    details = usage["completion_tokens_details"]
    assert set(details) - {"accepted_prediction_tokens", "rejected_prediction_tokens"} == \
        {"reasoning_tokens", "proposed_tokens", "accepted_tokens"}, usage
    assert 0 <= details["reasoning_tokens"] <= usage["completion_tokens"], usage
    assert 0 <= details["accepted_tokens"] <= min(details["proposed_tokens"], usage["completion_tokens"]), usage


def check_envelope(body, kind, prefix):
    assert re.fullmatch(prefix + r"-[A-Za-z0-9]{24}", body["id"]), body["id"]
    assert body["object"] == kind, body["object"]
    assert type(body["created"]) is int and isinstance(body["model"], str) and "/" != body["model"][:1], body
    assert re.fullmatch(r"fp_[0-9a-f]+", body["system_fingerprint"]), body


def check_logprob(entry, n_top):
    assert set(entry) == {"token", "logprob", "bytes"} | ({"top_logprobs"} if n_top is not None else set()), entry
    assert type(entry["logprob"]) in (int, float) and math.isfinite(entry["logprob"]) and entry["logprob"] <= 0, entry
    assert all(0 <= b < 256 for b in entry["bytes"]), entry
    assert entry["token"] == bytes(entry["bytes"]).decode("utf-8", "replace"), entry
    if n_top is not None:
        assert len(entry["top_logprobs"]) == n_top, (n_top, entry)
        for top in entry["top_logprobs"]:
            check_logprob(top, None)
        order = [t["logprob"] for t in entry["top_logprobs"]]
        assert order == sorted(order, reverse=True), entry


def check_chat_logprobs(logprobs, request):
    if logprobs is None:
        return
    assert request.get("logprobs"), "logprobs that nobody asked for"
    assert set(logprobs) == {"content", "refusal"} and logprobs["refusal"] is None, logprobs
    for entry in logprobs["content"]:
        check_logprob(entry, int(request.get("top_logprobs") or 0))


def check_chat_answer(body, request):
    check_envelope(body, "chat.completion", "chatcmpl")
    extra = {"prompt_token_ids"} if request.get("return_token_ids") else set()
    extra |= {"timings"} if request.get("return_timings") else set()
    assert set(body) == ENVELOPE | {"usage"} | extra, set(body)
    check_usage(body["usage"])
    n = int(request.get("n") or 1)
    assert [c["index"] for c in body["choices"]] == list(range(n)), body
    ids = []
    for choice in body["choices"]:
        check_keys(choice, ["message"])
        assert ("token_ids" in choice) == bool(request.get("return_token_ids")), choice
        message, finish = choice["message"], choice["finish_reason"]
        assert set(message) - {"tool_calls", "reasoning_content", "reasoning"} == {"role", "content", "refusal"}
        assert message["role"] == "assistant" and message["refusal"] is None, message
        assert message.get("reasoning") == message.get("reasoning_content"), message
        calls = message.get("tool_calls")
        assert calls is None or calls, "an empty list of calls"
        assert isinstance(message["content"], str) or (message["content"] is None and calls), message
        assert finish in ("stop", "length", "tool_calls") and (finish != "tool_calls" or calls), choice
        assert not calls or finish in ("tool_calls", "length"), choice
        for i, call in enumerate(calls or []):
            assert set(call) == {"id", "type", "function"} and call["type"] == "function", call
            assert set(call["function"]) == {"name", "arguments"} and call["function"]["name"], call
            assert CALL_ID.fullmatch(call["id"]), call
            ids.append(call["id"])
            if finish == "tool_calls" or i + 1 < len(calls):
                assert isinstance(json.loads(call["function"]["arguments"]), dict), call
        assert (choice["logprobs"] is not None) == bool(request.get("logprobs")), choice["logprobs"]
        check_chat_logprobs(choice["logprobs"], request)
    assert len(set(ids)) == len(ids), "a call's id comes twice"


def check_completion_logprobs(logprobs, request, first):
    if logprobs is None:
        return
    assert request.get("logprobs") is not None, "logprobs that nobody asked for"
    assert set(logprobs) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, set(logprobs)
    n = len(logprobs["tokens"])
    assert all(len(v) == n for v in logprobs.values()), {k: len(v) for k, v in logprobs.items()}
    assert logprobs["text_offset"] == sorted(logprobs["text_offset"]), logprobs["text_offset"]
    for i, (token, own, top) in enumerate(zip(logprobs["tokens"], logprobs["token_logprobs"],
                                              logprobs["top_logprobs"])):
        if first and request.get("echo") and i == 0:
            assert own is None and top is None, "the first token of a prompt has no probability"
            continue
        assert own <= 0 and math.isfinite(own), own
        assert token in top and len(top) >= 1, (token, top)
        assert len(top) <= request["logprobs"] + 1, top


def n_completions(request):
    prompt = request["prompt"]
    many = isinstance(prompt, list) and prompt and isinstance(prompt[0], (str, list))
    return (len(prompt) if many else 1) * int(request.get("n") or 1)


def check_completion_answer(body, request):
    check_envelope(body, "text_completion", "cmpl")
    extra = {"timings"} if request.get("return_timings") else set()
    assert set(body) == ENVELOPE | {"usage"} | extra, set(body)
    check_usage(body["usage"])
    assert [c["index"] for c in body["choices"]] == list(range(n_completions(request))), body
    for choice in body["choices"]:
        check_keys(choice, ["text"], "prompt_token_ids")
        assert ("token_ids" in choice) == bool(request.get("return_token_ids")), choice
        assert choice["finish_reason"] in ("stop", "length"), choice
        assert isinstance(choice["text"], str), choice
        assert (choice["logprobs"] is not None) == (request.get("logprobs") is not None), choice
        check_completion_logprobs(choice["logprobs"], request, True)


class OpenAiStream:
    """What chat and completion streams share: envelope, opening, finishes, usage, [DONE]."""
    comments = True
    kind = prefix = None

    def __init__(self, request):
        self.request = request
        options = request.get("stream_options") or {}
        self.include_usage = bool(options.get("include_usage"))
        self.continuous = self.include_usage and bool(options.get("continuous_usage_stats"))
        self.n = self.n_choices()
        self.first = None
        self.opened = 0
        self.finish = {}
        self.usage = None
        self.failed = False
        self.progress = {}  # of each choice

    def check_progress(self, event):
        """Only who asks is told, before the first piece of the answer, and it only grows."""
        assert self.request.get("return_progress"), "progress that nobody asked for"
        now, (choice,) = event["prompt_progress"], event["choices"]
        assert not choice.get("delta") and not choice.get("text") and choice["finish_reason"] is None, choice
        before = self.progress.get(choice["index"], {"processed": 0, "time_ms": 0})
        assert set(now) == {"total", "cache", "processed", "time_ms"} and all(type(x) is int for x in now.values()), now
        assert 0 <= now["cache"] <= now["processed"] <= now["total"] and before["processed"] <= now["processed"], now
        assert before["time_ms"] <= now["time_ms"], now
        self.progress[choice["index"]] = now

    def take(self, name, event):
        """True when the stream is over."""
        assert name is None, f"an event line in an OpenAI stream: {name}"
        if event == "[DONE]":
            if not self.failed:
                assert len(self.finish) == self.n, f"{len(self.finish)} finishes for {self.n} choices"
                assert (self.usage is not None) == self.include_usage, "usage chunk"
            return True
        assert not self.failed and self.usage is None, f"a chunk after the last one: {event}"
        if "error" in event:
            self.failed = True
            return False
        check_envelope(event, self.kind, self.prefix)
        timed = {"timings"} if self.request.get("return_timings") and not event["choices"] else set()
        read = {"prompt_progress"} & set(event)
        if read:
            self.check_progress(event)
        assert set(event) == ENVELOPE | ({"usage"} if self.include_usage else set()) | timed | read, set(event)
        same = [event[k] for k in ("id", "created", "model", "system_fingerprint")]
        self.first = self.first or same
        assert same == self.first, (same, self.first)
        if not event["choices"]:
            assert self.include_usage and len(self.finish) == self.n, f"no choices: {event}"
            check_usage(event["usage"])
            self.usage = event["usage"]
            return False
        if self.include_usage:
            if self.continuous:
                check_usage(event["usage"])
            else:
                assert event["usage"] is None, event
        for choice in event["choices"]:
            index = choice["index"]
            assert 0 <= index < self.n and index not in self.finish, f"choice {index} after its finish"
            if self.opened < self.n:
                assert index == self.opened, f"choice {index} opens out of order"
                self.opened += 1
                self.open(choice)
            else:
                assert ("token_ids" in choice) == bool(self.request.get("return_token_ids")), choice
                if not read:
                    self.delta(choice)
            if choice["finish_reason"] is not None:
                self.finish[index] = choice["finish_reason"]
        return False


class ChatStream(OpenAiStream):
    kind, prefix = "chat.completion.chunk", "chatcmpl"

    def n_choices(self):
        self.calls = {}  # choice -> [JsonPrefix of the arguments]
        self.ids = set()
        return int(self.request.get("n") or 1)

    def open(self, choice):
        check_keys(choice, ["delta"])
        assert choice["delta"] == {"role": "assistant", "content": ""}, choice
        assert choice["logprobs"] is None and choice["finish_reason"] is None, choice
        self.calls[choice["index"]] = []

    def delta(self, choice):
        check_keys(choice, ["delta"])
        delta, finish = choice["delta"], choice["finish_reason"]
        calls = self.calls[choice["index"]]
        check_chat_logprobs(choice["logprobs"], self.request)
        if finish is not None:
            assert delta == {}, choice
            assert finish in ("stop", "length", "tool_calls"), choice
            assert (finish == "tool_calls") <= bool(calls) and (finish == "stop") <= (not calls), choice
            done = calls if finish == "tool_calls" else calls[:-1]
            assert all(c.complete for c in done), "arguments that do not parse"
            return
        assert set(delta) <= {"content", "reasoning_content", "reasoning", "tool_calls"}, delta
        assert delta or choice["logprobs"] or choice.get("token_ids"), "a delta of nothing"
        assert delta.get("reasoning") == delta.get("reasoning_content"), delta
        for call in delta.get("tool_calls", []):
            self.call(calls, call)

    def call(self, calls, call):
        if call["index"] == len(calls):
            assert set(call) == {"index", "id", "type", "function"} and call["type"] == "function", call
            assert CALL_ID.fullmatch(call["id"]) and call["id"] not in self.ids, call
            assert set(call["function"]) == {"name", "arguments"}, call
            assert call["function"]["name"] and call["function"]["arguments"] == "", call
            assert not calls or calls[-1].complete, "a call begins inside another"
            self.ids.add(call["id"])
            calls.append(JsonPrefix())
            return
        assert call["index"] == len(calls) - 1, f"index {call['index']} of {len(calls)} calls"
        assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}, call
        assert call["function"]["arguments"], "an empty piece of arguments"
        assert calls[-1].feed(call["function"]["arguments"]), f"no beginning of JSON: {call}"


class CompletionStream(OpenAiStream):
    kind, prefix = "text_completion", "cmpl"

    def n_choices(self):
        self.told = set()
        return n_completions(self.request)

    def open(self, choice):
        assert choice["text"] == "" and choice["finish_reason"] is None and choice["logprobs"] is None, choice

    def delta(self, choice):
        check_keys(choice, ["text"], "prompt_token_ids")
        assert isinstance(choice["text"], str), choice
        check_completion_logprobs(choice["logprobs"], self.request, choice["index"] not in self.told)
        if choice["logprobs"] is not None:
            self.told.add(choice["index"])
        if choice["finish_reason"] is not None:
            assert choice["text"] == "" and choice["finish_reason"] in ("stop", "length"), choice
        else:
            assert choice["text"] or choice["logprobs"] or choice.get("token_ids"), "a chunk of nothing"
