# SPDX-License-Identifier: Apache-2.0
"""What tests of kept and carried prompts share: a tiny model of each kind, a server for it, and an agent's conversation."""
import random

import pytest

from serving import ROOT, Server, write_tokenizer

N_VOCAB, CTX, PAGE = 83, 16384, 32
PROMPT, NEW = 12000, 8
MODELS = {"attention": "qwen3-f32", "hybrid": "qwen35-f32"}


def draw(seed, n):
    """Ids that the tiny tokenizer knows, the same for every run."""
    r = random.Random(seed)
    return [r.randrange(N_VOCAB) for _ in range(n)]


@pytest.fixture(scope="module", params=sorted(MODELS), name="model")
def model_fixture(request, tmp_path_factory):
    """A tiny model, whose context holds an agent's prompt."""
    path = tmp_path_factory.mktemp(request.param)
    for file in (ROOT / "tests" / "data" / "golden" / MODELS[request.param]).iterdir():
        (path / file.name).symlink_to(file)
    write_tokenizer(path, N_VOCAB)
    return path


def serve(name, model, *args, ctx=CTX, **how):
    return Server(f"kept-{name}", str(model), "--ctx", str(ctx), "--max-seqs", "2", "--threads", "1", *args, **how)


def ask(server, prompt, n_new=NEW):
    body = {"prompt": prompt, "max_tokens": n_new, "temperature": 0, "ignore_eos": True, "logprobs": 3, "return_token_ids": True}
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    choice, usage = answer.json()["choices"][0], answer.json()["usage"]
    assert len(choice["token_ids"]) == n_new
    logprobs = choice["logprobs"]
    return ((choice["token_ids"], logprobs["token_logprobs"], logprobs["top_logprobs"]),
            usage["prompt_tokens_details"]["cached_tokens"])


def conversation():
    """What an agent sends in its first turn, and what a tool gave before its second."""
    return draw(1, PROMPT), draw(2, 300)
