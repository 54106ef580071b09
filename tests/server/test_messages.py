# SPDX-License-Identifier: Apache-2.0
"""/v1/messages and count_tokens through the Anthropic client."""
import json

import anthropic
import pytest

ASK = [{"role": "user", "content": "Name three birds that live by the sea."}]
GREEDY = {"model": "any", "max_tokens": 20, "extra_body": {"temperature": 0}}
TOOL = {"name": "weather", "description": "The weather in a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
    "required": ["city", "days"], "additionalProperties": False}}


def total(usage):
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


def test_answer_and_stream(ant, oai, server):
    message = ant.messages.create(messages=ASK, **GREEDY)
    assert message.model == server.model and message.stop_reason == "max_tokens"
    assert [b.type for b in message.content] == ["text"] and message.usage.output_tokens == 20
    with ant.messages.stream(messages=ASK, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == message.content[0].text == final.content[0].text
    assert final.stop_reason == "max_tokens" and total(final.usage) == total(message.usage)
    raw = [e.type for e in ant.messages.create(messages=ASK, stream=True, **GREEDY)]
    assert raw[0] == "message_start" and raw[-2:] == ["message_delta", "message_stop"]
    chat = oai.chat.completions.create(model="any", messages=ASK, max_tokens=20, temperature=0)
    assert chat.choices[0].message.content == text


def test_end_turn(ant):
    message = ant.messages.create(messages=[{"role": "user", "content": "Say OK."}], **{**GREEDY, "max_tokens": 200})
    assert message.stop_reason == "end_turn" and message.stop_sequence is None


def test_stop_sequences(ant):
    turns = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one two"}]
    message = ant.messages.create(messages=turns, stop_sequences=["nothing", "three"], **GREEDY)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "three")
    assert "three" not in message.content[0].text
    with ant.messages.stream(messages=turns, stop_sequences=["nothing", "three"], **GREEDY) as stream:
        final = stream.get_final_message()
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", "three")
    assert final.content[0].text == message.content[0].text


def test_prefill(ant):
    turns = [*ASK, {"role": "assistant", "content": "1. Gulls\n2."}]
    message = ant.messages.create(messages=turns, **GREEDY)
    assert not message.content[0].text.startswith("1. Gulls")


