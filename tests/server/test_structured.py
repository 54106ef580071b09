# SPDX-License-Identifier: Apache-2.0
"""Structured output: what comes is valid, told by an independent validator."""
import concurrent.futures
import enum
import json
import random
import re
from typing import List, Literal, Optional, Union

import jsonschema
import openai
import pydantic
import pytest

ASK = [{"role": "user", "content": "Describe a bird."}]
KW = {"model": "any", "messages": ASK, "temperature": 0, "max_tokens": 200}


class Color(str, enum.Enum):
    red = "red"
    grey = "grey"


class Nest(pydantic.BaseModel):
    eggs: int = pydantic.Field(ge=0, le=9)
    color: Color


class Bird(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=16)
    legs: Literal[2]
    nest: Optional[Nest]
    tags: List[Color] = pydantic.Field(max_length=3)
    wing: Union[float, None]


class Tree(pydantic.BaseModel):
    label: str = pydantic.Field(max_length=4)
    children: List["Tree"] = pydantic.Field(max_length=2)


@pytest.mark.parametrize("model", [Nest, Bird, Tree])
def test_parsed_by_the_helper(oai, model):
    try:
        answer = oai.chat.completions.parse(response_format=model, **KW)
    except openai.LengthFinishReasonError:
        assert model is Tree  # a small model may go on for ever into the tree
        return
    assert isinstance(answer.choices[0].message.parsed, model)


@pytest.mark.parametrize("model", [Nest, Bird])
def test_streamed_by_the_helper(oai, model):
    with oai.chat.completions.stream(response_format=model, **KW) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, model)


