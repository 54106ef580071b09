# SPDX-License-Identifier: Apache-2.0
"""The table of errors: status, type, code, param, in each dialect, as the clients see them."""
import re

import anthropic
import openai
import pytest

from conftest import KEY, SMALL_CTX, anthropic_client, openai_client

ASK = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("body, param", [
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "", "content": "x"}]}, "messages"),
    ({"messages": [{"content": "x"}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -2}, "max_tokens"),
    ({"max_tokens": "100"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "0"}, "temperature"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 2.1}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"seed": 1.5}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop"),
    ({"stop": ["a"] * 65}, "stop"),
    ({"stop": "x" * 1025}, "stop"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 1}, "logprobs"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": 1, "stream": True}, "stream_options"),
    ({"tools": {}}, "tools"),
    ({"audio": {}}, "audio"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"reasoning_effort": "huge"}, "reasoning_effort"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"model": 5}, "model"),
    ({"priority": "first"}, "priority"),
    ({"continue_final_message": True, "add_generation_prompt": True,
      "messages": [*ASK, {"role": "assistant", "content": "x"}]}, None),
])
def test_bad_fields(oai, body, param):
    with pytest.raises(openai.BadRequestError) as e:
        oai.chat.completions.create(model="any", messages=ASK, extra_body=body)
    assert e.value.type == "invalid_request_error" and e.value.code in (None, "invalid_value")
    assert param is None or e.value.param.startswith(param), e.value.body


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\"x\"", b"{\"a\":1}x", b"{'a':1}", b"\xff\xfe",
                                  b"{\"messages\": NaN}", b"[" * 100000, b"{\"a\":" * 200 + b"1" + b"}" * 200,
                                  b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
                                  b"{\"seed\": 9223372036854775808}"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"])
def test_bad_json(server, path, body):
    answer = server.post(path, body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_streams_are_refused_before_they_begin(server):
    for body in ({"max_tokens": 0}, {"tools": [{}]}, {"response_format": {"type": "x"}}):
        answer = server.post("/v1/chat/completions", {"messages": ASK, "stream": True, **body})
        assert answer.status_code == 400 and answer.headers["content-type"].startswith("application/json")


def test_context(small):
    text = "word " * 600
    with pytest.raises(openai.BadRequestError) as e:
        openai_client(small, KEY).chat.completions.create(model="org/tiny", messages=[{"role": "user", "content": text}],
                                                          stream=True)
    assert e.value.code == "context_length_exceeded"
    assert f"maximum context length is {SMALL_CTX} tokens" in e.value.message and "--ctx" in e.value.message
    ant = anthropic_client(small, KEY)
    n = ant.messages.count_tokens(model="org/tiny", messages=[{"role": "user", "content": text}]).input_tokens
    assert str(n) in e.value.message
    with pytest.raises(anthropic.BadRequestError) as e:
        ant.messages.create(model="org/tiny", max_tokens=5, messages=[{"role": "user", "content": text}])
    assert e.value.body["error"]["message"].startswith(f"prompt is too long: {n} tokens > {SMALL_CTX - 1} maximum")
    with pytest.raises(openai.BadRequestError) as e:
        openai_client(small, KEY).completions.create(model="org/tiny", prompt=text)
    assert e.value.code == "context_length_exceeded"


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", lambda text: {"messages": [{"role": "user", "content": text}]}),
    ("/v1/completions", lambda text: {"prompt": text}),
    ("/v1/responses", lambda text: {"input": text}),
    ("/v1/messages", lambda text: {"max_tokens": 1, "messages": [{"role": "user", "content": text}]}),
    ("/v1/messages/count_tokens", lambda text: {"messages": [{"role": "user", "content": text}]}),
    ("/api/chat", lambda text: {"messages": [{"role": "user", "content": text}], "stream": False}),
    ("/api/generate", lambda text: {"prompt": text, "stream": False}),
    ("/completion", lambda text: {"prompt": text}),
    ("/tokenize", lambda text: {"prompt": text}),
    ("/tokenize", lambda text: {"messages": [{"role": "user", "content": text}]}),
])
def test_text_that_cannot_fit(small, path, body):
    """A text that is too long whatever it says is refused before it is cut into tokens."""
    answer = small.post(path, {"model": "org/tiny", **body("word " * 60000)}, headers={"x-api-key": KEY})
    assert answer.status_code == 400
    assert re.search(r"prompt is too long: at least \d+ tokens > \d+ maximum; a text of \d+ bytes cannot", answer.text)


def test_context_end(small):
    """A prompt just under the limit is taken; the answer ends at the limit."""
    oai, ant = openai_client(small, KEY), anthropic_client(small, KEY)

    def turns(n):
        return [{"role": "user", "content": "word " * n}]

    def count(n):
        return ant.messages.count_tokens(model="org/tiny", messages=turns(n)).input_tokens
    n = SMALL_CTX - 3 - (count(100) - 100)
    assert count(n) == SMALL_CTX - 3
    answer = oai.chat.completions.create(model="org/tiny", messages=turns(n), max_tokens=100, temperature=0,
                                         extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length" and answer.usage.total_tokens == SMALL_CTX
    message = ant.messages.create(model="org/tiny", messages=turns(n), max_tokens=100, extra_body={"ignore_eos": True})
    assert message.stop_reason == "model_context_window_exceeded"
    with pytest.raises(openai.BadRequestError):
        oai.chat.completions.create(model="org/tiny", messages=turns(n + 3))
    assert oai.chat.completions.create(model="org/tiny", messages=turns(n + 2)).usage.completion_tokens == 1


def test_keys(small):
    for key in ("", "wrong", KEY[:-1], KEY + "x"):
        with pytest.raises(openai.AuthenticationError) as e:
            openai_client(small, key or "none").models.list()
        assert e.value.code == "invalid_api_key" and e.value.type == "invalid_request_error"
        assert e.value.response.headers["www-authenticate"].startswith("Bearer")
    with pytest.raises(anthropic.AuthenticationError) as e:
        anthropic_client(small, "wrong").messages.create(model="x", max_tokens=1, messages=ASK)
    assert e.value.body["error"]["type"] == "authentication_error"
    for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"authorization": f"bearer {KEY}"},
                    {"x-api-key": "another-key"}):
        assert small.http.get("/v1/models", headers=headers).status_code == 200
    for path in ("/v1/models", "/version", "/openapi.json", "/tokenize", "/no/such/route"):
        assert small.http.get(path).status_code == 401
    for path in ("/livez", "/readyz", "/health"):
        assert small.http.get(path).status_code == 200
    assert small.http.options("/v1/models", headers={"origin": "http://localhost:3000"}).status_code in (200, 204)


def test_body_too_large(small):
    body = b"{\"messages\":\"" + b"x" * (1 << 20) + b"\"}"
    answer = small.post("/v1/chat/completions", body, headers={"x-api-key": KEY})
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "request_too_large"
    answer = small.post("/v1/messages", body, headers={"x-api-key": KEY})
    assert answer.status_code == 413 and answer.json()["error"]["type"] == "request_too_large"
