# SPDX-License-Identifier: Apache-2.0
"""A model over two processes: answers go on, with the same text, when one of them is killed or stops; nothing is left
behind. The default model's draft proposes meanwhile, if it is there."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import httpx2
import pytest

from serving import PROGRAM, Server

ASK = {"messages": [{"role": "user", "content": "Name ten birds, one in a line."}], "temperature": 0, "max_tokens": 150,
       "ignore_eos": True}


def children(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def answer(server):
    reply = server.post("/v1/chat/completions", ASK)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def stream(server, after, what):
    """The text of a streamed answer; `what` is called when so many pieces have come."""
    text, n = "", 0
    with server.http.stream("POST", "/v1/chat/completions", json={**ASK, "stream": True}) as reply:
        assert reply.status_code == 200
        for line in reply.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            assert "error" not in event, event
            text += "".join(c["delta"].get("content") or "" for c in event["choices"])
            n += 1
            if n == after:
                what()
    return text


@pytest.fixture(scope="module")
def ranks():
    s = Server("ranks", "--tp", "2", "--oversubscribe", "--threads", "1", "--ctx", "1024")
    yield s
    pids = children(s.process.pid)
    assert len(pids) == 1
    assert s.stop() == 0
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "a rank outlived the server"


@pytest.fixture(scope="module")
def whole(ranks):
    """What comes when nothing happens. One rank may say something else: sums of parts are rounded otherwise, and the
    default model's rows are narrowed to 8 bits behind them (tests/golden has ranks beside one)."""
    return answer(ranks)


def test_answers_repeat_themselves(ranks, whole):
    assert len(children(ranks.process.pid)) == 1
    assert len(whole) > 100
    assert answer(ranks) == whole
    assert stream(ranks, 0, None) == whole


def meters(server):
    """Of each metric of ranks its values by labels."""
    found = {}
    text = httpx2.get(server.url + "/metrics").text
    for name, labels, value in re.findall(r"^whimbrel:(rank\w*)(?:{(.*)})? (\S+)$", text, re.M):
        found.setdefault(name, {})[tuple(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    return found


def test_meters(ranks, whole):
    before, begun = meters(ranks), time.monotonic()
    assert before["ranks"] == {(): 2}
    assert set(before["rank_step_age_seconds"]) == {(("rank", "0"),), (("rank", "1"),)}
    assert answer(ranks) == whole
    now = meters(ranks)
    took = time.monotonic() - begun
    assert all(0 < age < took for age in now["rank_step_age_seconds"].values()), now
    sites = {dict(labels)["site"] for labels in now["rank_wait_seconds_total"]}
    assert {"mixer", "mlp", "embedding"} <= sites and "other" not in sites, sites
    assert {dict(labels)["rank"] for labels in now["rank_wait_seconds_total"]} == {"0", "1"}
    assert 0 < sum(now["rank_wait_seconds_total"].values()) - sum(before["rank_wait_seconds_total"].values()) < 2 * took
    # A token of the default model: an embedding and two sums for each of 30 layers, of 576 floats each.
    sent = now["rank_bytes_total"][(("link", "memory"),)] - before["rank_bytes_total"][(("link", "memory"),)]
    assert sent > ASK["max_tokens"] * 61 * 576 * 4


def test_proposals_change_nothing(ranks):
    """Where the prompt's log-probabilities are asked for, nothing is proposed."""
    ask = {"prompt": "One, two, three, four. One, two,", "temperature": 0, "max_tokens": 100, "ignore_eos": True}
    for more in ({}, {"temperature": 1.0, "seed": 7}):
        replies = [ranks.post("/v1/completions", {**ask, **more, **plainly}).json()["choices"][0]["text"]
                   for plainly in ({}, {"echo": True, "logprobs": 0})]
        assert replies[1] == ask["prompt"] + replies[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_an_answer_outlives_a_rank(ranks, whole, how):
    [pid] = children(ranks.process.pid)
    seen = len(ranks.log())
    before = meters(ranks)
    assert stream(ranks, 20, lambda: os.kill(pid, how)) == whole
    said = ranks.log()[seen:]
    assert "event=ranks rejoined_ms=" in said
    assert "event=draft" not in said  # it is used again
    assert (f"rank 1 (process {pid}) was ended by signal 9" if how == signal.SIGKILL else "rank 1") in said
    [other] = children(ranks.process.pid)
    assert other != pid
    now = meters(ranks)
    for name, values in before.items():
        if name.endswith("_total"):
            assert all(now[name][labels] >= value for labels, value in values.items()), (name, values, now[name])
            assert sum(now[name].values()) > sum(values.values())
    assert ranks.http.get("/readyz").status_code == 200
    assert answer(ranks) == whole


def test_a_request_in_two_lost_steps_fails(ranks, whole):
    """It may be why ranks are lost; others are not asked to pay for it again and again."""
    killed = []

    def kill():
        killed.extend(children(ranks.process.pid))
        os.kill(killed[-1], signal.SIGKILL)

    events = []
    with ranks.http.stream("POST", "/v1/chat/completions", json={**ASK, "max_tokens": 600, "stream": True}) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
                if len(events) in (10, 60):
                    kill()
    assert len(killed) == 2 and killed[0] != killed[1]
    assert "error" in events[-1], events[-1]
    assert events[-1]["error"]["type"] == "server_error"
    ready_within(ranks, 60)
    assert answer(ranks) == whole


def ready_within(server, seconds):
    until = time.monotonic() + seconds
    while server.http.get("/readyz").status_code != 200:
        assert time.monotonic() < until, server.log()[-1000:]
        time.sleep(0.05)


def test_ranks_come_back_by_themselves(ranks, whole):
    """Where none can be started again, that is tried anew later, whether somebody asks or not."""
    leader = ranks.process.pid
    [pid] = children(leader)
    _, hard = resource.prlimit(leader, resource.RLIMIT_NOFILE)
    assert ranks.http.get("/readyz").status_code == 200  # over a connection that stays
    seen = len(ranks.log())
    before = resource.prlimit(leader, resource.RLIMIT_NOFILE, (3, hard))
    os.kill(pid, signal.SIGKILL)
    reply = ranks.post("/v1/chat/completions", ASK)
    assert reply.status_code == 500 and reply.json()["error"]["type"] == "server_error", reply.text
    assert "event=ranks error=" in ranks.log()[seen:]
    reply = ranks.http.get("/readyz")
    assert reply.status_code == 503 and reply.json()["status"] == "restarting"
    resource.prlimit(leader, resource.RLIMIT_NOFILE, before)
    ready_within(ranks, 60)
    assert answer(ranks) == whole


def test_pages_of_ranks_stay_in_memory(tmp_path):
    done = subprocess.run([PROGRAM, "serve", "--port", "0", "--tp", "2", "--oversubscribe", "--kv-dir", str(tmp_path)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--kv-dir" in done.stderr and "cut over 2" in done.stderr, done.stderr