def make_schema(r, depth=0):
    """A random schema that bounds what it describes, so that small answers can be whole."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "format"]
    kind = r.choice(kinds if depth > 1 else kinds + ["object", "array", "anyOf", "tuple"] * 2)
    if kind == "string":
        low = r.randrange(4)
        return r.choice([{"type": "string", "minLength": low, "maxLength": low + r.randrange(8)},
                         {"type": "string", "pattern": r.choice(["^[a-f]{2,5}$", "^(x|yy)+z$", "^\\d{3}-[A-Z]$"]),
                          "maxLength": 9}])
    if kind == "integer":
        low = r.randrange(-50, 50)
        return r.choice([{"type": "integer", "minimum": low, "maximum": low + r.randrange(200)},
                         {"type": "integer", "exclusiveMinimum": low, "maximum": low + 1 + r.randrange(5)}])
    if kind == "number":
        return {"type": "number", "minimum": r.randrange(-9, 0), "maximum": r.randrange(1, 99)}
    if kind == "enum":
        return {"enum": r.sample(["a", "b b", "\"q\"", 1, 2.5, None, True, {"k": [1]}, [], "ü"], r.randrange(1, 5))}
    if kind == "const":
        return {"const": r.choice(["x", 7, None, {"a": [True]}, "new\nline"])}
    if kind == "format":
        return {"type": "string", "format": r.choice(["date", "date-time", "uuid", "ipv4", "time"])}
    if kind == "array":
        low = r.randrange(2)
        return {"type": "array", "items": make_schema(r, depth + 1), "minItems": low, "maxItems": low + r.randrange(3)}
    if kind == "tuple":
        items = [make_schema(r, depth + 1) for _ in range(r.randrange(1, 3))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if kind == "anyOf":
        return {"anyOf": [make_schema(r, depth + 1), make_schema(r, depth + 1)]}
    if kind == "object":
        names = r.sample(["id", "name", "größe", "a b", "x-y", "list"], r.randrange(4))
        return {"type": "object", "properties": {n: make_schema(r, depth + 1) for n in names},
                "required": [n for n in names if r.random() < 0.7], "additionalProperties": False}
    return {"type": kind}


def ask_schema(server, schema, i):
    body = {"messages": ASK, "temperature": 1.0, "seed": i, "max_tokens": 150, "response_format": {
        "type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": i % 2 == 0}}}
    return server.post("/v1/chat/completions", body)


def test_generated_schemas(server):
    r = random.Random(20261115)
    schemas = [make_schema(r) for _ in range(80)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask_schema, [server] * len(schemas), schemas, range(len(schemas))))
    whole = 0
    for schema, answer in zip(schemas, answers):
        assert answer.status_code == 200, (schema, answer.text)
        choice = answer.json()["choices"][0]
        if choice["finish_reason"] == "length":
            continue
        whole += 1
        value = json.loads(choice["message"]["content"])
        jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker(["date", "ipv4", "uuid"]))
        if isinstance(value, dict) and schema.get("type") == "object":
            assert list(value) == [k for k in schema["properties"] if k in value], "keys come in schema order"
    assert whole >= 76, f"only {whole} of {len(schemas)} answers came to their end"


@pytest.mark.parametrize("pattern", [r"\d{4}-\d{2}-\d{2}", r"(yes|no|maybe)!{1,3}", r"[A-Z][a-z]{2,8} [A-Z][a-z]{2,8}"])
def test_regex(oai, pattern):
    answer = oai.chat.completions.create(**KW, extra_body={"regex": pattern})
    assert re.fullmatch(pattern, answer.choices[0].message.content)
    assert answer.choices[0].finish_reason == "stop"


def test_regex_and_choice_elsewhere(oai, server):
    text = oai.completions.create(model="any", prompt="Date: ", temperature=0, extra_body={"regex": r"\d\d/\d\d"})
    assert re.fullmatch(r"\d\d/\d\d", text.choices[0].text)
    chosen = oai.chat.completions.create(**KW, n=4, seed=3, extra_body={"choice": ["grün", "blue sky", "b"]})
    assert all(c.message.content in ("grün", "blue sky", "b") for c in chosen.choices)


def test_json_object(oai):
    answer = oai.chat.completions.create(response_format={"type": "json_object"}, **{**KW, "max_tokens": 300})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    else:
        assert answer.choices[0].message.content.lstrip().startswith("{")


def test_length_inside_json(oai):
    with pytest.raises(openai.LengthFinishReasonError):
        oai.chat.completions.parse(response_format=Bird, **{**KW, "max_tokens": 5})


def test_with_logprobs_and_stop_tokens(oai):
    answer = oai.chat.completions.create(logprobs=True, **KW, response_format={"type": "json_schema", "json_schema": {
        "name": "n", "schema": Nest.model_json_schema()}})
    raw = b"".join(bytes(t.bytes) for t in answer.choices[0].logprobs.content).decode()
    assert raw == answer.choices[0].message.content
    Nest.model_validate_json(raw)


@pytest.mark.parametrize("body, param", [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "strange"}}}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "yaml"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/no"}}}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"uniqueItems": True}}}}, "response_format"),
    ({"regex": "("}, "regex"),
    ({"regex": "a", "choice": ["b"]}, None),
    ({"choice": []}, "choice"),
    ({"regex": "(a{1000}){1000}"}, "regex"),
])
def test_refused(oai, body, param):
    with pytest.raises(openai.BadRequestError) as e:
        oai.chat.completions.create(**{**KW, "max_tokens": 4}, extra_body=body)
    assert param is None or (e.value.param or "").startswith(param), e.value.body


BAD = {"type": "object", "properties": {"a": {"type": "strange"}}}


@pytest.mark.parametrize("path, body, where", [
    ("chat/completions", {"messages": ASK, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "t"}}]}}, "tools": [
            {"type": "function", "function": {"name": "other"}},
            {"type": "function", "function": {"name": "t", "parameters": BAD}}]}, "tools[1].function.parameters"),
    ("responses", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": BAD}}},
     "text.format.schema"),
    ("responses", {"input": "x", "tool_choice": "required", "tools": [
        {"type": "web_search"}, {"type": "function", "name": "t", "parameters": BAD}]}, "tools[1].parameters"),
    ("messages", {"messages": ASK, "max_tokens": 4, "output_config": {"format": {"type": "json_schema", "schema": BAD}}},
     "output_config.format.schema"),
    ("messages", {"messages": ASK, "max_tokens": 4, "output_format": {"type": "json_schema", "schema": BAD}},
     "output_format.schema"),
    ("messages", {"messages": ASK, "max_tokens": 4, "tool_choice": {"type": "any"}, "tools": [
        {"type": "bash_20250124", "name": "bash"}, {"name": "t", "input_schema": BAD}]}, "tools[1].input_schema"),
])
@pytest.mark.parametrize("stream", [False, True])
def test_refused_by_the_clients_names(server, path, body, where, stream):
    """A bad schema is a 400 that names the field which the client sent, in every dialect, also before a stream."""
    answer = server.post("/v1/" + path, {**body, "stream": stream})
    error = answer.json()["error"]
    assert answer.status_code == 400 and where + ".properties.a" in error["message"], answer.text
    assert "function.parameters" in where or "function.parameters" not in answer.text
    assert "response_format" not in answer.text
    assert path == "messages" or where.startswith(error["param"])


@pytest.mark.parametrize("path, body", [
    ("chat/completions", {"messages": ASK, "tools": [{"type": "function", "function": {"name": "a\0b"}}]}),
    ("responses", {"input": "x", "tools": [{"type": "function", "name": "a\0b"}]}),
    ("messages", {"messages": ASK, "max_tokens": 4, "tools": [{"name": "a\0b"}]}),
])
def test_names_of_tools_have_no_nul(server, path, body):
    answer = server.post("/v1/" + path, body)
    assert answer.status_code == 400 and "U+0000" in answer.json()["error"]["message"], answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_what_no_token_can_write(server, stream):
    """The default model has no token with the bytes F1 and 04: a 400 where an answer needs them, else they do not come."""
    for key, asked in (("choice", ["\U00040000", "a\x04"]), ("regex", "(a\x04)+")):
        answer = server.post("/v1/chat/completions", {"messages": ASK, key: asked, "stream": stream})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == key, answer.text
    body = {"messages": ASK, "choice": ["Describe a \x04", "c"], "stream": stream}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200 and '"error"' not in answer.text and '"content":"c"' in answer.text, answer.text
