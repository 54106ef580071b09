# SPDX-License-Identifier: Apache-2.0
"""/v1/chat/completions through the OpenAI client."""
import concurrent.futures

import openai
import pytest

ASK = [{"role": "user", "content": "Name three birds that live by the sea."}]
GREEDY = {"model": "any", "temperature": 0, "max_tokens": 24}


def collect(stream, n=1):
    """Streamed text and finish of each choice, and the usage."""
    texts, finishes, usage = [""] * n, [None] * n, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            finishes[choice.index] = choice.finish_reason or finishes[choice.index]
    return texts, finishes, usage


def text_of(answer):
    return answer.choices[0].message.content


def test_answer(oai, server):
    answer = oai.chat.completions.create(messages=ASK, **GREEDY)
    assert answer.model == server.model
    assert text_of(answer) and answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 24
    assert answer.choices[0].message.tool_calls is None


def test_stream_equals_answer(oai):
    whole = oai.chat.completions.create(messages=ASK, **GREEDY)
    texts, finishes, usage = collect(oai.chat.completions.create(messages=ASK, stream=True, **GREEDY))
    assert texts == [text_of(whole)] and finishes == ["length"] and usage is None


def test_stream_and_batch_equal_solo(oai):
    """The same bits alone, streamed, and among eight others."""
    solo = text_of(oai.chat.completions.create(messages=ASK, **GREEDY))
    others = [[{"role": "user", "content": f"Tell me about the number {i}, please, in a few words."}]
              for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        jobs = [pool.submit(oai.chat.completions.create, messages=m, **GREEDY) for m in [*others[:4], ASK, *others[4:]]]
        texts = [text_of(j.result()) for j in jobs]
    assert texts[4] == solo
    again = [text_of(oai.chat.completions.create(messages=m, **GREEDY)) for m in others[:3]]
    assert texts[:3] == again


def test_prediction(oai):
    """A prediction changes no text, and is counted the same whole and streamed."""
    ask = {**GREEDY, "max_tokens": 60}
    whole = oai.chat.completions.create(messages=ASK, logprobs=True, top_logprobs=2, **ask)
    text, plain = text_of(whole), whole.usage.completion_tokens_details
    assert plain.accepted_prediction_tokens is plain.rejected_prediction_tokens is None
    middle = len(text) // 2
    parts = [{"type": "text", "text": text[:middle]}, {"type": "text", "text": text[middle:]}]
    for content, least, most in ((text, 50, 60), (parts, 50, 60), (text.upper(), 0, 30),
                                 (text[:middle] + " And now something else." + text[middle:], 35, 60)):
        given = {"messages": ASK, **ask, "prediction": {"type": "content", "content": content}}
        answer = oai.chat.completions.create(logprobs=True, top_logprobs=2, **given)
        assert text_of(answer) == text and answer.choices[0].logprobs == whole.choices[0].logprobs
        told = answer.usage.completion_tokens_details
        assert least <= told.accepted_prediction_tokens <= most
        assert answer.usage.completion_tokens == whole.usage.completion_tokens
        texts, _, usage = collect(oai.chat.completions.create(stream=True, stream_options={"include_usage": True}, **given))
        streamed = usage.completion_tokens_details
        assert texts == [text] and streamed.accepted_prediction_tokens == told.accepted_prediction_tokens
        assert streamed.rejected_prediction_tokens == told.rejected_prediction_tokens
    assert told.rejected_prediction_tokens > 0


def test_proposed_tokens(oai):
    """What was proposed is told: in one answer of some, for it must be thought to pay."""
    ask = {**GREEDY, "max_tokens": 64, "messages": ASK}
    text = text_of(oai.chat.completions.create(**ask))
    told = [oai.chat.completions.create(prediction={"type": "content", "content": text}, **ask).usage
            for _ in range(4)]
    assert all(0 <= u.completion_tokens_details.accepted_tokens <= u.completion_tokens_details.proposed_tokens
               for u in told)
    assert max(u.completion_tokens_details.accepted_tokens for u in told) > 0


def test_choices(oai):
    answer = oai.chat.completions.create(messages=ASK, model="any", n=3, seed=5, temperature=1.5, max_tokens=12)
    texts = [c.message.content for c in answer.choices]
    assert len(texts) == 3 and len(set(texts)) > 1
    assert answer.usage.completion_tokens <= 36
    streamed, finishes, _ = collect(oai.chat.completions.create(messages=ASK, model="any", n=3, seed=5,
                                                                temperature=1.5, max_tokens=12, stream=True), 3)
    assert streamed == texts and None not in finishes


def test_seed(oai):
    def ask(seed):
        return text_of(oai.chat.completions.create(messages=ASK, model="any", temperature=1.3, max_tokens=16, seed=seed))
    assert ask(1) == ask(1)
    assert len({ask(i) for i in range(1, 5)}) > 1
    assert ask(-(2 ** 63)) and ask(2 ** 63 - 1)


@pytest.mark.parametrize("stop", ["three", ["nothing like this", "three"]])
def test_stop(oai, stop):
    echo = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "one two"}]
    free = text_of(oai.chat.completions.create(messages=echo, **GREEDY))
    assert "three" in free
    cut = oai.chat.completions.create(messages=echo, stop=stop, **GREEDY)
    assert text_of(cut) == free[:free.index("three")] and cut.choices[0].finish_reason == "stop"
    texts, finishes, _ = collect(oai.chat.completions.create(messages=echo, stop=stop, stream=True, **GREEDY))
    assert texts == [text_of(cut)] and finishes == ["stop"]


