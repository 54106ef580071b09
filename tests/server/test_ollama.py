# SPDX-License-Identifier: Apache-2.0
"""Ollama's /api through its own Python client."""
import json

import jsonschema
import ollama
import pytest

from serving import ROOT, Server

ASK = [{"role": "user", "content": "Name three birds that live by the sea."}]
GREEDY = {"temperature": 0, "num_predict": 20}


@pytest.fixture(scope="module")
def oll(server):
    return ollama.Client(host=server.url)


def test_about_the_model(oll, server):
    model, = oll.list().models
    assert model.model == server.model and model.details.family == "llama" and model.details.parameter_size.endswith("M")
    shown = oll.show("any")
    assert "completion" in shown.capabilities and shown.details.quantization_level == "Q4_1"
    assert shown.modelinfo["llama.context_length"] > 0
    running, = oll.ps().models
    assert running.model == server.model and running.context_length == shown.modelinfo["llama.context_length"]
    version = server.http.get("/api/version").json()
    assert version["whimbrel"] == server.http.get("/version").json()["version"]


def test_chat_and_stream(oll, oai, server):
    whole = oll.chat(model="any", messages=ASK, options=GREEDY)
    assert whole.model == server.model and whole.done and whole.done_reason == "length" and whole.eval_count == 20
    pieces = list(oll.chat(model="any", messages=ASK, options=GREEDY, stream=True))
    assert "".join(p.message.content for p in pieces) == whole.message.content
    assert [p.done for p in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].prompt_eval_count == whole.prompt_eval_count and pieces[-1].total_duration > 0
    chat = oai.chat.completions.create(model="any", messages=ASK, max_tokens=20, temperature=0)
    assert chat.choices[0].message.content == whole.message.content
    assert chat.usage.prompt_tokens == whole.prompt_eval_count


def test_generate(oll, oai):
    text = "One, two, three,"
    raw = oll.generate(model="any", prompt=text, raw=True, options=GREEDY)
    plain = oai.completions.create(model="any", prompt=text, max_tokens=20, temperature=0)
    assert raw.response == plain.choices[0].text
    asked = oll.generate(model="any", prompt=ASK[0]["content"], options=GREEDY)
    assert asked.response == oll.chat(model="any", messages=ASK, options=GREEDY).message.content
    pieces = list(oll.generate(model="any", prompt=ASK[0]["content"], options=GREEDY, stream=True))
    assert "".join(p.response for p in pieces) == asked.response and pieces[-1].done_reason == "length"
    stopped = oll.generate(model="any", prompt=text, raw=True, options={**GREEDY, "stop": ["five"]})
    assert stopped.done_reason == "stop" and stopped.response == raw.response[:raw.response.index("five")]
    assert oll.generate(model="any").done_reason == "load"


def test_formats(oll):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    answer = oll.chat(model="any", messages=ASK, format=schema, options={"num_predict": 100, "temperature": 0})
    assert set(json.loads(answer.message.content)) == {"name", "age"}


def test_tools_are_the_same_prompt(oll, oai):
    tool = {"type": "function", "function": {"name": "add", "description": "Add", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}}}}
    turns = [*ASK, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2}}}]},
             {"role": "tool", "content": "5", "tool_name": "add"}]
    ours = oll.chat(model="any", messages=turns, tools=[tool], options=GREEDY)
    theirs = oai.chat.completions.create(model="any", max_tokens=20, temperature=0, tools=[tool], messages=[
        *ASK, {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]},
        {"role": "tool", "content": "5", "tool_call_id": "call_0"}])
    assert ours.prompt_eval_count == theirs.usage.prompt_tokens
    assert ours.message.content == theirs.choices[0].message.content


ADD = {"type": "function", "function": {"name": "add", "description": "Add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"],
    "additionalProperties": False}}}


