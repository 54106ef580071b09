# SPDX-License-Identifier: Apache-2.0
"""Tool calls through the OpenAI client and its streaming helper."""
import json

import openai
import pytest

from conftest import openai_client
from serving import ROOT, Server

ASK = [{"role": "user", "content": "What is the weather in Paris and in Rome?"}]
KW = {"model": "any", "messages": ASK, "temperature": 0, "max_tokens": 120}


def tool(name, properties, strict=None):
    function = {"name": name, "description": f"Tells the {name}", "parameters": {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}}
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


WEATHER = tool("weather", {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}})
CLOCK = tool("clock", {"zone": {"type": "string", "maxLength": 10}, "exact": {"type": "boolean"}})
CHECKS = {
    "weather": lambda a: set(a) == {"city", "unit"} and a["unit"] in "CF" and isinstance(a["city"], str),
    "clock": lambda a: set(a) == {"zone", "exact"} and isinstance(a["exact"], bool),
}


def calls_of(message):
    return [(c.function.name, c.function.arguments) for c in message.tool_calls or []]


def check_calls(choice):
    calls = calls_of(choice.message)
    done = calls if choice.finish_reason == "tool_calls" else calls[:-1]
    for name, arguments in done:
        assert CHECKS[name](json.loads(arguments)), (name, arguments)
    return calls


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "clock"}},
                                    {"type": "allowed_tools", "allowed_tools": {
                                        "mode": "required", "tools": [{"type": "function", "function": {"name": "clock"}}]}}])
@pytest.mark.parametrize("parallel", [True, False])
def test_forced(oai, choice, parallel):
    answer = oai.chat.completions.create(tools=[WEATHER, CLOCK], tool_choice=choice, parallel_tool_calls=parallel, **KW)
    calls = check_calls(answer.choices[0])
    assert calls
    if choice != "required":
        assert {name for name, _ in calls} == {"clock"}
    if not parallel:
        assert len(calls) == 1 and answer.choices[0].finish_reason == "tool_calls"


def test_null_parameters_are_none(oai):
    bare = {"type": "function", "function": {"name": "now", "parameters": None}}
    answer = oai.chat.completions.create(tools=[bare], tool_choice="auto", **KW)
    assert answer.choices[0].finish_reason


def test_streamed_by_the_helper(oai):
    kw = dict(tools=[WEATHER, CLOCK], tool_choice="required", parallel_tool_calls=False, **KW)
    whole = oai.chat.completions.create(**kw).choices[0]
    seen = []
    with oai.chat.completions.stream(**kw) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                seen.append((event.name, event.arguments))
        final = stream.get_final_completion().choices[0]
    assert calls_of(final.message) == calls_of(whole.message) and final.finish_reason == whole.finish_reason
    assert seen == calls_of(whole.message)
    ids = [c.id for c in final.message.tool_calls]
    assert len(set(ids)) == len(ids)


def test_n_streams_of_calls(oai):
    with oai.chat.completions.stream(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, n=3,
                                     seed=7, **{**KW, "temperature": 1.0}) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert [len(check_calls(c)) for c in final.choices] == [1, 1, 1]


def test_none_leaves_tools_out(oai):
    with_none = oai.chat.completions.create(tools=[WEATHER], tool_choice="none", **{**KW, "max_tokens": 8})
    without = oai.chat.completions.create(**{**KW, "max_tokens": 8})
    assert with_none.choices[0].message.tool_calls is None
    assert with_none.usage.prompt_tokens == without.usage.prompt_tokens
    assert with_none.choices[0].message.content == without.choices[0].message.content
    empty = oai.chat.completions.create(tools=[], **{**KW, "max_tokens": 8})
    assert empty.usage.prompt_tokens == without.usage.prompt_tokens


@pytest.mark.parametrize("strict", [None, True])
def test_auto(oai, strict):
    tools = [tool("weather", WEATHER["function"]["parameters"]["properties"], strict)]
    kw = dict(tools=tools, **KW)
    answer = oai.chat.completions.create(**kw).choices[0]
    check_calls(answer)
    text, arguments = "", {}
    for chunk in oai.chat.completions.create(stream=True, **kw):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or []:
            arguments[call.index] = arguments.get(call.index, "") + call.function.arguments
    assert text == (answer.message.content or "")
    assert list(arguments.values()) == [a for _, a in calls_of(answer.message)]


def test_auto_calls_when_led_to(oai):
    """A call that the model begins itself is parsed as one."""
    lead = [*ASK, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Paris\",\"unit\":\"C\"}"}}]},
        {"role": "tool", "tool_call_id": "call_a", "content": "rain"},
        {"role": "user", "content": "And in Rome? Call the tool again."}]
    answer = oai.chat.completions.create(tools=[WEATHER], **{**KW, "messages": lead})
    check_calls(answer.choices[0])


