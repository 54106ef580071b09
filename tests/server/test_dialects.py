# SPDX-License-Identifier: Apache-2.0
"""Fields of other servers: what they ask for is done, or refused by name; nothing is dropped."""
import json
import re

import httpx
import jsonschema
import openai
import pytest

ASK = [{"role": "user", "content": "Say a number."}]
KW = {"model": "any", "messages": ASK, "temperature": 0, "max_tokens": 24}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"]}


def tokens_of(oai, text):
    url = str(oai.base_url).removesuffix("v1/") + "tokenize"
    return httpx.post(url, json={"prompt": text, "add_special_tokens": False}, timeout=300).json()["tokens"]


@pytest.mark.parametrize("fields", [
    {"json_schema": SCHEMA},
    {"guided_json": SCHEMA},
    {"guided_json": json.dumps(SCHEMA)},
    {"structured_outputs": {"json": SCHEMA}},
    {"response_format": {"type": "json_object", "schema": SCHEMA}},
    {"response_format": {"type": "json_object", "json_schema": {"schema": SCHEMA}}},
    {"response_format": {"type": "json_object", "value": SCHEMA}},
    {"response_format": {"type": "json", "value": SCHEMA}},
])
def test_schemas_hold(oai, fields):
    answer = oai.chat.completions.create(extra_body=fields, **KW).choices[0]
    jsonschema.validate(json.loads(answer.message.content), SCHEMA)


LIST = 'root ::= "[" list "]"\nlist ::= num | num "," list  # no blanks\nnum ::= [1-9] [0-9]{0,2}'


@pytest.mark.parametrize("fields, pattern", [
    ({"grammar": LIST}, r"\[([1-9]\d{0,2},)*([1-9]\d{0,2})?\]?"),
    ({"ebnf": 'root ::= "yes" | "no"'}, "yes|no"),
    ({"guided_grammar": 'root ::= root "x" | "y"'}, "yx*"),
    ({"structured_outputs": {"grammar": 'root ::= "(" root ")" | "z"'}}, r"\(*z?\)*"),
    ({"guided_regex": "[xy]{3}"}, "[xy]{3}"),
    ({"response_format": {"type": "regex", "value": "[xy]{3}"}}, "[xy]{3}"),
    ({"structured_outputs": {"regex": "[xy]{3}"}}, "[xy]{3}"),
    ({"guided_choice": ["seven", "nine"]}, "seven|nine"),
    ({"structured_outputs": {"choice": ["seven", "nine"]}}, "seven|nine"),
])
def test_texts_hold(oai, fields, pattern):
    chat = oai.chat.completions.create(extra_body=fields, **KW).choices[0].message.content
    raw = oai.completions.create(model="any", prompt="A number: ", temperature=0, max_tokens=24,
                                 extra_body=fields).choices[0].text
    assert re.fullmatch(pattern, chat) and re.fullmatch(pattern, raw)