def test_a_call_comes_back(oll, server):
    """A text could only be "~", which is made unlikely: what is left is a call, and the end as soon as it may come."""
    def token_of(text):
        token, = server.post("/tokenize", {"prompt": text, "add_special_tokens": False, "parse_special": True}).json()["tokens"]
        return str(token)

    bias = {token_of("~"): -100, token_of("<|im_end|>"): 100}
    options = {"temperature": 0, "num_predict": 120, "guided_choice": ["~"], "logit_bias": bias}
    whole = oll.chat(model="any", messages=ASK, tools=[ADD], options=options)
    call, = whole.message.tool_calls
    jsonschema.validate(call.function.arguments, ADD["function"]["parameters"])
    assert call.function.name == "add" and not whole.message.content and whole.done_reason == "stop"
    pieces = list(oll.chat(model="any", messages=ASK, tools=[ADD], options=options, stream=True))
    calls = [c for p in pieces for c in p.message.tool_calls or []]
    assert calls == [call] and pieces[-1].done and pieces[-1].done_reason == "stop"
    assert "".join(p.message.content or "" for p in pieces) == ""
    turns = [*ASK, whole.message, {"role": "tool", "tool_name": "add", "content": "5"}]
    after = oll.chat(model="any", messages=turns, tools=[ADD], options=GREEDY)
    assert after.message.content and after.prompt_eval_count > whole.prompt_eval_count


@pytest.fixture(scope="module")
def thinker():
    """Its template opens the thoughts, or closes them at once."""
    s = Server("ollama-thinks", "--chat-template", str(ROOT / "tests" / "data" / "chat" / "templates" / "qwen35.jinja"))
    yield s
    assert s.stop() == 0


def test_thoughts_come_apart(thinker):
    client = ollama.Client(host=thinker.url)
    ask = {"messages": ASK, "temperature": 0, "max_tokens": 20}
    for think in True, "low":
        whole = client.chat(model="any", messages=ASK, think=think, options=GREEDY)
        theirs = thinker.post("/v1/chat/completions", {**ask, "reasoning_effort": "low"}).json()["choices"][0]["message"]
        assert whole.message.thinking and whole.message.thinking == theirs["reasoning_content"]
        assert not whole.message.content and whole.done_reason == "length"
    pieces = list(client.chat(model="any", messages=ASK, think=True, options=GREEDY, stream=True))
    assert "".join(p.message.thinking or "" for p in pieces) == whole.message.thinking
    once = client.generate(model="any", prompt=ASK[0]["content"], think=True, options=GREEDY)
    assert once.thinking == whole.message.thinking and not once.response
    silent = client.chat(model="any", messages=ASK, think=False, options=GREEDY)
    theirs = thinker.post("/v1/chat/completions", {**ask, "reasoning_effort": "none"}).json()["choices"][0]["message"]
    assert silent.message.thinking is None and silent.message.content and silent.message.content == theirs["content"]


def test_roles_are_the_templates(oll, oai, thinker):
    turns = [*ASK, {"role": "poet", "content": "The gull."}, *ASK]
    ours = oll.chat(model="any", messages=turns, options=GREEDY)
    theirs = oai.chat.completions.create(model="any", messages=turns, max_tokens=20, temperature=0)
    assert ours.message.content == theirs.choices[0].message.content
    assert ours.prompt_eval_count == theirs.usage.prompt_tokens
    with pytest.raises(ollama.ResponseError) as refused:  # this template has no such role
        ollama.Client(host=thinker.url).chat(model="any", messages=turns, options=GREEDY)
    assert refused.value.status_code == 400 and "poet" in refused.value.error


def test_options_hold_back_words_and_tokens(server):
    ids = server.http.post("/tokenize", json={"prompt": " red green blue", "add_special_tokens": False}).json()["tokens"]
    ask = {"model": "any", "prompt": "Colours:", "raw": True, "stream": False, "return_token_ids": True,
           "stop_token_ids": [1, 2, 3, 4]}
    # the same field of the request itself counts for nothing then
    options = {**GREEDY, "allowed_token_ids": ids, "stop_token_ids": [ids[0]] * 6, "bad_words": ["red"]}
    plain = server.http.post("/api/generate", json={**ask, "options": GREEDY}).json()["response"]
    held = server.http.post("/api/generate", json={**ask, "options": options}).json()["response"]
    both = server.http.post("/api/generate", json={**ask, "bad_words": ["red"], "options": {
        **GREEDY, "dry_multiplier": 5, "allowed_token_ids": ids}}).json()["response"]
    assert both.split() and "red" not in both.split()
    assert plain.split() and held != plain and set(held.split()) <= {"green", "blue"}


@pytest.mark.parametrize("more, word", [({"options": {"mirostat": 2}}, "options.mirostat"),
                                        ({"options": {"top_p": 3}}, "options.top_p"),
                                        ({"options": {"num_predict": -9}}, "options.num_predict")])
def test_refusals(oll, more, word):
    with pytest.raises(ollama.ResponseError) as refused:
        oll.chat(model="any", messages=ASK, **more)
    assert refused.value.status_code == 400 and word in refused.value.error