def test_cut_call_is_length(oai):
    kw = dict(tools=[WEATHER], tool_choice="required", **{**KW, "max_tokens": 12})
    answer = oai.chat.completions.create(**kw)
    assert answer.choices[0].finish_reason == "length"
    chunks = list(oai.chat.completions.create(stream=True, **kw))
    assert chunks[-1].choices[0].finish_reason == "length"
    with pytest.raises(openai.LengthFinishReasonError):
        oai.chat.completions.parse(**{**kw, "tools": [tool("weather", WEATHER["function"]["parameters"]["properties"], True)]})


def test_whole_loop(oai):
    """Ask, call, result, answer: what an agent does."""
    turns = list(ASK)
    first = oai.chat.completions.create(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False,
                                        **{**KW, "messages": turns})
    call = first.choices[0].message.tool_calls[0]
    turns += [first.choices[0].message.model_dump(exclude_none=True),
              {"role": "tool", "tool_call_id": call.id, "content": "18 degrees, sunny"}]
    second = oai.chat.completions.create(tools=[WEATHER], **{**KW, "messages": turns})
    assert second.choices[0].message.content or second.choices[0].message.tool_calls
    assert second.usage.prompt_tokens_details.cached_tokens > 0


def test_words_that_schemas_do_not_know(oai):
    """Clients put "strict" inside of parameters, and annotations of their own everywhere."""
    clock = tool("clock", {"zone": {"type": "string", "maxLength": 10, "format": "zone", "hint": 1},
                           "exact": {"type": "boolean"}}, strict=True)
    clock["function"]["parameters"].update({"strict": True, "optional": ["zone"]})
    answer = oai.chat.completions.create(tools=[clock], tool_choice="required", parallel_tool_calls=False, **KW)
    assert check_calls(answer.choices[0])


def test_arguments_count_as_the_body_does(server):
    """JSON inside of a text: 3 MB that would take some 300 MB."""
    arguments = '{"a":[' + "{}," * 1_000_000 + "1]}"
    answer = server.post("/v1/chat/completions", {"messages": [*ASK, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]}], "max_tokens": 1})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == "messages[1].tool_calls[0].function.arguments" and "2097152 values" in error["message"]


@pytest.mark.parametrize("body, param", [
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "nope"}}}, "tool_choice"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": "maybe"}, "tool_choice"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": "auto"}, "function_call"),
    ({"tools": [tool("bad", {"x": {"type": "strange"}})], "tool_choice": "required"}, "tools"),
])
def test_refused(oai, body, param):
    with pytest.raises(openai.BadRequestError) as e:
        oai.chat.completions.create(**{**KW, "max_tokens": 4}, extra_body=body)
    assert e.value.param.startswith(param), e.value.body


OWN = {"llama3": "llama3", "mistral": "calls-list", "functionary_v32": "functionary-v3", "apertus": "apertus"}


@pytest.fixture(scope="module", params=OWN.items(), ids=OWN)
def own_form(request):
    """A server whose template has another form of calls."""
    name, form = request.param
    template = ROOT / "tests" / "data" / "chat" / "templates" / f"{name}.jinja"
    s = Server(f"tools-{name}", "--chat-template", str(template))
    yield s, form
    assert s.stop() == 0


def test_why_a_form_is_lent(server):
    """The ready block says it in words: the template prints no tools, or calls in a form that is not known."""
    line = "  tools     in the Hermes form, because {}\n"
    none, unknown = "the model's template has none", "whimbrel does not know the form of the model's template"
    assert line.format(none) in server.log() and line.format(unknown) not in server.log()
    s = Server("tools-lent", "--chat-template", str(ROOT / "tests" / "data" / "chat" / "templates" / "glm4.jinja"))
    client = openai_client(s)
    assert client.models.list().data[0].model_dump()["whimbrel"]["tools"] == "fallback (hermes)"
    check_calls(client.chat.completions.create(tools=[WEATHER], tool_choice="required", **KW).choices[0])
    assert s.stop() == 0
    assert line.format(unknown) in s.log() and line.format(none) not in s.log()


def test_the_templates_own_form(own_form):
    """Calls are read in it, and a turn of two calls with results is printed in it."""
    server, form = own_form
    client = openai_client(server)
    assert client.models.list().data[0].model_dump()["whimbrel"]["tools"] == form
    check_calls(client.chat.completions.create(tools=[WEATHER, CLOCK], tool_choice="required", **KW).choices[0])
    with client.chat.completions.stream(tools=[WEATHER], tool_choice="required", **KW) as stream:
        assert check_calls(stream.get_final_completion().choices[0])
    turn = [{"id": f"call_of_any_length_{i}", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
            for i in range(2)]
    results = [{"role": "tool", "tool_call_id": c["id"], "content": f"result {c['id'][-1]}"} for c in turn]
    messages = [*ASK, {"role": "assistant", "content": None, "tool_calls": turn}, *results]
    answer = client.chat.completions.create(tools=[CLOCK], **{**KW, "messages": messages, "max_tokens": 4})
    assert answer.choices[0].finish_reason
    prompt = server.post("/apply-template", {"messages": messages, "tools": [CLOCK]}).json()["prompt"]
    assert prompt.index("result 0") < prompt.index("result 1") and "<tool_call>" not in prompt
