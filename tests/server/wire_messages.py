# SPDX-License-Identifier: Apache-2.0
"""The rules of /v1/messages and count_tokens, for answers and for streams (docs/api-anthropic.md)."""
import re

from json_prefix import JsonPrefix

USAGE = {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"}
STOP_REASONS = ("end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded")


def check_count(body, request):
    assert set(body) == {"input_tokens"} and type(body["input_tokens"]) is int, body


def check_usage(usage):
    details = usage.get("output_tokens_details")
    assert set(usage) - {"output_tokens_details"} == USAGE, usage
    assert all(type(usage[key]) is int and usage[key] >= 0 for key in USAGE), usage
    assert details is None or 0 < details["thinking_tokens"] <= usage["output_tokens"], usage


def input_of(usage):
    return sum(usage[key] for key in USAGE - {"output_tokens"})


def check_stop(reason, sequence, request, calls):
    assert reason in STOP_REASONS, reason
    if reason == "stop_sequence":
        assert sequence in request["stop_sequences"], (sequence, request["stop_sequences"])
    else:
        assert sequence is None, sequence
    assert (reason == "tool_use") <= calls and (reason == "end_turn") <= (not calls), (reason, calls)


def check_block(block):
    kind = block["type"]
    if kind == "text":
        assert set(block) == {"type", "text"}, block
    elif kind == "thinking":
        assert set(block) == {"type", "thinking", "signature"} and block["signature"], block
    else:
        assert kind == "tool_use" and set(block) == {"type", "id", "name", "input"}, block
        assert re.fullmatch(r"toolu_[A-Za-z0-9]{24}", block["id"]), block
        assert block["name"] and isinstance(block["input"], dict), block


def check_envelope(body):
    assert set(body) == {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}, body
    assert re.fullmatch(r"msg_[A-Za-z0-9]{24}", body["id"]), body
    assert body["type"] == "message" and body["role"] == "assistant" and isinstance(body["model"], str), body
    check_usage(body["usage"])


def check_message(body, request):
    check_envelope(body)
    assert body["content"], "content is never empty"
    for block in body["content"]:
        check_block(block)
    check_stop(body["stop_reason"], body["stop_sequence"], request,
               any(b["type"] == "tool_use" for b in body["content"]))


class MessageStream:
    comments = False
    DELTAS = {"text": ("text_delta",), "thinking": ("thinking_delta", "signature_delta"),
              "tool_use": ("input_json_delta",)}

    def __init__(self, request):
        self.request = request
        self.started = self.pinged = False
        self.n_block = 0
        self.open = None  # the kind of the open block
        self.json = None
        self.signed = False
        self.ids = set()
        self.stopped = False
        self.input = 0

    def take(self, name, event):
        assert isinstance(event, dict) and name == event["type"], (name, event)
        if name == "error":
            assert self.started, event
            return True
        return getattr(self, "take_" + name)(event) is True

    def take_message_start(self, event):
        assert not self.started and set(event) == {"type", "message"}, event
        self.started = True
        check_envelope(event["message"])
        message = event["message"]
        assert message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None
        assert message["usage"]["output_tokens"] == 0, message
        self.input = input_of(message["usage"])

    def take_ping(self, event):
        # One that waits in the queue has no message_start yet: its input counts are those of its admission.
        assert set(event) == {"type"}, event
        self.pinged = self.started

    def take_content_block_start(self, event):
        assert self.pinged and self.open is None and not self.stopped, event
        assert set(event) == {"type", "index", "content_block"} and event["index"] == self.n_block, event
        block = event["content_block"]
        self.open, self.json, self.signed = block["type"], JsonPrefix(), False
        if block["type"] == "tool_use":
            check_block(block)
            assert block["input"] == {} and block["id"] not in self.ids, block
            self.ids.add(block["id"])
        elif block["type"] == "thinking":
            assert block == {"type": "thinking", "thinking": "", "signature": ""}, block
        else:
            assert block == {"type": "text", "text": ""}, block

    def take_content_block_delta(self, event):
        assert self.open is not None and event["index"] == self.n_block, event
        assert set(event) == {"type", "index", "delta"}, event
        delta = event["delta"]
        assert delta["type"] in self.DELTAS[self.open], (self.open, delta)
        field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature",
                 "input_json_delta": "partial_json"}[delta["type"]]
        assert set(delta) == {"type", field} and isinstance(delta[field], str), delta
        assert not self.signed, "a delta after the signature"
        self.signed = delta["type"] == "signature_delta"
        if field == "partial_json":
            assert self.json.feed(delta[field]), f"no beginning of JSON: {delta}"

    def take_content_block_stop(self, event):
        assert set(event) == {"type", "index"} and event["index"] == self.n_block and self.open, event
        assert self.open != "thinking" or self.signed, "thinking without a signature"
        self.last_complete = self.open != "tool_use" or self.json.complete
        self.open = None
        self.n_block += 1

    def take_message_delta(self, event):
        assert self.open is None and not self.stopped and self.n_block > 0, event
        assert set(event) == {"type", "delta", "usage"} and set(event["delta"]) == {"stop_reason", "stop_sequence"}
        self.stopped = True
        check_usage(event["usage"])
        assert input_of(event["usage"]) == self.input, \
            f"the input counts add up to another prompt than at the start: {event}"
        reason = event["delta"]["stop_reason"]
        check_stop(reason, event["delta"]["stop_sequence"], self.request, bool(self.ids))
        assert self.last_complete or reason in ("max_tokens", "model_context_window_exceeded"), event

    def take_message_stop(self, event):
        assert self.stopped and set(event) == {"type"}, event
        return True
