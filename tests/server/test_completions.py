# SPDX-License-Identifier: Apache-2.0
"""/v1/completions, /tokenize and /detokenize through the OpenAI client."""
import openai
import pytest

from conftest import openai_client

PROMPT = "The sea is"


@pytest.fixture(scope="module")
def loose(server):
    """The client's own types forbid the nulls of echo with logprobs, and those of a chunk's finish."""
    return openai_client(server, strict=False)


def make(client, prompt=PROMPT, **kw):
    return client.completions.create(**{"model": "any", "prompt": prompt, "temperature": 0, "max_tokens": 8, **kw})


def test_text(oai, loose):
    answer = make(oai)
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 8
    streamed = "".join(c.text for chunk in make(loose, stream=True) for c in chunk.choices)
    assert streamed == answer.choices[0].text
    default = oai.completions.create(model="any", prompt=PROMPT, temperature=0)
    assert default.usage.completion_tokens == 16


def test_list_and_n(oai, loose):
    prompts = [PROMPT, "Birds can", "One, two,"]
    answer = make(oai, prompts)
    assert [c.text for c in answer.choices] == [make(oai, p).choices[0].text for p in prompts]
    both = make(oai, prompts[:2], n=2, temperature=1.5, seed=3)
    assert len(both.choices) == 4
    texts = [""] * 4
    for chunk in make(loose, prompts[:2], n=2, temperature=1.5, seed=3, stream=True,
                      stream_options={"include_usage": True}):
        for c in chunk.choices:
            texts[c.index] += c.text
    assert texts == [c.text for c in both.choices]


def test_ids(oai, server):
    ids = server.post("/tokenize", {"prompt": PROMPT}).json()["tokens"]
    text = make(oai).choices[0].text
    assert make(oai, ids).choices[0].text == text
    answer = make(oai, [ids, ids[:2]], extra_body={"return_token_ids": True})
    assert answer.choices[0].text == text
    assert [c.prompt_token_ids for c in answer.choices] == [ids, ids[:2]]


def test_round_trip(oai, loose, server):
    """What the model said, as ids and as text, through /tokenize and /detokenize."""
    answer = make(oai, extra_body={"return_token_ids": True})
    ids = answer.choices[0].token_ids
    assert len(ids) == 8
    assert server.post("/detokenize", {"tokens": ids}).json()["prompt"] == answer.choices[0].text
    for text in ("Grüße, 世界! 🦆", "  two  blanks\n\n\ttab", "<|im_start|>user\nhi<|im_end|>\n", "a\u0000b"):
        tokens = server.post("/tokenize", {"prompt": text}).json()
        assert tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] == 8192
        assert server.post("/detokenize", {"tokens": tokens["tokens"]}).json()["prompt"] == text
    streamed = [i for chunk in make(loose, stream=True, extra_body={"return_token_ids": True})
                for c in chunk.choices for i in getattr(c, "token_ids", None) or []]
    assert streamed == ids


def test_pieces(server):
    pieces = server.post("/tokenize", {"content": "Hello \U0001F9FF", "with_pieces": True}).json()["tokens"]
    joined = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
    assert joined.decode() == "Hello \U0001F9FF" and any(isinstance(p["piece"], list) for p in pieces)
    plain = server.post("/tokenize", {"content": "Hello \U0001F9FF"}).json()["tokens"]
    assert [p["id"] for p in pieces] == plain
    assert server.post("/detokenize", {"tokens": plain}).json()["content"] == "Hello \U0001F9FF"
    assert server.post("/tokenize", {"content": "", "with_pieces": True}).json()["tokens"] == []


def test_special_tokens(server):
    text = "<|im_start|>user"
    marked = server.post("/tokenize", {"prompt": text}).json()["tokens"]
    plain = server.post("/tokenize", {"prompt": text, "parse_special": False}).json()["tokens"]
    assert len(marked) < len(plain)
    chat = server.post("/tokenize", {"messages": [{"role": "user", "content": "<|im_end|>"}]}).json()
    assert chat["tokens"].count(marked[0]) == 3  # system, user, assistant: user text makes no special token
    strs = server.post("/tokenize", {"prompt": "Hello world", "return_token_strs": True}).json()["token_strs"]
    assert strs == ["Hello", "\u0120world"]
    content = server.post("/tokenize", {"content": "Hello world"}).json()["tokens"]
    assert content == server.post("/tokenize", {"prompt": "Hello world", "add_special_tokens": False}).json()["tokens"]
    ask = {"messages": [{"role": "user", "content": "Hi"}]}
    opened, closed = (server.post("/apply-template", {**ask, "add_generation_prompt": add}).json()["prompt"]
                      for add in (True, False))
    assert opened.startswith(closed) and opened[len(closed):].startswith("<|im_start|>assistant")
    assert server.post("/tokenize", {**ask, "add_generation_prompt": False}).json()["tokens"] == server.post(
        "/tokenize", {"prompt": closed, "add_special_tokens": False}).json()["tokens"]


