# SPDX-License-Identifier: Apache-2.0
"""The rules of /v1/responses, for answers and for streams (docs/api-responses.md)."""
import json
import re

from json_prefix import JsonPrefix

NEEDED = {"id", "object", "created_at", "status", "model", "error", "incomplete_details", "output",
          "parallel_tool_calls", "tool_choice", "tools", "usage"}
ITEM_KEYS = {
    "message": {"id", "type", "status", "role", "content"},
    "function_call": {"id", "type", "status", "call_id", "name", "arguments"},
    "custom_tool_call": {"id", "type", "status", "call_id", "name", "input"},
    "reasoning": {"id", "type", "status", "summary", "encrypted_content", "content"},
}

TEXT = {"item_id", "output_index", "content_index"}
EVENT_KEYS = {
    "created": {"response"}, "in_progress": {"response"}, "completed": {"response"}, "incomplete": {"response"},
    "failed": {"response"},
    "output_item.added": {"output_index", "item"}, "output_item.done": {"output_index", "item"},
    "content_part.added": TEXT | {"part"}, "content_part.done": TEXT | {"part"},
    "output_text.delta": TEXT | {"logprobs", "delta"}, "output_text.done": TEXT | {"logprobs", "text"},
    "reasoning_text.delta": TEXT | {"delta"}, "reasoning_text.done": TEXT | {"text"},
    "function_call_arguments.delta": {"item_id", "output_index", "delta"},
    "function_call_arguments.done": {"item_id", "output_index", "arguments"},
    "custom_tool_call_input.delta": {"item_id", "output_index", "delta"},
    "custom_tool_call_input.done": {"item_id", "output_index", "input"},
}


def check_usage(usage):
    assert set(usage) == {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details",
                          "total_tokens"}, usage
    assert set(usage["input_tokens_details"]) == {"cached_tokens", "cache_write_tokens"}, usage
    assert set(usage["output_tokens_details"]) == {"reasoning_tokens"}, usage
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], usage


def check_item(item):
    assert set(item) - {"namespace"} == ITEM_KEYS[item["type"]], item
    assert item["status"] in ("in_progress", "completed", "incomplete"), item
    if item["type"] == "function_call":
        assert re.fullmatch(r"call_[A-Za-z0-9]{24}", item["call_id"]) and item["id"].startswith("fc_"), item
        assert item["name"] and item.get("namespace") != "", item
        if item["status"] == "completed":
            assert isinstance(json.loads(item["arguments"]), dict), item
    elif item["type"] == "custom_tool_call":
        assert re.fullmatch(r"call_[A-Za-z0-9]{24}", item["call_id"]) and item["id"].startswith("ctc_"), item
        assert item["name"] and isinstance(item["input"], str), item
    elif item["type"] == "message":
        assert item["role"] == "assistant" and item["id"].startswith("msg_"), item
    else:
        assert item["id"].startswith("rs_"), item


def check_response(body, request):
    assert NEEDED <= set(body), NEEDED - set(body)
    assert body["object"] == "response" and body["id"].startswith("resp_"), body
    for item in body["output"]:
        check_item(item)
    if body["status"] in ("completed", "incomplete"):
        assert body["output"] and body["error"] is None, body
        check_usage(body["usage"])
        reason = (body["incomplete_details"] or {}).get("reason")
        assert reason == ("max_output_tokens" if body["status"] == "incomplete" else None), body


