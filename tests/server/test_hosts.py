# SPDX-License-Identifier: Apache-2.0
"""A model of every family over four ranks, two on each of two hosts: bit for bit what four ranks of one host answer; and over
two that share prompts, have requests of their own, or some of the experts each, one on each: what one rank does."""
import contextlib
import json
import os
import threading

import pytest

from hosts import ON_HOST, SECRET, Agent, Hosts, NoHosts, gone, running, until, words
from serving import ROOT, Server, write_tokenizer
from test_ranks import children, in_shared_memory, meters

SAME = ("--tp", "4", "--oversubscribe", "--threads", "1", "--ctx", "256", "--max-step-tokens", "64")
FAMILIES = ["llama-f32", "qwen2-f32", "qwen3-bf16", "qwen3moe-f32", "minimax-fp8", "qwen35-f32", "llama-mixed-gguf"]
ALL = {"max_tokens": 16, "ignore_eos": True, "logprobs": 3, "return_token_ids": True}
LONG = [3 + i * 7 % 50 for i in range(150)]  # more than two pages and than two steps


@pytest.fixture(scope="module")
def hosts():
    try:
        two = Hosts()
    except NoHosts as why:
        pytest.skip(str(why))
    shared = in_shared_memory()
    yield two
    two.close()
    assert in_shared_memory() <= shared, "something is left in /dev/shm"


def model_make(name, tmp_path):
    """Where it lies; tiny models have no tokenizer, or none with a letter for each id."""
    data = ROOT / "tests" / "data" / "golden" / name
    for file in data.iterdir():
        (tmp_path / file.name).symlink_to(file)
    if (tmp_path / "model.gguf").exists():
        return tmp_path / "model.gguf"
    config = json.loads((data / "config.json").read_text())
    write_tokenizer(tmp_path, config.get("text_config", config)["vocab_size"])
    return tmp_path


@pytest.fixture(params=FAMILIES)
def model(request, tmp_path):
    return model_make(request.param, tmp_path)


