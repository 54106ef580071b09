# SPDX-License-Identifier: Apache-2.0
"""One client that asks for as much as it may, beside others: theirs end while its answers are under way, and the texts
of all are those of a server that has nothing else to do."""
import json
import re

import httpx2
import pytest

from serving import Server

KEYS = ("greedy-0123456789", "polite-0123456789")
GREEDY = {"prompt": "The history of the sea begins", "n": 4, "max_tokens": 120, "ignore_eos": True, "temperature": 1, "seed": 5,
          "stream": True, "priority": -4}


@pytest.fixture(scope="module")
def fair(tmp_path_factory):
    keys = tmp_path_factory.mktemp("fair") / "keys"
    keys.write_text("\n".join(KEYS) + "\n")
    s = Server("fair", "--ctx", "1024", "--max-seqs", "4", "--api-key-file", str(keys))
    yield s
    assert s.stop() == 0


def header(key):
    return {"Authorization": f"Bearer {key}"}


def ask(server, i):
    body = {"prompt": f"Number {i} is", "max_tokens": 2, "temperature": 0}
    answer = server.http.post("/v1/completions", json=body, headers=header(KEYS[1]))
    assert answer.status_code == 200
    return answer.json()["choices"][0]["text"]


def greedy(server, meanwhile=lambda: None):
    """The texts of the greedy request, and what was done after all of its choices had begun."""
    texts, done = {}, None
    with server.http.stream("POST", "/v1/completions", json=GREEDY, headers=header(KEYS[0])) as r:
        assert r.status_code == 200
        for line in r.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
            if len(texts) == GREEDY["n"] and done is None:
                done = meanwhile() or True
    return texts, done


def shared(server):
    metrics = httpx2.get(server.url + "/metrics", headers=header(KEYS[0]), timeout=300).text
    return int(re.search(r'^whimbrel:preemptions_total\{cause="fair_share"\} (\d+)', metrics, re.M).group(1))


def test_polite_requests_end_while_a_greedy_one_runs(fair):
    alone, _ = greedy(fair)
    said = [ask(fair, i) for i in range(3)]
    assert shared(fair) == 0, "nobody is preempted for anybody where one client is alone"

    def meanwhile():
        answers = [ask(fair, i) for i in range(3)]
        return answers, fair.http.get("/health").json()["running"]

    beside, (answers, running) = greedy(fair, meanwhile)
    assert answers == said
    assert running > 0, "the greedy request is over before the polite ones were answered"
    assert beside == alone
    assert 1 <= shared(fair) <= 3, "places are handed over, and kept for a while"
