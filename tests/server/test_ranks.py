# SPDX-License-Identifier: Apache-2.0
"""A model over two processes: answers go on, with the same text, when one of them is killed or stops, in a prompt and
in an answer; one that does so while it loads is named; nothing is left behind. The default model's draft proposes
meanwhile, if it is there."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import httpx2
import pytest

from hosts import word_of
from serving import PROGRAM, ROOT, Server, write_tokenizer

RANKS = ("--tp", "2", "--oversubscribe", "--threads", "1")
ASK = {"messages": [{"role": "user", "content": "Name ten birds, one in a line."}], "temperature": 0, "max_tokens": 100,
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


def in_shared_memory():
    """What lies there, but for files of unit tests, which may run beside these."""
    return {x for x in os.listdir("/dev/shm") if not x.startswith("whim-weights-")}


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
    shared = in_shared_memory()
    s = Server("ranks", *RANKS, "--ctx", "1024")
    yield s
    pids = children(s.process.pid)
    assert len(pids) == 1
    assert s.stop() == 0
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "a rank outlived the server"
    assert in_shared_memory() <= shared, "something is left in /dev/shm"


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
    text = httpx2.get(server.url + "/metrics", timeout=300).text
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


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_prompt_outlives_a_rank(ranks, how):
    [pid] = children(ranks.process.pid)
    ask = {"prompt": f"{how.name}: " + "one two three four five six seven " * 80, "temperature": 0, "max_tokens": 8}
    replies = []
    reader = threading.Thread(target=lambda: replies.append(ranks.post("/v1/completions", ask)))
    seen = len(ranks.log())
    reader.start()
    while "whimbrel:requests_running 1" not in httpx2.get(ranks.url + "/metrics", timeout=300).text:
        assert reader.is_alive() or replies == []
    os.kill(pid, how)  # 560 tokens take longer than it took to see that they have begun
    reader.join()
    assert replies[0].status_code == 200, replies[0].text
    assert "event=ranks rejoined_ms=" in ranks.log()[seen:]
    again = ranks.post("/v1/completions", ask).json()
    assert again["choices"] == replies[0].json()["choices"] and again["usage"]["prompt_tokens"] > 500


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


def test_ranks_are_missed_while_nobody_asks(ranks, whole):
    [pid] = children(ranks.process.pid)
    seen, until = len(ranks.log()), time.monotonic() + 60
    os.kill(pid, signal.SIGKILL)
    while "event=ranks rejoined_ms=" not in ranks.log()[seen:]:
        assert time.monotonic() < until, ranks.log()[seen:]
        time.sleep(0.02)
    assert re.search(rf'event=ranks lost="rank 1 \(process {pid}\) was ended by signal 9', ranks.log()[seen:])
    assert answer(ranks) == whole


# --- while they load ----------------------------------------------------------------------------------------

def few_bytes(pid):
    resource.prlimit(pid, resource.RLIMIT_AS, (64 << 20, 64 << 20))


@pytest.mark.parametrize("what, said", [
    (lambda pid: os.kill(pid, signal.SIGKILL), r"rank 1 \(process {}\) was ended by signal 9 .* before it was ready"),
    (lambda pid: os.kill(pid, signal.SIGSTOP), r"rank 1 \(process {}\) was stopped before it was ready"),
    (few_bytes, r"rank 1: .*memory|rank 1 \(process {}\) .* before it was ready"),
], ids=["killed", "stopped", "memory"])
def test_a_rank_is_lost_while_it_loads(what, said, tmp_path):
    """The model's own 98 MB mostly take longer than it takes to see the process."""
    log, in_time = tmp_path / "log", False
    for _ in range(10):
        with open(log, "wb") as errors:
            leader = subprocess.Popen([PROGRAM, "serve", "--port", "0", *RANKS], stdout=errors, stderr=errors)
        try:
            # Before it is a program of its own whoever starts it waits for it.
            while not (pids := [p for p in children(leader.pid) if word_of(p) == "rank"]):
                assert leader.poll() is None
            what(pids[0])
            while leader.poll() is None and b"event=ready" not in log.read_bytes():
                time.sleep(0.02)
            in_time = leader.poll() is not None
        finally:
            leader.kill()
            leader.wait()
        if in_time:
            break
    if not in_time:
        pytest.skip("the rank had loaded each time before it was seen")
    errors = log.read_text(errors="replace")
    assert leader.returncode == 1 and re.search(said.format(pids[0]), errors), errors
    assert not pathlib.Path(f"/proc/{pids[0]}").exists()


