# SPDX-License-Identifier: Apache-2.0
"""A model over two nodes, both on this machine: the answers of the same ranks on one, what is refused, and that answers
go on when a node is killed, with nothing left behind."""
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from serving import PROGRAM, ROOT, Server, write_tokenizer
from test_ranks import children

SECRET = {"WHIMBREL_JOIN_SECRET": "a secret of these tests"}
ASK = {"prompt": [1, 2, 3, 4, 5, 6], "temperature": 0, "max_tokens": 24, "ignore_eos": True}
MODEL, N_VOCAB = ROOT / "tests" / "data" / "golden" / "qwen3-f32", 83
SAME = ["--tp", "3", "--oversubscribe", "--threads", "1", "--ctx", "256"]
MODULE = pathlib.Path(PROGRAM).resolve().parent / "whimbrel-ucx.so"
pytestmark = pytest.mark.skipif(not MODULE.exists(), reason="built without UCX (libucx-dev)")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command(model, port, rank, *more):
    return [PROGRAM, "serve", str(model), *SAME, "--nodes", "2", "--node-rank", str(rank), "--join", f"127.0.0.1:{port}",
            "--join-device", "lo", *more]


class Agent:
    def __init__(self, model, port, name, *more):
        self.log_path = ROOT / "build" / "test-logs" / "server" / f"{name}.log"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command(model, port, 1, *more), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **SECRET})

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        return self.process.wait(90)


def answer(server):
    reply = server.post("/v1/completions", ASK)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["text"]


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def gone(pids):
    return not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    for file in MODEL.iterdir():
        (folder / file.name).symlink_to(file)
    write_tokenizer(folder, N_VOCAB)
    (folder / "draft").symlink_to(ROOT / "tests" / "data" / "drafts" / "qwen3-f32-dflash")  # both nodes find it
    return folder


@pytest.fixture(scope="module")
def whole(model):
    s = Server("nodes_one", str(model), *SAME)
    text = answer(s)
    assert s.stop() == 0
    return text


@pytest.fixture(scope="module")
def two(model, whole):
    port = free_port()
    agent = Agent(model, port, "nodes_agent")
    server = Server("nodes", *command(model, port, 0)[2:], env=SECRET)
    server.agents, server.join_port = [agent], port
    yield server
    server.stop()
    for agent in server.agents:
        agent.process.kill()
        agent.process.wait()


def test_answers_are_those_of_one_machine(two, whole):
    assert len(whole) == ASK["max_tokens"]
    assert answer(two) == whole
    assert len(children(two.process.pid)) == 2  # rank 1 and the bridge
    assert len(children(two.agents[-1].process.pid)) == 2  # rank 2 and the bridge


def test_others_are_refused_with_both_values(two, model):
    for more, env, word in [
            (["--ctx", "128"], SECRET, "--ctx: node 1 has 128, node 0 256"),
            ([], {"WHIMBREL_JOIN_SECRET": "a secret of other tests"}, "node 0 does not have node 1's secret"),
            (["--join-time", "1"], SECRET, "node 1 could not join in 1 s: node 1 has joined already")]:
        done = subprocess.run(command(model, two.join_port, 1, *more), capture_output=True, text=True, timeout=60,
                              env={**os.environ, **env})
        assert done.returncode == 1 and word in done.stderr, done.stderr
    done = subprocess.run([*command(model, two.join_port, 0), "--port", "0"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **SECRET})
    assert done.returncode == 1 and "cannot wait for other nodes" in done.stderr, done.stderr


@pytest.mark.parametrize("who", ["rank", "agent", "bridge"])
def test_answers_go_on_after_a_loss(two, model, whole, who):
    agent = two.agents[-1]
    pids = children(agent.process.pid)
    name = {"rank": b"rank", "bridge": b"bridge"}.get(who)
    seen = len(two.log())
    if name is not None:
        [victim] = [p for p in pids if pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")[1] == name]
        os.kill(victim, signal.SIGKILL)
    else:
        agent.process.kill()
        agent.process.wait()
        until(lambda: gone(pids))
        two.agents.append(Agent(model, two.join_port, "nodes_agent_2"))
    assert answer(two) == whole
    assert "event=ranks rejoined_ms=" in two.log()[seen:]


def test_a_leader_takes_its_nodes_ranks_along(two):
    """The last of these tests: its agent tries to join again until it is told to end."""
    agent = two.agents[-1]
    pids = children(two.process.pid) + children(agent.process.pid)
    assert len(pids) == 4
    two.process.kill()
    two.process.wait()
    until(lambda: gone(pids))
    assert "event=leader_lost" in agent.log()
    assert agent.stop() == 0