class ResponseStream:
    comments = False

    def __init__(self, request):
        self.request = request
        self.sequence = 0
        self.items = []
        self.open = None
        self.id = None
        self.text = ""
        self.json = None
        self.part = None
        self.done = set()

    def take(self, name, event):
        assert isinstance(event, dict) and name == event["type"], (name, event)
        assert name.startswith("response."), name
        assert event["sequence_number"] == self.sequence, (event["sequence_number"], self.sequence)
        self.sequence += 1
        assert (self.sequence == 1) == (name == "response.created"), f"{name} comes as number {self.sequence}"
        keys = EVENT_KEYS[name.removeprefix("response.")] | {"type", "sequence_number"}
        assert set(event) == keys, (set(event), keys)
        if "item_id" in event:
            assert self.open and event["item_id"] == self.open["id"], event
        if "output_index" in event:
            assert event["output_index"] == len(self.items), event
        step = "on_" + name.removeprefix("response.").replace(".", "_")
        return getattr(self, step)(event) is True

    def whole(self, event, status):
        check_response(event["response"], self.request)
        assert event["response"]["status"] == status, event
        self.id = self.id or event["response"]["id"]
        assert event["response"]["id"] == self.id, event

    def on_created(self, event):
        self.whole(event, "in_progress")
        assert event["response"]["output"] == [] and event["response"]["usage"] is None

    def on_in_progress(self, event):
        self.whole(event, "in_progress")

    def on_output_item_added(self, event):
        assert self.open is None and self.sequence > 2, event
        check_item(event["item"])
        assert event["item"]["status"] == "in_progress", event
        assert event["item"].get("content", []) == [] and event["item"].get("arguments", "") == "", event
        assert event["item"].get("input", "") == "", event
        self.open, self.text, self.json, self.part, self.done = event["item"], "", JsonPrefix(), None, set()

    def on_content_part_added(self, event):
        assert self.open["type"] == "message" and self.part is None and event["content_index"] == 0, event
        self.part = event["part"]
        assert self.part == {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}, event

    def on_output_text_delta(self, event):
        assert self.part is not None and not self.done and event["content_index"] == 0, event
        assert event["logprobs"] == [] and event["delta"], event
        self.text += event["delta"]

    def on_output_text_done(self, event):
        assert event["text"] == self.text and event["logprobs"] == [] and not self.done, (event, self.text)
        self.done.add("text")

    def on_content_part_done(self, event):
        assert self.done == {"text"} and event["part"]["text"] == self.text, event
        self.done.add("part")

    def on_reasoning_text_delta(self, event):
        assert self.open["type"] == "reasoning" and event["content_index"] == 0, event
        self.text += event["delta"]

    def on_reasoning_text_done(self, event):
        assert event["text"] == self.text, event
        self.done |= {"text", "part"}

    def on_function_call_arguments_delta(self, event):
        assert self.open["type"] == "function_call" and event["delta"] and not self.done, event
        self.text += event["delta"]
        assert self.json.feed(event["delta"]), f"no beginning of JSON: {event}"

    def on_function_call_arguments_done(self, event):
        assert event["arguments"] == self.text, (event, self.text)
        self.done |= {"text", "part"}

    def on_custom_tool_call_input_delta(self, event):
        assert self.open["type"] == "custom_tool_call" and not self.done, event
        self.text += event["delta"]

    def on_custom_tool_call_input_done(self, event):
        assert event["input"] == self.text, (event, self.text)
        self.done |= {"text", "part"}

    def on_output_item_done(self, event):
        item = event["item"]
        check_item(item)
        assert item["id"] == self.open["id"] and item["type"] == self.open["type"], event
        assert item["status"] != "in_progress" and self.done == {"text", "part"}, (event, self.done)
        text = (item["arguments"] if item["type"] == "function_call" else item["input"]
                if item["type"] == "custom_tool_call" else item["content"][0]["text"])
        assert text == self.text, (text, self.text)
        assert item["type"] != "function_call" or self.json.complete or item["status"] == "incomplete", item
        self.items.append(item)
        self.open = None

    def _end(self, event, status):
        self.whole(event, status)
        assert self.open is None and event["response"]["output"] == self.items, event
        return True

    def on_completed(self, event):
        return self._end(event, "completed")

    def on_incomplete(self, event):
        return self._end(event, "incomplete")

    def on_failed(self, event):
        self.whole(event, "failed")
        assert event["response"]["error"]["code"] in ("context_length_exceeded", "server_error"), event
        return True
