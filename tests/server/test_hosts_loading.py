# SPDX-License-Identifier: Apache-2.0
"""A host that is lost while the model loads on two: the leader says what was lost and ends, for there is no answer to go
on with, and nothing is left behind."""
import os
import re
import signal
import subprocess

import pytest

from hosts import ON_HOST, SECRET, Agent, gone, running, until, word_of, words
from serving import PROGRAM
from test_hosts import hosts  # noqa: F401 (a fixture)
from test_ranks import children

LOAD = ("--tp", "2", "--threads", "1", "--ctx", "512")
KILL = signal.SIGKILL


def lose_in_loading(both, agent, what, log):
    """Starts the default model, whose 98 MB mostly take longer than it takes to see the far rank, and does it then. How
    the leader ended; None when it was ready before."""
    how, who = what
    with open(log, "wb") as errors:
        leader = subprocess.Popen([*ON_HOST, PROGRAM, "serve", "--port", "0", *LOAD, *words(0)], stdin=subprocess.DEVNULL,
                                  stdout=errors, stderr=errors, env={**os.environ, **SECRET})
    try:
        rank = until(lambda: [p for p in children(agent.process.pid) if word_of(p) == "rank"])
        if how == "cut":
            both.cut()
        else:
            os.kill(agent.process.pid if who == "agent" else rank[0], how)
        until(lambda: leader.poll() is not None or b"event=ready" in log.read_bytes())
        return leader.poll()
    finally:
        pids = children(leader.pid) + children(agent.process.pid)
        leader.kill()
        leader.wait()
        if how == "cut":
            both.mend()
        until(lambda: gone(pids))


@pytest.mark.parametrize("what, said", [
    ((KILL, "rank"), r"rank 1 \(process \d+\) was ended by signal 9"),
    ((signal.SIGSTOP, "rank"), r"rank 1 \(process \d+\) was stopped"),
    ((KILL, "agent"), r"node 1 \(10\.77\.0\.2 port \d+\) is lost: "),
    (("cut", "cable"), r"node 1 \(10\.77\.0\.2 port \d+\) is lost: nothing was heard of it"),
], ids=["rank SIGKILL", "rank SIGSTOP", "agent SIGKILL", "cable cut"])
def test_while_it_loads(hosts, what, said, tmp_path):  # noqa: F811
    log = tmp_path / "log"
    for _ in range(10):  # it may have loaded before, and a machine that stands still loses nodes by itself
        with running(Agent(hosts, "loss_load", *LOAD)) as agent:
            ended = lose_in_loading(hosts, agent, what, log)
            assert what == (KILL, "agent") or agent.stop() == 0
        errors = log.read_text(errors="replace")
        if ended is not None and re.search(said, errors):
            break
    if ended is None:
        pytest.skip("all was loaded each time before it was seen")
    assert ended == 1 and re.search(said, errors), errors
