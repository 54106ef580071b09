# SPDX-License-Identifier: Apache-2.0
"""/v1/models for both dialects, /version, /openapi.json, health."""
import anthropic
import openai
import pytest

from conftest import KEY, anthropic_client, openai_client


def test_openai(oai, server):
    models = list(oai.models.list())
    assert [m.id for m in models] == [server.model] and models[0].object == "model"
    assert oai.models.retrieve(server.model) == models[0]
    assert models[0].created == list(oai.models.list())[0].created
    with pytest.raises(openai.NotFoundError) as e:
        oai.models.retrieve("no-such-model")
    assert e.value.code == "model_not_found"


def test_anthropic(ant, server):
    models = list(ant.models.list())
    assert [m.id for m in models] == [server.model] and models[0].type == "model"
    assert ant.models.retrieve(server.model).display_name == server.model


def test_body(server):
    body = server.http.get("/v1/models").json()
    assert set(body) == {"object", "data", "has_more", "first_id", "last_id"}
    model = body["data"][0]
    assert {"root", "parent", "max_model_len", "context_length", "lifecycle", "max_input_tokens", "max_tokens",
            "created_at", "owned_by", "whimbrel"} <= set(model)
    assert '"temperature":0.8,' in server.http.get("/v1/models").text
    assert model["max_model_len"] == 8192 and model["whimbrel"]["tools"].startswith("fallback")
    assert model["whimbrel"]["demo"] is True  # the default model


def test_id_with_slash(small):
    client = openai_client(small, KEY)
    assert client.models.retrieve("org/tiny").id == "org/tiny"
    assert client.models.retrieve("org/tiny").whimbrel["demo"] is True  # under another name, too
    for path in ("/v1/models/org/tiny", "/v1/models/org%2Ftiny", "/models/org%2ftiny/"):
        assert small.http.get(path, headers={"x-api-key": KEY}).json()["id"] == "org/tiny"


def test_strict_model(small):
    client = openai_client(small, KEY)
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "x"}])
    assert e.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError) as e:
        anthropic_client(small, KEY).messages.create(model="x", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert e.value.body["error"]["type"] == "not_found_error"
    answer = client.chat.completions.create(model="org/tiny", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert answer.model == "org/tiny"


def test_version_and_description(server):
    assert {"version", "commit"} <= set(server.http.get("/version").json())
    paths = server.http.get("/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
            "/v1/models", "/tokenize", "/detokenize", "/apply-template", "/livez", "/readyz", "/health"} <= set(paths)


def test_tokenizer_info(server):
    info = server.http.get("/tokenizer_info").json()
    assert info == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    one = server.post("/tokenize", {"prompt": info["eos_token"], "add_special_tokens": False}).json()["tokens"]
    assert len(one) == 1 and server.post("/detokenize", {"tokens": one}).json()["prompt"] == info["eos_token"]


def test_health(server):
    assert server.http.get("/livez").json() == {"status": "ok"}
    assert server.http.get("/readyz").json() == {"status": "ready"}
    health = server.http.get("/health").json()
    assert health["status"] == "ready" and health["model"] == server.model
    for path in ("/livez", "/readyz", "/health"):
        assert server.http.head(path).status_code == 200
