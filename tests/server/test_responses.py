# SPDX-License-Identifier: Apache-2.0
"""/v1/responses through the OpenAI client."""
import json

import openai
import pydantic
import pytest

from conftest import openai_client

GREEDY = {"model": "any", "temperature": 0, "max_output_tokens": 20}
ASK = "Name three birds that live by the sea."
TOOL = {"type": "function", "name": "weather", "description": "The weather in a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
    "additionalProperties": False}}


def test_answer_and_stream(oai, server):
    answer = oai.responses.create(input=ASK, **GREEDY)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.model == server.model and answer.usage.output_tokens == 20
    chat = oai.chat.completions.create(model="any", messages=[{"role": "user", "content": ASK}], max_tokens=20,
                                       temperature=0)
    assert answer.output_text == chat.choices[0].message.content
    with oai.responses.stream(input=ASK, **GREEDY) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text == answer.output_text
    last = list(oai.responses.create(input=ASK, stream=True, **GREEDY))[-1]
    assert last.type == "response.incomplete" and last.response.output_text == text


def test_completed(oai):
    with oai.responses.stream(input="Say OK.", **{**GREEDY, "max_output_tokens": 200}) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.status == "completed" and final.output_text


def test_input_items(oai):
    answer = oai.responses.create(instructions="Be brief.", input=[
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Rome\"}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
         "content": [{"type": "output_text", "text": "Rain.", "annotations": []}]},
        {"role": "user", "content": "And tomorrow?"}], store=False, include=["reasoning.encrypted_content"],
        prompt_cache_key="k", **GREEDY)
    assert answer.output_text


def test_tools(oai):
    kw = dict(input="Weather in Paris?", tools=[TOOL], parallel_tool_calls=False, **{**GREEDY, "max_output_tokens": 80})
    for choice in ("required", {"type": "function", "name": "weather"}):
        answer = oai.responses.create(tool_choice=choice, **kw)
        calls = [i for i in answer.output if i.type == "function_call"]
        assert len(calls) == 1 and calls[0].name == "weather" and set(json.loads(calls[0].arguments)) == {"city"}
    with oai.responses.stream(tool_choice="required", **kw) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    streamed = [i for i in final.output if i.type == "function_call"]
    assert [c.arguments for c in streamed] == [calls[0].arguments] and final.status == "completed"
    none = oai.responses.create(tool_choice="none", **{**kw, "max_output_tokens": 5})
    assert [i.type for i in none.output] == ["message"]
    oai.responses.create(input=ASK, tools=[{"type": "web_search"}], **GREEDY)


def test_structured(oai):
    class Bird(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=12)
        sings: bool

    answer = oai.responses.parse(input=ASK, text_format=Bird, **{**GREEDY, "max_output_tokens": 60})
    assert isinstance(answer.output_parsed, Bird)


def test_goes_on_from_a_response(oai, server):
    first = oai.responses.create(input=ASK, instructions="Be brief.", **GREEDY)
    more = {"input": "And by lakes?", "instructions": "Be brief.", **GREEDY}
    second = oai.responses.create(previous_response_id=first.id, **more)
    assert second.previous_response_id == first.id
    turns = [{"role": "user", "content": ASK}, {"role": "assistant", "content": first.output_text}]
    whole = oai.responses.create(**{**more, "input": [*turns, {"role": "user", "content": more["input"]}]})
    assert second.output_text == whole.output_text and second.usage.input_tokens == whole.usage.input_tokens
    # streamed, from the second on
    last = {"input": "Which of them swims?", **GREEDY}
    third = list(oai.responses.create(previous_response_id=second.id, stream=True, **last))[-1].response
    turns += [{"role": "user", "content": more["input"]}, {"role": "assistant", "content": second.output_text}]
    whole = oai.responses.create(**{**last, "input": [*turns, {"role": "user", "content": last["input"]}]})
    assert third.output_text == whole.output_text
    assert oai.responses.retrieve(second.id) == second  # and as it was streamed:
    assert oai.responses.retrieve(third.id).output_text == third.output_text
    oai.responses.delete(second.id)
    for ask in (oai.responses.retrieve, oai.responses.delete):
        with pytest.raises(openai.NotFoundError, match=second.id):
            ask(second.id)
    with pytest.raises(openai.BadRequestError, match=second.id):
        oai.responses.create(previous_response_id=third.id, **last)
    assert oai.responses.retrieve(first.id) == first
    unkept = oai.responses.create(input=ASK, store=False, **GREEDY)
    with pytest.raises(openai.BadRequestError) as e:
        oai.responses.create(previous_response_id=unkept.id, **last)
    assert e.value.param == "previous_response_id" and unkept.id in e.value.message


@pytest.mark.parametrize("body", [
    {"previous_response_id": "resp_1"}, {"conversation": "c"}, {"background": True}, {"input": None}, {"input": []},
    {"input": [{"type": "item_reference", "id": "x"}]}, {"max_output_tokens": 0}, {"tool_choice": "required"},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]},
])
def test_refused(server, body):
    answer = server.post("/v1/responses", {"input": ASK, **body})
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"


def test_overflow(oai, server):
    text = "word " * 9000
    with pytest.raises(openai.BadRequestError) as e:
        oai.responses.create(input=text, **GREEDY)
    assert e.value.code == "context_length_exceeded"
    # The client's type does not know the code, Codex waits for it.
    loose = openai_client(server, strict=False)
    events = list(loose.responses.create(input=text, stream=True, **GREEDY))
    assert [e.type for e in events] == ["response.created", "response.failed"]
    assert events[1].response.error.code == "context_length_exceeded"