def test_end_token_is_counted(oai):
    answer = oai.chat.completions.create(messages=[{"role": "user", "content": "Say OK."}], model="any", temperature=0,
                                         max_completion_tokens=200, max_tokens=1, logprobs=True)
    choice = answer.choices[0]
    assert choice.finish_reason == "stop"  # max_completion_tokens wins over max_tokens
    assert answer.usage.completion_tokens == len(choice.logprobs.content) + 1


def test_logprobs(oai):
    kw = dict(messages=ASK, logprobs=True, top_logprobs=5, **GREEDY)
    answer = oai.chat.completions.create(**kw)
    content = answer.choices[0].logprobs.content
    assert len(content) == 24
    assert b"".join(bytes(t.bytes) for t in content).decode() == text_of(answer)
    for token in content:  # greedy: the chosen one is the likeliest
        assert token.top_logprobs[0].token == token.token and token.top_logprobs[0].logprob == token.logprob
    streamed = []
    for chunk in oai.chat.completions.create(stream=True, **kw):
        for choice in chunk.choices:
            streamed += choice.logprobs.content if choice.logprobs else []
            got = b"".join(bytes(t.bytes) for t in choice.logprobs.content) if choice.logprobs else b""
            assert got.decode() == (choice.delta.content or "")
    assert streamed == content
    plain = oai.chat.completions.create(messages=ASK, logprobs=True, **GREEDY)
    assert [t.logprob for t in plain.choices[0].logprobs.content] == [t.logprob for t in content]


def test_logprobs_are_raw(oai):
    """Before temperature and bias: the same numbers whatever is asked of the sampler."""
    first = [oai.chat.completions.create(messages=ASK, model="any", logprobs=True, top_logprobs=3, max_tokens=1, seed=1,
                                         temperature=t).choices[0].logprobs.content[0].top_logprobs for t in (0, 2)]
    assert first[0] == first[1]


def test_bytes_of_split_characters(oai):
    answer = oai.chat.completions.create(
        messages=[{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "🦆🐧🦆🐧🦆🐧🦆"}],
        logprobs=True, **GREEDY)
    raw = b"".join(bytes(t.bytes) for t in answer.choices[0].logprobs.content)
    assert raw.decode("utf-8", "replace").rstrip("�") == text_of(answer).rstrip("�")


def test_usage_and_cache(oai):
    long = [{"role": "user", "content": "A long story about cranes. " * 60}]
    usages = [oai.chat.completions.create(messages=long, **{**GREEDY, "max_tokens": 4}).usage for _ in range(2)]
    cached = [u.prompt_tokens_details.cached_tokens for u in usages]
    assert cached[0] < 100 < cached[1] <= usages[1].prompt_tokens
    assert usages[0].prompt_tokens == usages[1].prompt_tokens


def test_include_usage(oai):
    kw = dict(messages=ASK, stream=True, **GREEDY)
    _, _, usage = collect(oai.chat.completions.create(stream_options={"include_usage": True}, **kw))
    assert usage.completion_tokens == 24
    counts = [c.usage.completion_tokens for c in oai.chat.completions.create(
        stream_options={"include_usage": True, "continuous_usage_stats": True}, **kw)]
    assert counts[0] == 0 and counts[-1] == 24 and counts == sorted(counts)