@pytest.mark.parametrize("fields, param", [
    ({"guided_regex": "("}, "guided_regex"),
    ({"grammar": "root ::= [a-"}, "grammar"),
    ({"guided_grammar": "start: /a/"}, "guided_grammar"),
    ({"structured_outputs": {"grammar": "root ::= x"}}, "structured_outputs.grammar"),
    ({"ebnf": 'root ::= "a"', "regex": "a"}, "ebnf"),
    ({"guided_json": {"not": {}}}, "guided_json"),
    ({"response_format": {"type": "json_object", "json_schema": {"name": "n"}}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_object", "schema": {}, "value": {}}}, "response_format.value"),
    ({"response_format": {"type": "regex"}}, "response_format.value"),
    ({"guided_regex": "a", "regex": "a"}, "guided_regex"),
    ({"xtc_probability": 1.5}, "xtc_probability"),
    ({"mirostat": 2}, "mirostat"),
    ({"use_beam_search": True}, "use_beam_search"),
    ({"prompt_logprobs": 1}, "prompt_logprobs"),
])
def test_the_rest_is_refused_by_name(oai, fields, param):
    with pytest.raises(openai.BadRequestError) as refused:
        oai.chat.completions.create(extra_body=fields, **KW)
    assert refused.value.param == param


def test_only_allowed_tokens_come(oai):
    ids = tokens_of(oai, " red green blue")
    for how in {"temperature": 0}, {"temperature": 2, "seed": 5}:
        made = oai.completions.create(model="any", prompt="Colours:", max_tokens=12, **how, extra_body={
            "allowed_token_ids": ids, "return_token_ids": True}).choices[0]
        assert made.model_extra["token_ids"] and set(made.model_extra["token_ids"]) <= set(ids)


def test_bad_words_do_not_come(oai):
    ask = {"model": "any", "prompt": "One, two, three, four, five,", "temperature": 0, "max_tokens": 16}
    plain = oai.completions.create(**ask).choices[0].text
    words = re.findall(r"[A-Za-z0-9]{2,}", plain)[:3]
    held = oai.completions.create(extra_body={"bad_words": words}, **ask).choices[0].text
    assert words and all(w in plain and not re.search(rf"(^| ){w}", held) for w in words)


def test_dry_ends_a_circle(oai):
    ask = {"model": "any", "prompt": "abcd efgh ijkl " * 8, "temperature": 0, "max_tokens": 24}
    heavy = {"dry_multiplier": 1000, "dry_allowed_length": 3, "dry_sequence_breakers": ["\n"], "return_token_ids": True}
    made = oai.completions.create(extra_body=heavy, **ask).choices[0].model_extra["token_ids"]
    ids = tokens_of(oai, ask["prompt"]) + made
    fours = [tuple(ids[i:i + 4]) for i in range(len(ids) - 3)]
    newline = set(tokens_of(oai, "\n"))
    late = [f for f in fours[-len(made):] if not newline & set(f)]
    assert late and all(fours.count(f) == 1 for f in late)
    nothing = {"dry_multiplier": 0.8, "dry_penalty_last_n": 0}
    plain = oai.completions.create(**ask).choices[0].text
    assert oai.completions.create(extra_body=nothing, **ask).choices[0].text == plain


def test_xtc_leaves_out_the_obvious(oai):
    ask = {"model": "any", "prompt": "One, two, three, four, five,", "max_tokens": 12, "temperature": 0.3, "seed": 3}
    plain = oai.completions.create(**ask).choices[0].text
    off = oai.completions.create(extra_body={"xtc_probability": 1, "xtc_threshold": 0.6}, **ask).choices[0].text
    assert off == plain  # no two tokens have more than half
    out = {"xtc_probability": 1, "xtc_threshold": 1e-4}
    held = oai.completions.create(extra_body=out, **ask).choices[0].text
    assert held != plain and oai.completions.create(extra_body=out, **ask).choices[0].text == held


def test_the_end_of_a_prompt_is_kept(oai):
    ask = {"model": "any", "temperature": 0, "max_tokens": 8}
    ids = tokens_of(oai, "One, two, three, four, five, six, seven,")
    short = oai.completions.create(prompt=ids[-6:], **ask)
    cut = oai.completions.create(prompt=ids, extra_body={"truncate_prompt_tokens": 6}, **ask)
    assert cut.choices[0].text == short.choices[0].text and cut.usage.prompt_tokens == 6
    echoed = oai.completions.create(prompt=ids, echo=True, extra_body={"truncate_prompt_tokens": 6}, **ask)
    assert echoed.choices[0].text == oai.completions.create(prompt=ids[-6:], echo=True, **ask).choices[0].text
    text = {"prompt": "One, two, three, four, five, six, seven,", "echo": True}
    echoed = oai.completions.create(**text, extra_body={"truncate_prompt_tokens": 6}, **ask)
    assert echoed.choices[0].text == oai.completions.create(**{**text, "prompt": ids[-6:]}, **ask).choices[0].text
    long = oai.completions.create(prompt=ids * 2000, extra_body={"truncate_prompt_tokens": 6}, **ask)
    assert long.choices[0].text == short.choices[0].text  # longer than the context before it is cut


def test_what_changes_nothing_is_taken(oai):
    plain = oai.chat.completions.create(**KW).choices[0].message.content
    idle = {"mirostat": 0, "dry_multiplier": 0, "xtc_probability": 0, "use_beam_search": False, "guided_json": None}
    assert oai.chat.completions.create(extra_body=idle, **KW).choices[0].message.content == plain


def test_minus_one_is_no_limit(oai):
    limits = {"temperature": 0, "max_tokens": -1, "extra_body": {"regex": "[xy]{300}"}}
    raw = oai.completions.create(model="any", prompt="x", **limits).choices[0]
    chat = oai.chat.completions.create(model="any", messages=ASK, **limits).choices[0]
    assert len(raw.text) == len(chat.message.content) == 300
    assert raw.finish_reason == chat.finish_reason == "stop"


# A request of each route, with one token to make.
ROUTES = {
    "/v1/chat/completions": {"messages": ASK, "max_tokens": 1},
    "/v1/completions": {"prompt": "x", "max_tokens": 1},
    "/v1/responses": {"input": "x", "max_output_tokens": 1},
    "/v1/messages": {"messages": ASK, "max_tokens": 1},
    "/completion": {"prompt": "x", "n_predict": 1},
    "/api/chat": {"messages": ASK, "stream": False, "options": {"num_predict": 1}},
    "/api/generate": {"prompt": "x", "stream": False, "options": {"num_predict": 1}},
}


@pytest.mark.parametrize("route, fields, names", [
    ("/v1/chat/completions", {"thinking": {"type": "disabled"}, "max_output_tokens": 9, "verbosity": "low"},
     "thinking,max_output_tokens,verbosity"),
    ("/v1/completions", {"max_completion_tokens": 9, "tools": []}, "max_completion_tokens,tools"),
    ("/v1/responses", {"max_tokens": 9, "top_logprobs": 2, "reasoning": {"effort": "low", "max_tokens": 5}},
     "max_tokens,top_logprobs,reasoning.max_tokens"),
    ("/v1/responses", {"truncation": "auto"}, "truncation"),
    ("/v1/messages", {"stop": ["x"], "reasoning_effort": "low", "n": 2}, "stop,reasoning_effort,n"),
    ("/v1/messages", {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management"),
    ("/completion", {"stop_sequences": ["x"], "stream_options": {}}, "stop_sequences,stream_options"),
    ("/completion", {"samplers": ["top_k"], "repeat_last_n": 64, "min_keep": 1, "t_max_predict_ms": 9,
                     "timings_per_token": True}, "samplers,repeat_last_n,min_keep,t_max_predict_ms,timings_per_token"),
    ("/api/chat", {"max_tokens": 9, "options": {"num_predict": 1, "temprature": 1, "repeat_last_n": 64}},
     "max_tokens,options.temprature,options.repeat_last_n"),
    ("/api/generate", {"messages": ASK, "stop": ["x"]}, "messages,stop"),
])
def test_what_a_route_does_not_read_is_logged(server, route, fields, names):
    answer = server.post(route, {**ROUTES[route], **fields})
    assert answer.status_code == 200
    told = server.wait_log(rf"event=unknown_fields id={answer.headers['x-request-id']} n=\d+ names=(\S+)")
    assert told.group(1) == names


@pytest.mark.parametrize("route", ROUTES)
def test_what_has_no_effect_is_silent(server, route):
    quiet = {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "samplers": [],
             "repeat_last_n": -1, "t_max_predict_ms": 0, "timings_per_token": False, "chat_id": None}
    answer = server.post(route, {**ROUTES[route], **quiet})
    assert answer.status_code == 200
    identity = answer.headers["x-request-id"]
    server.request_line(identity)
    assert f"event=unknown_fields id={identity}" not in server.log()


FORMS = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "format": SCHEMA,
    "output_format": {"type": "json_schema", "schema": SCHEMA},
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
}


@pytest.mark.parametrize("route", ROUTES)
def test_no_form_is_dropped(server, route):
    """Each is served, or refused by its name: a free text is never the answer."""
    for name, form in {**FORMS, "json_schema": SCHEMA, "guided_json": SCHEMA}.items():
        ask = {k: v for k, v in ROUTES[route].items() if k not in ("max_tokens", "max_output_tokens", "n_predict")}
        if route == "/v1/messages":
            ask["max_tokens"] = 24
        if "options" in ask:
            ask["options"] = {"num_predict": 24}
        answer = server.post(route, {**ask, "temperature": 0, name: form})
        if answer.status_code == 400:
            assert f'\\"{name}\\"' in answer.text and "json_schema" in answer.text
        else:
            assert answer.status_code == 200 and re.search(r'\{\\"n\\": ?\d+\}', answer.text), (name, answer.text)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("field, value", [
    ("stop_regex", "x"), ("no_stop_trim", True), ("custom_logit_processor", "x"), ("lora_path", "x"),
    ("input_ids", [1, 2]), ("adaptive_target", 0.5), ("watermarking", True), ("top_n_sigma", 1.5), ("mirostat", 1),
])
def test_what_would_change_an_answer_is_refused_everywhere(server, route, field, value):
    answer = server.post(route, {**ROUTES[route], field: value})
    assert answer.status_code == 400 and field in answer.text
