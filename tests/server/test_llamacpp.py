# SPDX-License-Identifier: Apache-2.0
"""The routes of llama.cpp's own server, read as its clients read them."""
import json

import pytest

PROMPT = "One, two, three,"
GREEDY = {"prompt": PROMPT, "temperature": 0, "n_predict": 12}


def ask(server, path="/completion", **body):
    answer = server.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(server, **body):
    """The events' objects; every line is data, and nothing follows the last one."""
    with server.http.stream("POST", "/completion", json={**body, "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines]


def test_completion_is_that_of_openai(server, oai):
    whole = ask(server, **GREEDY, return_tokens=True)
    plain = oai.completions.create(model="any", prompt=PROMPT, max_tokens=12, temperature=0)
    assert whole["content"] == plain.choices[0].text and whole["stop"] is True
    assert whole["tokens_predicted"] == len(whole["tokens"]) == whole["timings"]["predicted_n"] == 12
    assert whole["tokens_evaluated"] == plain.usage.prompt_tokens
    assert whole["timings"]["prompt_n"] + whole["timings"]["cache_n"] == plain.usage.prompt_tokens
    assert whole["stop_type"] == "limit" and whole["stopping_word"] == "" and whole["truncated"] is False
    assert whole["prompt"].endswith(PROMPT) and whole["model"] == server.model
    assert whole["generation_settings"]["n_predict"] == 12 and whole["generation_settings"]["temperature"] == 0
    assert ask(server, **GREEDY)["tokens"] == []
    speed = whole["timings"]  # of the tokens behind the first one
    assert abs(speed["predicted_per_second"] * speed["predicted_ms"] / 1000 - 11) < 0.01
    one = ask(server, **{**GREEDY, "n_predict": 1})["timings"]
    assert one["predicted_n"] == 1 and one["predicted_per_second"] == one["predicted_per_token_ms"] == 0


def test_stream_is_the_whole(server):
    whole = ask(server, **GREEDY, return_tokens=True)
    pieces = stream(server, **GREEDY)
    assert [p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True]
    assert "".join(p["content"] for p in pieces) == whole["content"]
    assert [t for p in pieces for t in p["tokens"]] == whole["tokens"]
    last = pieces[-1]
    assert last["timings"]["predicted_n"] == 12 and last["has_new_line"] == ("\n" in whole["content"])


def test_stops_bias_and_probabilities(server):
    text = ask(server, **GREEDY)["content"]
    word = text.split()[1].strip(",")
    stopped = ask(server, **GREEDY, stop=[word])
    assert stopped["content"] == text[:text.index(word)]
    assert stopped["stop_type"] == "word" and stopped["stopping_word"] == word
    told = ask(server, **GREEDY, n_probs=3, return_tokens=True)
    first = told["completion_probabilities"][0]
    assert first["id"] == told["tokens"][0] and first["top_logprobs"][0]["id"] == first["id"]
    assert len(first["top_logprobs"]) == 3 and len(told["completion_probabilities"]) == 12
    other = ask(server, **GREEDY, logit_bias=[[first["id"], False]], return_tokens=True)
    assert other["tokens"][0] == first["top_logprobs"][1]["id"]
    for bias in {str(first["id"]): False}, {first["token"]: -100}, [[first["token"], -100]]:
        assert ask(server, **GREEDY, logit_bias=bias, return_tokens=True)["tokens"][0] == other["tokens"][0]


def test_several_prompts_and_forms(server):
    both = ask(server, **{**GREEDY, "prompt": [PROMPT, "The sea is"]})
    assert [b["index"] for b in both] == [0, 1] and both[0]["content"] == ask(server, **GREEDY)["content"]
    held = ask(server, **GREEDY, grammar='root ::= " four" | " five"')
    assert held["content"] in (" four", " five") and held["stop_type"] == "eos"
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
    assert set(json.loads(ask(server, **{**GREEDY, "n_predict": 30}, json_schema=schema)["content"])) == {"a"}
    nothing = ask(server, **{**GREEDY, "n_predict": 0})
    assert nothing["content"] == "" and nothing["tokens_predicted"] == 0


def test_about_the_server(server):
    props = server.http.get("/props").json()
    slots = server.http.get("/slots").json()
    assert props["total_slots"] == len(slots) > 0 and props["model_alias"] == server.model
    assert props["default_generation_settings"]["n_ctx"] == slots[0]["n_ctx"] > 0
    assert "{" in props["chat_template"] and props["modalities"] == {"vision": False, "audio": False}
    assert server.http.get("/slots", params={"fail_on_no_slot": 1}).status_code == 200
    assert server.http.post("/props", json={}).status_code == 405


@pytest.mark.parametrize("path, body, word", [
    ("/completion", {"prompt": "a", "n_predict": -3}, "n_predict"),
    ("/completion", {"prompt": "a", "mirostat": 2}, "mirostat"),
    ("/completion", {"prompt": "a", "logit_bias": [[1]]}, "logit_bias"),
    ("/completion", {}, "prompt"),
    ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "fill-in-the-middle")])
def test_refusals(server, path, body, word):
    answer = server.http.post(path, json=body)
    assert answer.status_code == 400 and word in answer.json()["error"]["message"]