def test_stream_options_without_stream(oai):
    with pytest.raises(openai.BadRequestError) as refused:
        oai.chat.completions.create(messages=ASK, stream_options={"include_usage": True}, **GREEDY)
    assert refused.value.param == "stream_options"
    oai.chat.completions.create(messages=ASK, stream_options={}, **GREEDY)


def test_sampler_fields(oai):
    def ask(**kw):
        body = {"repetition_penalty": 1, **kw.pop("extra_body", {})}  # not the default model's own
        return oai.chat.completions.create(**{"messages": ASK, **GREEDY, **kw}, extra_body=body)
    plain = text_of(ask())
    assert text_of(ask(temperature=2, top_p=0)) == plain
    assert text_of(ask(temperature=2, extra_body={"top_k": 1})) == plain
    assert text_of(ask(temperature=2, seed=1, extra_body={"min_p": 1.0})) == plain
    assert text_of(ask(extra_body={"top_k": -1, "min_p": 0})) == plain
    assert text_of(ask(frequency_penalty=2, presence_penalty=2, extra_body={"repetition_penalty": 1.5})) != plain
    first = ask(logprobs=True, max_tokens=1, extra_body={"return_token_ids": True}).choices[0]
    banned = ask(max_tokens=1, logit_bias={str(first.token_ids[0]): -100})
    assert text_of(banned) != first.message.content


def test_own_fields(oai):
    def ask(**kw):
        return oai.chat.completions.create(messages=[{"role": "user", "content": "Say OK."}],
                                           **{**GREEDY, "max_tokens": 60}, extra_body=kw)
    ended = ask(return_token_ids=True)
    assert ended.choices[0].finish_reason == "stop"
    end = ended.choices[0].token_ids[-1]
    assert ask(ignore_eos=True).choices[0].finish_reason == "length"
    assert ask(min_tokens=40).usage.completion_tokens >= 40
    second = ended.choices[0].token_ids[1]
    cut = ask(stop_token_ids=[second])
    assert cut.choices[0].finish_reason == "stop" and cut.usage.completion_tokens == 2
    assert "<|im_end|>" in text_of(ask(ignore_eos=True, skip_special_tokens=False)) or end
    assert ask(choice=["yes", "no"]).choices[0].message.content in ("yes", "no")


def test_last_turn_is_continued(oai, server):
    turns = [*ASK, {"role": "assistant", "content": "1. Gulls\n2."}]
    answer = oai.chat.completions.create(messages=turns, **GREEDY)
    assert not text_of(answer).startswith("1. Gulls")
    prompt = server.post("/apply-template", {"messages": turns}).json()["prompt"]
    assert prompt.endswith("1. Gulls\n2.")
    prompt = server.post("/apply-template", {"messages": turns, "add_generation_prompt": True}).json()["prompt"]
    assert prompt.endswith("<|im_start|>assistant\n")


def test_the_next_turn_may_be_left_out(server):
    opened, bare = ({"messages": ASK, "add_generation_prompt": to} for to in (True, False))
    prompts = [server.post("/apply-template", asked).json()["prompt"] for asked in (opened, bare)]
    assert prompts[0] == prompts[1] + "<|im_start|>assistant\n"
    tokens = [server.post("/tokenize", asked).json()["tokens"] for asked in (opened, bare)]
    assert tokens[0][:len(tokens[1])] == tokens[1] and len(tokens[0]) > len(tokens[1])


def test_messages_of_all_kinds(oai):
    answer = oai.chat.completions.create(messages=[
        {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "name": "x"},
        {"role": "user", "content": "and three"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": tru"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "4"},
        {"role": "tool", "tool_call_id": "gone", "content": "5"},
        {"role": "assistant", "content": "Fine.", "refusal": None},
        {"role": "system", "content": "Later."}, {"role": "user", "content": "Go."}], **GREEDY)
    assert text_of(answer)


def test_longer_than_the_context_is_accepted(oai):
    answer = oai.chat.completions.create(messages=ASK, model="any", max_tokens=64000, stop=["\n", "."], temperature=0)
    assert answer.choices[0].finish_reason == "stop"
