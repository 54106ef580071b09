# SPDX-License-Identifier: Apache-2.0
"""Two hosts, and what may happen to one: its cable is cut, its agent, rank or bridge is killed or stops, in a prompt
and in an answer. What was under way goes on with the same text, or says that it failed; requests are taken
again when all is there again, and nothing is left behind. Limits are those of machines with a CPU for each rank, so one
that stands still may lose ranks besides: then requests may fail, and are asked again."""
import contextlib
import json
import os
import pathlib
import signal
import threading

import httpx2
import pytest

from hosts import ON_HOST, SECRET, Agent, gone, until, word_of, words
from serving import ROOT, Server, write_tokenizer
from test_hosts import hosts  # noqa: F401 (a fixture)
from test_ranks import children

SAME = ("--tp", "2", "--threads", "1", "--ctx", "512", "--max-step-tokens", "16")
ASK = {"prompt": [1, 2, 3, 4, 5, 6], "temperature": 0, "max_tokens": 60, "ignore_eos": True}
KILL, STOP, CONT = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT


class Two:
    """A server over both hosts. Steps are slow, so that there is time to do something to one."""

    def __init__(self, both, model):
        self.hosts, self.model = both, str(model)
        self.agent_start()
        self.server = Server("loss", self.model, *SAME, "--plan-pause", "10", *words(0), env=SECRET, before=ON_HOST)
        self.seen = set(self.pids())

    def agent_start(self):
        self.agent = Agent(self.hosts, "loss_agent", self.model, *SAME)

    def pids(self):
        return children(self.server.process.pid) + children(self.agent.process.pid)

    def pid(self, who):
        """Of the far rank, of a bridge, or of the agent itself."""
        if who == "agent":
            return self.agent.process.pid
        parent = self.server.process.pid if who == "near bridge" else self.agent.process.pid
        return until(lambda: next((p for p in children(parent) if word_of(p) == who.split()[-1]), None))

    def is_ready(self):
        reply = self.server.http.get("/readyz")
        assert reply.status_code == 200 or reply.json()["status"] == "restarting", reply.text
        return reply.status_code == 200

    def answer(self, **more):
        """When all is there again. What stands still meanwhile may be lost once more."""
        ask = {**ASK, **more}
        reply = until(lambda: self.is_ready() and (r := self.server.post("/v1/completions", ask)).status_code == 200 and r)
        self.seen.update(self.pids())
        return reply.json()["choices"][0]["text"]


class Stream(threading.Thread):
    def __init__(self, server):
        super().__init__()
        self.server, self.text, self.error = server, "", None
        self.start()

    def run(self):
        with httpx2.Client(base_url=self.server.url, timeout=300) as client, \
                client.stream("POST", "/v1/completions", json={**ASK, "stream": True}) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line[6:])
                    self.error = event.get("error")
                    self.text += "".join(c["text"] for c in event.get("choices", []))


class Prompt(threading.Thread):
    """Every one is another, so that nothing of it is there already."""
    n = 0

    def __init__(self, server):
        super().__init__()
        Prompt.n += 1
        self.server, self.reply = server, None
        self.ask = {**ASK, "prompt": [Prompt.n + i * 7 % 50 for i in range(400)], "max_tokens": 4}
        self.start()

    def run(self):
        self.reply = httpx2.post(self.server.url + "/v1/completions", json=self.ask, timeout=300)


@pytest.fixture(scope="module")
def two(hosts, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("loss")
    for file in (ROOT / "tests" / "data" / "golden" / "qwen3-f32").iterdir():
        (folder / file.name).symlink_to(file)
    write_tokenizer(folder, 83)
    it = Two(hosts, folder)
    try:
        yield it
        it.seen.update(it.pids())
        assert it.server.stop() == 0 and it.agent.stop() == 0
    finally:
        for left in (it.server.process, it.agent.process):
            left.kill()
            left.wait()
    assert gone(it.seen), "a process outlived its host's"


@pytest.fixture(scope="module")
def whole(two):
    return two.answer()


def lose(two, what):
    """Does it, and puts it right when the server is not ready any more. What nobody has to put right it mends itself."""
    how, who = what
    before = two.pids()
    if how == "cut":
        two.hosts.cut()
        until(lambda: not two.is_ready())
        until(lambda: gone(before))  # the far ones end by themselves
        two.hosts.mend()
        return before
    pid = two.pid(who)
    with contextlib.suppress(ProcessLookupError):  # lost already
        os.kill(pid, how)
    if who == "agent":
        until(lambda: not two.is_ready())
        if how == KILL:
            two.agent.process.wait()
            until(lambda: gone(before))
            two.agent_start()
        else:
            os.kill(pid, CONT)
    elif how == STOP:  # nobody misses it who does not wait for it, and what was under way may be done
        two.server.post("/v1/completions", {**ASK, "max_tokens": 1})
    return before


def check(two, whole, seen, before, went_well):
    until(lambda: "event=ranks rejoined_ms=" in two.server.log()[seen:])
    said = two.server.log()[seen:]
    # One loss ends no answer; where none could begin again or it was in two, it may.
    assert went_well or "event=ranks error=" in said or said.count("event=step error=") > 1, said
    until(lambda: gone(before))  # the next generation has others
    assert two.answer(max_tokens=8) == whole[:8]


ALL = [("cut", "cable"), (KILL, "agent"), (STOP, "agent"), (KILL, "rank"), (STOP, "rank"), (KILL, "bridge"),
       (STOP, "near bridge")]
IDS = [f"{who} {getattr(how, 'name', how)}" for how, who in ALL]


@pytest.mark.parametrize("what", ALL, ids=IDS)
def test_in_an_answer(two, whole, what):
    assert len(whole) == ASK["max_tokens"]
    seen, stream = len(two.server.log()), Stream(two.server)
    until(lambda: len(stream.text) > 5 or not stream.is_alive())
    before = lose(two, what)
    stream.join()
    assert whole.startswith(stream.text)
    assert (stream.error is None) == (stream.text == whole), stream.error
    assert stream.error is None or stream.error["type"] == "server_error"
    check(two, whole, seen, before, stream.error is None)


@pytest.mark.parametrize("what", ALL[:3] + ALL[4:5], ids=IDS[:3] + IDS[4:5])
def test_in_a_prompt(two, whole, what):
    seen, prompt = len(two.server.log()), Prompt(two.server)
    metrics = two.server.url + "/metrics"
    until(lambda: "whimbrel:requests_running 1" in httpx2.get(metrics, timeout=60).text or not prompt.is_alive())
    before = lose(two, what)
    prompt.join()
    went_well = prompt.reply.status_code == 200
    assert went_well or prompt.reply.json()["error"]["type"] == "server_error", prompt.reply.text
    check(two, whole, seen, before, went_well)
    assert not went_well or two.answer(**prompt.ask) == prompt.reply.json()["choices"][0]["text"]