def ask(server, prompt, **more):
    reply = server.post("/v1/completions", {"prompt": prompt, **ALL, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"]


def suite(server):
    """What it answers to all kinds of requests, by their names."""
    said = {"greedy": ask(server, LONG[:6], temperature=0),
            "seeded": ask(server, LONG[:6], temperature=1.2, seed=7),
            "long": ask(server, LONG, temperature=0, echo=True)}
    threads = [threading.Thread(target=lambda i=i: said.update({i: ask(server, LONG[i:i + 40], temperature=i, seed=i)}))
               for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(said) == 5
    for choices in said.values():
        assert len(choices[0]["token_ids"]) == ALL["max_tokens"] <= len(choices[0]["logprobs"]["token_logprobs"])
    return said


def test_answers_are_those_of_one_host(hosts, model):
    with running(Server("hosts_one", str(model), *SAME)) as one:
        assert len(children(one.process.pid)) == 3
        alone = suite(one)
        assert one.stop() == 0
    with running(Agent(hosts, "hosts_agent", str(model), *SAME)) as agent, \
            running(Server("hosts", str(model), *SAME, *words(0), env=SECRET, before=ON_HOST)) as two:
        before = hosts.n_byte()
        assert suite(two) == alone
        assert hosts.n_byte() - before > 1 << 17, "it went another way"
        pids = [children(two.process.pid), children(agent.process.pid)]
        assert [len(p) for p in pids] == [2, 3]  # ranks and the bridge
        assert two.stop() == 0 and agent.stop() == 0
        assert gone(pids[0] + pids[1])


@pytest.mark.parametrize("option", ["--cp", "--dp"])
def test_whole_models_have_the_bits_of_one_rank(hosts, model, option):
    with running(Server("shared_one", str(model), *SAME[3:])) as one:
        alone = suite(one)
        assert one.stop() == 0
    shared = (option, "2", *SAME[2:])
    with running(Agent(hosts, "shared_agent", str(model), *shared)) as agent, \
            running(Server("shared", str(model), *shared, *words(0), env=SECRET, before=ON_HOST)) as two:
        before = hosts.n_byte()
        assert suite(two) == alone
        assert hosts.n_byte() - before > 1 << (17 if option == "--cp" else 14), "it went another way"
        assert [len(children(s.process.pid)) for s in (two, agent)] == [1, 2]
        assert two.stop() == 0 and agent.stop() == 0


@pytest.mark.parametrize("name, more", [("qwen3moe-f32", ()), ("minimax-fp8", ()), ("qwen35-moe", ("--cp", "2"))])
def test_dealt_experts_have_the_bits_of_one_rank(hosts, tmp_path, name, more):
    path = str(model_make(name, tmp_path))
    with running(Server("dealt_one", path, *SAME[3:])) as one:
        alone = suite(one)
        assert one.stop() == 0
    dealt = ("--ep", "2", *more, *SAME[2:])
    with running(Agent(hosts, "dealt_agent", path, *dealt)) as agent, \
            running(Server("dealt", path, *dealt, *words(0), env=SECRET, before=ON_HOST)) as two:
        before = hosts.n_byte()
        assert suite(two) == alone
        assert hosts.n_byte() - before > 1 << 17, "it went another way"
        assert two.stop() == 0 and agent.stop() == 0


def test_three_nodes(tmp_path):
    """With a rank each, so that every bridge has two others."""
    path = str(model_make("llama-f32", tmp_path))
    three = ("--tp", "3", *SAME[2:])
    with running(Server("three_one", path, *three)) as one:
        alone = suite(one)
        assert one.stop() == 0
    try:
        hosts = Hosts(2)
    except NoHosts as why:
        pytest.skip(str(why))
    with contextlib.closing(hosts), running(Agent(hosts, "three_agent1", path, *three, node=1)) as first, \
            running(Agent(hosts, "three_agent2", path, *three, node=2)) as second, \
            running(Server("three", path, *three, *words(0, 3), env=SECRET, before=ON_HOST)) as all_of_it:
        assert suite(all_of_it) == alone
        assert [len(children(s.process.pid)) for s in (all_of_it, first, second)] == [1, 2, 2]
        assert all_of_it.stop() == 0 and first.stop() == 0 and second.stop() == 0


def are_metered(server):
    """Whether the leader knows when the last steps of all ranks were, and how long those of the other host waited."""
    found = meters(server)
    waited = {dict(labels)["rank"] for labels, seconds in found.get("rank_wait_seconds_total", {}).items() if seconds > 0}
    ages = [dict(labels)["rank"] for labels, seconds in found["rank_step_age_seconds"].items() if seconds > 0]
    return waited & set("23") and set(ages) == set("0123") and found["rank_bytes_total"][(("link", "ucx"),)] > 1 << 16


def test_pages_on_disk(hosts, tmp_path):
    """Each host has those of its ranks in its own folder, and the next leader finds them; all ranks are metered."""
    (tmp_path / "model").mkdir()
    path = str(model_make("llama-f32", tmp_path / "model"))
    folders = [tmp_path / "near", tmp_path / "far"]
    replies = []
    with running(Agent(hosts, "hosts_disk_agent", path, *SAME, "--kv-dir", str(folders[1]))) as agent:
        for _ in range(2):
            with running(Server("hosts_disk", path, *SAME, *words(0), "--kv-dir", str(folders[0]), env=SECRET,
                                before=ON_HOST)) as two:
                replies.append(two.post("/v1/completions", {"prompt": LONG, **ALL, "temperature": 0}).json())
                until(lambda: are_metered(two))
                assert two.stop() == 0
        assert agent.stop() == 0
    assert replies[0]["choices"] == replies[1]["choices"]
    assert [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in replies] == [0, 128]
    assert [len(list(folder.iterdir())) for folder in folders] == [2, 2]