# --- around a server of a tiny model ------------------------------------------------------------------------

@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "tests/data/golden/llama-f32", folder)
    write_tokenizer(folder, json.loads((folder / "config.json").read_text())["vocab_size"])
    return folder


@pytest.fixture
def tiny(model):
    s = Server("ranks_tiny", str(model), *RANKS)
    s.folder = model
    yield s
    s.process.kill()
    s.process.wait()
    s.http.close()


def test_other_files_and_orphans(tiny):
    """Ranks that are started again do not load what has replaced the model; a second server does not get the port; and
    one that was stopped ends with its leader."""
    [pid] = children(tiny.process.pid)
    second = subprocess.run([PROGRAM, "serve", str(tiny.folder), *RANKS, "--port", str(tiny.port)], capture_output=True,
                            text=True, timeout=60, check=False)
    assert second.returncode == 1 and str(tiny.port) in second.stderr, second.stderr
    assert children(tiny.process.pid) == [pid]
    weights = tiny.folder / "model-00003-of-00003.safetensors"
    bytes_before = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(bytes_before[:-4] + bytes(4 * [0x3f]))
    os.kill(pid, signal.SIGKILL)
    reply = tiny.post("/v1/completions", {"prompt": "!!!", "max_tokens": 4})
    assert reply.status_code == 500, reply.text
    found = tiny.wait_log(r"rank 1 found other model files \(fingerprint (\w{16})\) than rank 0 .* \((\w{16})\)")
    assert found.group(1) != found.group(2)
    weights.write_bytes(bytes_before)
    ready_within(tiny, 60)
    [pid] = children(tiny.process.pid)
    os.kill(pid, signal.SIGSTOP)
    tiny.process.kill()
    tiny.process.wait()
    until = time.monotonic() + 60
    while pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, "a rank that was stopped outlived its leader"
        time.sleep(0.01)


def disk_hits(server):
    text = httpx2.get(server.url + "/metrics", timeout=300).text
    return int(re.search(r"^whimbrel:disk_hit_tokens_total (\d+)$", text, re.M).group(1))


def test_pages_on_disk(model, tmp_path):
    """Each rank has its part of them in files of its own: found by the next server, and by a rank that takes another's
    place."""
    ask = {"prompt": "!" * 100, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
    texts, cached = [], []

    def completion(server):
        reply = server.post("/v1/completions", ask)
        assert reply.status_code == 200, reply.text
        texts.append(reply.json()["choices"][0]["text"])
        cached.append(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    for turn in range(2):
        s = Server(f"ranks_disk{turn}", str(model), *RANKS, "--kv-dir", str(tmp_path / "kv"))
        completion(s)
        if turn == 1:
            assert disk_hits(s) == cached[1]
            [pid] = children(s.process.pid)
            os.kill(pid, signal.SIGKILL)
            completion(s)
            assert disk_hits(s) == 2 * cached[1]
        assert s.stop() == 0, s.log()[-1000:]
    assert cached[0] == 0 and cached[1] >= 64, cached
    assert texts[0] != "" and texts == 3 * texts[:1]
    assert len(list((tmp_path / "kv").iterdir())) == 2


def test_a_rank_on_each_node(model):
    """Of a machine that hwloc makes up, with the CPUs of this one in two halves."""
    n = len(os.sched_getaffinity(0))
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=False).stdout
    if "hwloc" not in linked or os.sched_getaffinity(0) != set(range(n)) or n % 2 == 1:
        pytest.skip("no such machine can be made up here")
    env = {"HWLOC_SYNTHETIC": f"node:2 core:{n // 2} pu:1", "HWLOC_THISSYSTEM": "1"}
    for args, n_rank, why in (((), 2, "one for each memory node"), (("--threads", "1"), 1, "--threads counts"),
                              (("--tp", "1"), 1, None)):
        s = Server("ranks_nodes", str(model), *args, env=env)
        n_child = len(children(s.process.pid))
        said = s.log()
        assert s.post("/v1/completions", {"prompt": "!!!", "max_tokens": 4}).status_code == 200
        assert s.stop() == 0
        assert n_child == n_rank - 1
        assert (f'event=ranks ranks={n_rank} nodes=2 reason="{why}' in said) == (why is not None), said
