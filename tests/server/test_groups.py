# SPDX-License-Identifier: Apache-2.0
"""Groups of processes with requests of their own: answers of many requests at once are those of one group, also when a
process is killed meanwhile."""
import os
import signal
import threading

import pytest

from hosts import running
from serving import Server
from test_hosts import LONG, model_make
from test_ranks import children, meters

SAME = ("--oversubscribe", "--threads", "1", "--ctx", "256", "--max-step-tokens", "64", "--max-seqs", "2")
N = 8


@pytest.fixture(scope="module", params=["qwen3moe-f32", "minimax-f32", "qwen35-moe"])
def model(request, tmp_path_factory):
    return str(model_make(request.param, tmp_path_factory.mktemp(request.param)))


def suite(server, meanwhile=lambda: None):
    """What it answers to requests that come at the same time."""
    said = {}

    def ask(i):
        body = {"prompt": LONG[i:i + 30 + 3 * i], "max_tokens": 40, "temperature": i % 2, "seed": i, "ignore_eos": True,
                "return_token_ids": True, "logprobs": 1}
        said[i] = server.post("/v1/completions", body).json()["choices"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(N)]
    for t in threads:
        t.start()
    meanwhile()
    for t in threads:
        t.join()
    assert len(said) == N
    return said


@pytest.fixture(scope="module")
def alone(model):
    with running(Server("groups_one", model, *SAME)) as server:
        said = suite(server)
        assert server.stop() == 0
    return said


def first_greedy(said):
    """Sums that are cut differ in their last bits, which a few tokens do not show."""
    return {i: choices[0]["token_ids"][:8] for i, choices in said.items() if i % 2 == 0}


def test_groups_of_two_are_as_good_as_one(model, alone):
    with running(Server("groups_of_two", model, "--tp", "4", "--dp", "2", *SAME)) as server:
        said = suite(server)
        assert first_greedy(said) == first_greedy(alone)
        assert "up to 4 requests at once" in server.log()
        pid = children(server.process.pid)[-1]
        assert suite(server, lambda: os.kill(pid, signal.SIGKILL)) == said
        server.wait_log("event=ranks rejoined_ms=", 60)
        assert suite(server) == said
        assert server.stop() == 0


@pytest.mark.parametrize("ranks", ["--dp 2", "--dp 4", "--dp 2 --ep 2"])
def test_answers_are_those_of_one(model, alone, ranks):
    with running(Server("groups", model, *ranks.split(), *SAME)) as server:
        assert suite(server) == alone
        assert f"up to {2 * int(ranks.split()[1])} requests at once" in server.log()
        sites = {dict(labels)["site"] for labels in meters(server)["rank_wait_seconds_total"]}
        assert any("of groups" in site for site in sites), sites
        pid = children(server.process.pid)[-1]
        seen = len(server.log())
        assert suite(server, lambda: os.kill(pid, signal.SIGKILL)) == alone
        server.wait_log("event=ranks rejoined_ms=", 60)
        assert suite(server) == alone
        assert "event=ranks rejoined_ms=" in server.log()[seen:]
        assert server.stop() == 0