def test_system_blocks(ant, server):
    def count(system):
        return ant.messages.count_tokens(model="any", messages=ASK, system=system).input_tokens
    one = count("Be brief.\nBe kind.")
    assert count([{"type": "text", "text": "Be brief."},
                  {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]) == one
    assert count([{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=abcde;"},
                  {"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]) == one


@pytest.mark.parametrize("body", [
    {},
    {"system": "Be brief."},
    {"tools": [TOOL]},
    {"tools": [TOOL], "tool_choice": {"type": "any"}},
    {"messages": [*ASK, {"role": "assistant", "content": [
        {"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain", "is_error": True},
            {"type": "text", "text": "And now?"}]}]},
])
def test_count_equals_usage(ant, body):
    kw = {"messages": ASK, **body}
    n = ant.messages.count_tokens(model="any", **kw).input_tokens
    assert total(ant.messages.create(model="any", max_tokens=1, **kw).usage) == n


def test_cache(ant):
    long = [{"role": "user", "content": "A long story about herons. " * 60}]
    first, second = [ant.messages.create(messages=long, model="any", max_tokens=2).usage for _ in range(2)]
    assert second.cache_read_input_tokens > 100 > first.cache_read_input_tokens
    assert total(first) == total(second)


def test_max_tokens_zero_fills_the_cache(ant):
    long = [{"role": "user", "content": "A long story about ospreys. " * 60}]
    first = ant.messages.create(messages=long, model="any", max_tokens=0)
    assert first.usage.output_tokens == 0 and first.content[0].text == "" and first.stop_reason == "max_tokens"
    assert ant.messages.create(messages=long, model="any", max_tokens=1).usage.cache_read_input_tokens > 100


def test_blocks(ant):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    message = ant.messages.create(**{**GREEDY, "max_tokens": 4}, messages=[
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {
            "type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A report."}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
                                          {"type": "redacted_thinking", "data": "x"},
                                          {"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}]},
        {"role": "user", "content": "What is it?"}])
    assert message.content
    with pytest.raises(anthropic.BadRequestError):
        ant.messages.create(**GREEDY, messages=[{"role": "user", "content": [image]}])


@pytest.mark.parametrize("choice, parallel", [({"type": "any"}, True), ({"type": "tool", "name": "weather"}, True),
                                              ({"type": "any", "disable_parallel_tool_use": True}, False)])
def test_tools(ant, choice, parallel):
    kw = dict(messages=[{"role": "user", "content": "Weather in Paris for two days?"}], tools=[TOOL],
              tool_choice=choice, **{**GREEDY, "max_tokens": 120})
    message = ant.messages.create(**kw)
    calls = [b for b in message.content if b.type == "tool_use"]
    assert calls and (parallel or len(calls) == 1)
    assert message.stop_reason in ("tool_use", "max_tokens")
    for call in calls:
        assert call.name == "weather" and isinstance(call.input["city"], str) and isinstance(call.input["days"], int)
    with ant.messages.stream(**kw) as stream:
        final = stream.get_final_message()
    inputs = [b.input for b in final.content if b.type == "tool_use"]
    assert inputs[:len(calls)] == [c.input for c in calls]


def test_tool_without_arguments(ant):
    tool = {"name": "now", "input_schema": {"type": "object", "properties": {}, "additionalProperties": False}}
    with ant.messages.stream(messages=[{"role": "user", "content": "What time is it?"}], tools=[tool],
                             tool_choice={"type": "tool", "name": "now", "disable_parallel_tool_use": True},
                             **GREEDY) as stream:
        final = stream.get_final_message()
    assert [b.input for b in final.content if b.type == "tool_use"] == [{}]


def test_tools_none_and_built_in(ant):
    message = ant.messages.create(messages=ASK, tools=[TOOL], tool_choice={"type": "none"}, **GREEDY)
    assert [b.type for b in message.content] == ["text"]
    ant.messages.create(messages=ASK, tools=[{"type": "web_search_20250305", "name": "web_search"}], **GREEDY)
    for choice in ({"type": "any"}, {"type": "tool", "name": "web_search"}):
        with pytest.raises(anthropic.BadRequestError):
            ant.messages.create(messages=ASK, tools=[{"type": "web_search_20250305", "name": "web_search"}],
                                tool_choice=choice, **GREEDY)


def test_output_format(ant):
    message = ant.messages.create(messages=ASK, **{**GREEDY, "max_tokens": 120}, output_config={"format": {
        "type": "json_schema", "schema": {"type": "object", "properties": {
            "birds": {"type": "array", "items": {"enum": ["gull", "tern", "puffin"]}, "maxItems": 3}},
            "required": ["birds"], "additionalProperties": False}}})
    assert set(json.loads(message.content[0].text)) == {"birds"}


@pytest.mark.parametrize("body", [
    {"max_tokens": None}, {"messages": []}, {"messages": None}, {"messages": [{"role": "robot", "content": "x"}]},
    {"max_tokens": -1}, {"stop_sequences": [""]}, {"tool_choice": {"type": "any"}},
    {"tool_choice": {"type": "tool", "name": "x"}}, {"thinking": {"type": "never"}}, {"temperature": "hot"},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "c"}]}]},
])
def test_refused(server, body):
    answer = server.post("/v1/messages", {"messages": ASK, "max_tokens": 4, **body})
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


def test_beta_query_and_headers(server):
    answer = server.post("/v1/messages?beta=true", {"messages": ASK, "max_tokens": 1, "metadata": {"user_id": "x"},
                                                    "context_management": {"edits": []}, "speed": "fast"},
                         headers={"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})
    assert answer.status_code == 200
