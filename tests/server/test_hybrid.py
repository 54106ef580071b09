# SPDX-License-Identifier: Apache-2.0
"""A tiny Qwen3.5 model with experts: requests that are batched, preempted or go on from a kept state give the ids and
the log-probabilities, to the last digit, of the same requests alone."""
import concurrent.futures
import random

import pytest

from serving import ROOT, Server, write_tokenizer

MODEL = ROOT / "tests" / "data" / "golden" / "qwen35-moe"
N_VOCAB, CTX, N_NEW = 83, 256, 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hybrid")
    for file in MODEL.iterdir():
        (path / file.name).symlink_to(file)
    write_tokenizer(path, N_VOCAB)
    return path


def bodies():
    """Prompts of their own, and prompts that begin alike and leave each other within a page or at its end."""
    r = random.Random(8)
    draw = lambda n: [r.randrange(N_VOCAB) for _ in range(n)]
    stem = draw(160)
    prompts = [draw(n) for n in (1, 7, 64, 65, 200)] + [stem[:n] + draw(m) for n, m in
                                                        ((160, 1), (160, 30), (128, 9), (100, 70))] + [stem]
    return [{"prompt": p, "max_tokens": N_NEW, "temperature": i % 2, "seed": i, "ignore_eos": True, "logprobs": 3,
             "return_token_ids": True, "priority": i % 3} for i, p in enumerate(prompts)]


def ask(server, body):
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    choice, usage = answer.json()["choices"][0], answer.json()["usage"]
    n = len(choice["token_ids"])
    assert n == N_NEW
    logprobs = choice["logprobs"]
    return {"ids": choice["token_ids"], "logprobs": logprobs["token_logprobs"][-n:],
            "top": logprobs["top_logprobs"][-n:]}, usage["prompt_tokens_details"]["cached_tokens"]


def test_hybrids_repeat_themselves(folder):
    requests = bodies()
    plain = Server("hybrid-plain", str(folder), "--max-seqs", "1", "--ctx", str(CTX))
    try:
        # With the prompt's own log-probabilities everything is computed.
        alone = [ask(plain, {**body, "echo": True}) for body in requests]
    finally:
        assert plain.stop() == 0
    assert all(cached == 0 for _, cached in alone)
    tight = Server("hybrid-tight", str(folder), "--max-seqs", "6", "--ctx", str(CTX), "--kv-mem", "300K",
                   "--max-step-tokens", "48")
    try:
        # How the requests meet is the machine's business: rounds go on until somebody had to give way.
        for done in range(30):
            if done >= 3 and tight.http.get("/health").json()["preempted_total"] > 0:
                break
            with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
                together = list(pool.map(lambda body: ask(tight, body), requests))
            for body, (want, _), (got, _) in zip(requests, alone, together):
                assert got == want, body
        assert sum(cached for _, cached in together) > 200, together
        assert tight.http.get("/health").json()["preempted_total"] > 0
    finally:
        assert tight.stop() == 0