def test_logprobs(oai, loose):
    answer = make(oai, logprobs=3)
    lp = answer.choices[0].logprobs
    assert "".join(lp.tokens) == answer.choices[0].text and len(lp.tokens) == 8
    assert lp.text_offset == [sum(map(len, lp.tokens[:i])) for i in range(8)]
    assert all(t == max(top, key=top.get) for t, top in zip(lp.tokens, lp.top_logprobs))
    streamed = {"tokens": [], "token_logprobs": [], "text_offset": []}
    for chunk in make(loose, logprobs=3, stream=True):
        for c in chunk.choices:
            for key in streamed if c.logprobs else ():
                streamed[key] += getattr(c.logprobs, key)
    assert streamed["tokens"] == lp.tokens and streamed["token_logprobs"] == lp.token_logprobs
    assert streamed["text_offset"] == lp.text_offset
    assert make(oai, logprobs=0).choices[0].logprobs.token_logprobs == lp.token_logprobs


def test_echo_as_lm_eval(loose, server):
    """lm-eval's local-completions: id prompts, echo, one token more, logprobs 1; the score is a sum over the prompt."""
    texts = ["The capital of France is Paris", "The capital of France is banana", "Öl und Wasser 水"]
    ids = [server.post("/tokenize", {"prompt": t}).json()["tokens"] for t in texts]
    answer = make(loose, ids, echo=True, max_tokens=1, logprobs=1, seed=1234)
    scores = []
    for choice, text, prompt in zip(answer.choices, texts, ids):
        lp = choice.logprobs
        assert choice.text.startswith(text) and len(lp.tokens) == len(prompt) + 1
        assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
        assert lp.text_offset[0] == 0 and lp.text_offset[-1] <= len(choice.text)
        scores.append(sum(lp.token_logprobs[1:-1]))
    assert scores[0] > scores[1] + 2
    only = make(loose, ids, echo=True, max_tokens=0, logprobs=1)
    for a, b in zip(answer.choices, only.choices):
        assert a.logprobs.token_logprobs[:-1] == b.logprobs.token_logprobs
    alone = make(loose, ids[1], echo=True, max_tokens=1, logprobs=1)
    assert alone.choices[0].logprobs.token_logprobs == answer.choices[1].logprobs.token_logprobs


def test_echo_scores_what_generation_says(oai, loose):
    """The probability of an answer's tokens is the same when they are sent as a prompt."""
    made = make(oai, logprobs=1, extra_body={"return_token_ids": True}).choices[0]
    again = make(loose, made.prompt_token_ids + made.token_ids, echo=True, max_tokens=0, logprobs=1).choices[0]
    want = made.logprobs.token_logprobs
    assert again.logprobs.token_logprobs[-len(want):] == pytest.approx(want, abs=1e-5)


def test_echo_text(oai, loose):
    plain = make(oai)
    assert make(oai, echo=True).choices[0].text == PROMPT + plain.choices[0].text
    streamed = "".join(c.text for chunk in make(loose, echo=True, stream=True) for c in chunk.choices)
    assert streamed == PROMPT + plain.choices[0].text


def test_stop(oai):
    free = make(oai, "one, two, three,", max_tokens=20).choices[0].text
    assert "six" in free
    cut = make(oai, "one, two, three,", max_tokens=20, stop=" six").choices[0]
    assert cut.text == free[:free.index(" six")] and cut.finish_reason == "stop"


@pytest.mark.parametrize("body, param", [
    ({"suffix": "end"}, "suffix"),
    ({"best_of": 3}, "best_of"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, None),
    ({"prompt": [1, "a"]}, None),
    ({"prompt": [999999]}, None),
    ({"prompt": [-1]}, None),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"logprobs": 21}, "logprobs"),
    ({"n": 129}, "n"),
])
def test_refused(oai, body, param):
    with pytest.raises(openai.BadRequestError) as e:
        make(oai, **body)
    assert param is None and e.value.param.startswith("prompt") or e.value.param == param


def test_prompt_missing(server):
    assert server.post("/v1/completions", {"max_tokens": 1}).json()["error"]["param"] == "prompt"
    assert server.post("/v1/completions", {"prompt": None}).status_code == 400


def test_empty_prompt(server):
    """The model's first token if it has one, else a 400."""
    answer = server.post("/v1/completions", {"prompt": "", "max_tokens": 1})
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] == "prompt"


def test_too_many_prompts(server):
    answer = server.post("/v1/completions", {"prompt": ["a"] * 65, "n": 2})
    assert answer.status_code == 400
