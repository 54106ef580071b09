# SPDX-License-Identifier: Apache-2.0
"""/metrics, read by Prometheus' own client library: form, labels, numbers that agree with the answers, others' names, and
that the alerts, the Grafana board and the docs speak only of metrics that exist."""
import json
import math
import re
import signal
import socket
import subprocess
import threading
import time

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving import PROGRAM, ROOT, START_LIMIT_S, Server

KEY = "metrics-key-1"
NAME = 'odd"name\\of-a-model'
AUTH = {"authorization": f"Bearer {KEY}"}
CTX = 512
ASK = [{"role": "user", "content": "Name three birds."}]


@pytest.fixture(scope="module")
def metered(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(KEY + "\n")
    s = Server("metrics", "--ctx", str(CTX), "--max-seqs", "1", "--max-waiting", "1", "--max-body", "64K",
               "--api-key-file", str(keys), "--served-model-name", NAME, "--metrics-compat", "vllm,sglang",
               "--metrics-compat", "llamacpp")
    s.http.headers.update(AUTH)
    yield s
    assert s.stop() == 0
    assert not re.search("route=/metrics status=200", s.log()), "scrapes are not logged"


class Scrape:
    """What one answer of /metrics says: value by (name, labels), labels and values by name, types by family."""

    def __init__(self, text):
        self.text, self.value, self.labels, self.types = text, {}, {}, {}
        for family in text_string_to_metric_families(text):
            assert family.documentation, family.name
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.value, f"twice: {key}"
                self.value[key] = sample.value
                names = self.labels.setdefault(sample.name, {})
                for label, value in sample.labels.items():
                    names.setdefault(label, set()).add(value)
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
            assert name not in self.types, f"twice: {name}"
            self.types[name] = kind
        assert text.endswith("\n")

    def get(self, name, **labels):
        return self.value.get((name, tuple(sorted(labels.items()))), 0)

    def sum(self, name):
        return sum(v for (n, _), v in self.value.items() if n == name)


last = {}


def scrape(server):
    """Ask, and check what always holds: counters of one server never go back, histograms add up."""
    answer = httpx2.get(server.url + "/metrics", headers=AUTH, timeout=300)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    now = Scrape(answer.text)
    check_histograms(now)
    before = last.get(server.port)
    for (name, labels), value in (before.value.items() if before else ()):
        family = re.sub("_(bucket|sum|count)$", "", name)
        if now.types.get(name) == "counter" or now.types.get(family) == "histogram":
            assert now.value[(name, labels)] >= value, f"{name}{labels} went back"
    last[server.port] = now
    return now


def check_histograms(now):
    for name, kind in now.types.items():
        if kind != "histogram":
            continue
        series = {}
        for (sample, labels), value in now.value.items():
            if sample == name + "_bucket":
                rest = tuple(x for x in labels if x[0] != "le")
                series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        assert series, name
        for labels, buckets in series.items():
            limits, counts = zip(*buckets)
            assert list(limits) == sorted(limits) and limits[-1] == math.inf, name
            assert list(counts) == sorted(counts), name
            total, count = now.value[(name + "_sum", labels)], now.value[(name + "_count", labels)]
            assert count == counts[-1] and (total > 0) == (count > counts[0] or total > 0), name
            # What is above a limit weighs at least so much.
            above = sum(low * (counts[i + 1] - counts[i]) for i, low in enumerate(limits[:-1]))
            assert total >= above * (1 - 1e-9), f"{name}: {total} < {above}"


def until(server, what, seconds=120):
    """Scrapes until `what` holds: some counts follow the answer by a moment."""
    end = time.monotonic() + seconds
    while True:
        now = scrape(server)
        if what(now):
            return now
        assert time.monotonic() < end, "the metrics do not change as they should"
        time.sleep(0.02)


def chat(server, **more):
    return server.post("/v1/chat/completions", {"messages": ASK, "max_tokens": 8, "temperature": 0, **more})


def test_form(metered):
    now = scrape(metered)
    ours = {n: k for n, k in now.types.items() if n.startswith("whimbrel:")}
    assert len(ours) > 40
    for name, kind in ours.items():
        assert name.endswith("_total") == (kind == "counter"), name
    for name in now.types:
        assert name.partition(":")[0] in ("whimbrel", "vllm", "sglang", "llamacpp") or name.startswith("process_"), name
    assert now.get("whimbrel:model_info", model=NAME, isa=next(iter(now.labels["whimbrel:model_info"]["isa"]))) == 1
    version = metered.http.get("/version").json()
    assert now.get("whimbrel:build_info", version=version["version"], commit=version["commit"]) == 1
    assert abs(time.time() - now.get("process_start_time_seconds")) < 600
    assert now.get("process_resident_memory_bytes") > 1 << 20 and now.get("process_open_fds") > 3
    assert now.get("whimbrel:state", state="ready") == now.get("whimbrel:load_progress_ratio") == 1
    ttft = sorted(float(x) for x in now.labels["whimbrel:time_to_first_token_seconds_bucket"]["le"])
    assert (ttft[0], ttft[-2]) == (0.0005, 600)


def test_head_and_key(metered):
    head = httpx2.head(metered.url + "/metrics", headers=AUTH, timeout=300)
    assert head.status_code == 200 and not head.content and int(head.headers["content-length"]) > 1000
    before = scrape(metered)
    assert metered.http.get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
    now = scrape(metered)
    assert now.get("whimbrel:requests_rejected_total", reason="key") == \
        before.get("whimbrel:requests_rejected_total", reason="key") + 1
    assert now.get("whimbrel:http_requests_total", route="/metrics", method="GET", status="401") >= 1
    assert now.get("whimbrel:http_requests_total", route="/metrics", method="HEAD", status="200") >= 1


def test_numbers_agree_with_answers(metered):
    before = scrape(metered)
    usages = [chat(metered).json()["usage"] for _ in range(2)]
    cached = [u["prompt_tokens_details"]["cached_tokens"] for u in usages]
    assert cached[1] > 0
    now = until(metered, lambda s: s.sum("whimbrel:requests_finished_total") ==
                before.sum("whimbrel:requests_finished_total") + 2)

    def more(name, **labels):
        return now.get(name, **labels) - before.get(name, **labels)
    prompt, made = sum(u["prompt_tokens"] for u in usages), sum(u["completion_tokens"] for u in usages)
    assert more("whimbrel:prompt_tokens_total") == prompt
    assert more("whimbrel:tokens_total", kind="cached") == sum(cached)
    assert more("whimbrel:tokens_total", kind="prefill") == prompt - sum(cached)
    assert more("whimbrel:tokens_total", kind="generated") == made
    assert more("whimbrel:prefix_cache_requests_total", result="hit") == sum(c > 0 for c in cached)
    assert more("whimbrel:request_prompt_tokens_sum") == prompt
    assert more("whimbrel:request_generated_tokens_sum") == made
    assert more("whimbrel:inter_token_latency_seconds_count") == made - 2
    for name in ("queue_time", "time_to_first_token", "prefill_time", "decode_time", "e2e_request_latency"):
        assert more(f"whimbrel:{name}_seconds_count") == 2, name
    total = more("whimbrel:e2e_request_latency_seconds_sum")
    assert 0 < more("whimbrel:time_to_first_token_seconds_sum") <= total
    parts = sum(more(f"whimbrel:{n}_time_seconds_sum") for n in ("queue", "prefill", "decode"))
    assert 0 < parts <= total
    right, wrong = (more("whimbrel:proposed_tokens_total", result=result) for result in ("right", "wrong"))
    assert more("whimbrel:step_seconds_count") == more("whimbrel:step_sequences_sum") >= made - right
    assert more("whimbrel:step_tokens_sum") == prompt - sum(cached) + made - 2 + wrong
    assert 0 < more("whimbrel:step_seconds_sum") <= more("whimbrel:engine_busy_seconds_total") + 1e-9
    assert more("whimbrel:http_requests_total", route="/v1/chat/completions", method="POST", status="200") == 2
    assert now.sum("whimbrel:kv_bytes") == now.get("whimbrel:kv_capacity_bytes") > 0
    assert now.get("whimbrel:kv_bytes", state="cached") > 0
    assert now.get("whimbrel:longest_sequence_tokens") >= max(u["total_tokens"] for u in usages)


def test_refusals_by_reason(metered):
    before = scrape(metered)
    path = "/v1/chat/completions"
    assert metered.post(path, b"{").status_code == 400
    assert chat(metered, temperature="hot").status_code == 400
    assert chat(metered, messages=[{"role": "user", "content": "long " * 2 * CTX}]).status_code == 400
    assert metered.http.get("/v1/nowhere").status_code == 404
    assert metered.http.get(path).status_code == 405
    assert metered.post(path, b"x" * 70000).status_code == 413
    assert metered.http.get("/v1/models", headers={"host": "evil.example"}).status_code == 403
    now = scrape(metered)
    for reason, n in {"bad_request": 1, "bad_value": 1, "context": 1, "no_route": 1, "method": 1, "too_large": 1,
                      "forbidden": 1, "queue_full": 0}.items():
        got = now.get("whimbrel:requests_rejected_total", reason=reason)
        assert got - before.get("whimbrel:requests_rejected_total", reason=reason) == n, reason
    for status, route, method in ((400, path, "POST"), (404, "other", "GET"), (405, path, "GET"), (413, path, "POST"),
                                  (403, "/v1/models", "GET")):
        assert now.get("whimbrel:http_requests_total", route=route, method=method, status=str(status)) >= 1, status
    assert now.sum("whimbrel:requests_finished_total") == before.sum("whimbrel:requests_finished_total")


def test_queue_cancels_and_gauges(metered):
    """One runs, one waits, the third is refused; both that are left hang up."""
    before = scrape(metered)
    long = {"messages": ASK, "max_tokens": 400, "ignore_eos": True, "stream": True}
    body = json.dumps(long).encode()
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", metered.port)) as one:
        one.sendall(head + body)
        until(metered, lambda s: s.get("whimbrel:requests_running") == 1)
        with socket.create_connection(("127.0.0.1", metered.port)) as two:
            two.sendall(head + body)
            now = until(metered, lambda s: s.get("whimbrel:requests_waiting") == 1)
            assert now.get("whimbrel:http_requests_in_flight") >= 3 and now.get("whimbrel:http_connections") >= 3
            assert now.get("whimbrel:kv_bytes", state="used") > 0
            assert chat(metered).status_code == 429
    now = until(metered, lambda s: s.get("whimbrel:requests_running") + s.get("whimbrel:requests_waiting") == 0)

    def more(name, **labels):
        return now.get(name, **labels) - before.get(name, **labels)
    assert more("whimbrel:requests_cancelled_total", reason="client_gone") == 2
    assert more("whimbrel:requests_rejected_total", reason="queue_full") == 1
    assert more("whimbrel:http_requests_total", route="/v1/chat/completions", method="POST", status="429") == 1


def test_grammars(metered):
    before = scrape(metered)
    rule = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}}}
    for _ in range(2):
        assert chat(metered, response_format=rule).status_code == 200
    assert chat(metered, regex="a(").status_code == 400
    now = scrape(metered)
    for name, n in (("compile_seconds_count", 2), ("compile_failures_total", 1), ("cache_hits_total", 1)):
        assert now.get(f"whimbrel:grammar_{name}") - before.get(f"whimbrel:grammar_{name}") == n, name


def test_nothing_from_outside_is_a_label(metered):
    mark = "h0stile"
    routes = {"other", "/livez", "/readyz", "/health", *json.loads(metered.http.get("/openapi.json").text)["paths"]}
    chat(metered, model=mark, user=mark, metadata={mark: mark})
    metered.http.get("/v1/models/" + mark)
    metered.http.get(f'/{mark}"}}%0A{mark} 1')
    metered.http.request(mark.upper(), "/v1/models")
    metered.http.get("/v1/models", headers={"x-request-id": mark, "user-agent": mark, "host": mark})
    with socket.create_connection(("127.0.0.1", metered.port)) as s:
        s.sendall(f"{mark} {mark} HTTP/9.9\r\n\r\n".encode())
        while s.recv(4096):
            pass
    now = scrape(metered)
    assert mark not in now.text.lower()
    http = now.labels["whimbrel:http_requests_total"]
    assert http["route"] <= routes and "other" in http["route"], http["route"] - routes
    assert http["method"] <= {"GET", "HEAD", "POST", "OPTIONS", "other"}
    assert all(re.fullmatch(r"[1-5]\d\d", s) for s in http["status"])


def test_who_proposes(metered):
    model = metered.http.get("/v1/models").json()["data"][0]["whimbrel"]
    draft = model["draft"]
    kind = "dflash" if draft else ""
    assert scrape(metered).get("whimbrel:proposer_info", draft=draft or "", kind=kind, lookup="on") == 1


def test_others_names(metered):
    now = scrape(metered)
    model = {"model_name": NAME}
    same = [
        ("vllm:generation_tokens_total", {**model, "engine": "0"}, "whimbrel:tokens_total", {"kind": "generated"}),
        ("vllm:prompt_tokens_total", {**model, "engine": "0"}, "whimbrel:prompt_tokens_total", {}),
        ("vllm:time_to_first_token_seconds_count", {**model, "engine": "0"},
         "whimbrel:time_to_first_token_seconds_count", {}),
        ("vllm:request_success_total", {**model, "engine": "0", "finished_reason": "length"},
         "whimbrel:requests_finished_total", {"reason": "length"}),
        ("sglang:generation_tokens_total", model, "whimbrel:tokens_total", {"kind": "generated"}),
        ("sglang:e2e_request_latency_seconds_sum", model, "whimbrel:e2e_request_latency_seconds_sum", {}),
        ("llamacpp:tokens_predicted_total", {}, "whimbrel:tokens_total", {"kind": "generated"}),
        ("llamacpp:n_decode_total", {}, "whimbrel:step_seconds_count", {}),
    ]
    for theirs, labels, ours, our_labels in same:
        assert now.get(theirs, **labels) == now.get(ours, **our_labels) > 0, theirs
    share = now.get("vllm:kv_cache_usage_perc", **model, engine="0")
    assert 0 <= share <= 1 and now.get("sglang:cache_hit_rate", **model) > 0


def test_bad_name_of_a_server():
    done = subprocess.run([PROGRAM, "serve", "--metrics-compat", "vllm,nobody"], capture_output=True, timeout=60,
                          check=False)
    assert done.returncode == 2 and b'"nobody" is not one of vllm, sglang and llamacpp' in done.stderr


# --- files that speak of metrics ----------------------------------------------------------------------------

def expressions():
    board = json.loads((ROOT / "packaging/grafana/whimbrel.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for note in board["annotations"]["list"]:
        yield note["name"], note["expr"]
    alerts = (ROOT / "packaging/prometheus/alerts.yml").read_text()
    rules = re.findall(r"- alert: (\w+)\n +expr: (?:>-\n)?((?:.|\n)*?)\n +(?:for|labels):", alerts)
    assert len(rules) == alerts.count("- alert:") > 10
    yield from rules


def test_alerts_and_board_speak_of_what_there_is(metered):
    now = scrape(metered)
    # One rank does not tell of ranks; test_ranks.py holds several to these.
    now.labels.update({"whimbrel:rank_wait_seconds_total": {"rank": {"0"}, "site": {"mixer"}},
                       "whimbrel:rank_step_age_seconds": {"rank": {"0"}}})
    used, outside = set(), {"job", "instance"}
    for title, expr in expressions():
        seen = set(outside)
        for name, braces in re.findall(r"((?:whimbrel:|process_|up\b)[\w:]*)\s*(\{[^}]*\})?", expr):
            if name == "up":
                continue
            assert name in now.labels, f"{title}: there is no metric {name}"
            used.add(re.sub("_(bucket|sum|count)$", "", name))
            seen |= now.labels[name].keys()
            for label, how, values in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', braces):
                assert label in outside or label in now.labels[name], f"{title}: {name} has no label {label}"
                # Which pairs of route and status there are depends on what was asked.
                if label not in outside and name != "whimbrel:http_requests_total":
                    wanted = set(values.split("|"))
                    assert wanted <= now.labels[name][label], f"{title}: {name} has no {label} {wanted}"
        for group in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expr):
            for label in re.split(r"\s*,\s*", group.strip()):
                assert label in seen, f"{title}: no metric of it has a label {label}"
    assert used, "nothing was looked at"
    unused = {n for n in now.types if n.startswith("whimbrel:")} - used
    assert unused <= {"whimbrel:build_info", "whimbrel:model_info", "whimbrel:proposer_info", "whimbrel:load_progress_ratio",
                      "whimbrel:longest_sequence_tokens", "whimbrel:ranks"}, f"on no board: {unused}"


def test_docs_list_all_of_them(metered):
    now = scrape(metered)
    docs = (ROOT / "docs/metrics.md").read_text()
    listed = set(re.findall(r"^\| `((?:whimbrel|vllm|sglang|llamacpp):\w+|process_\w+)", docs, re.M))
    assert listed == set(now.types)
    for limits in {tuple(re.findall(rf'^{n}_bucket{{le="([^"]+)"}}', now.text, re.M))[:-1]
                   for n, kind in now.types.items() if kind == "histogram" and n.startswith("whimbrel:")}:
        assert ", ".join(limits) in docs, limits


def test_keys_and_values_on_disk(tmp_path):
    """What one server saved at its end is read by the next."""
    args = ("--ctx", str(CTX), "--max-seqs", "1", "--kv-dir", str(tmp_path / "kv"))
    ask = {"prompt": list(range(1000, 1100)), "max_tokens": 1, "temperature": 0}
    first = Server("metrics-disk-1", *args)
    try:
        assert first.post("/v1/completions", ask).status_code == 200
        now = scrape(first)
        assert now.get("whimbrel:disk_hit_tokens_total") == now.get("whimbrel:disk_pages_total", kind="read") == 0
    finally:
        assert first.stop() == 0
    second = Server("metrics-disk-2", *args)
    try:
        usage = second.post("/v1/completions", ask).json()["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        now = until(second, lambda s: s.get("whimbrel:disk_hit_tokens_total") > 0)
        assert now.get("whimbrel:disk_hit_tokens_total") == now.get("whimbrel:tokens_total", kind="cached") == cached > 0
        assert now.get("whimbrel:disk_bytes") > 0 and now.get("whimbrel:disk_errors_total") == 0
        assert now.get("whimbrel:disk_pages_total", kind="read") == cached / 32
    finally:
        assert second.stop() == 0


# --- before and after ---------------------------------------------------------------------------------------

def test_while_loading_and_draining(tmp_path):
    """Asked from the first moment that the port is open to the end of the drain."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    log = open(tmp_path / "log", "wb")
    process = subprocess.Popen([PROGRAM, "serve", "--port", str(port), "--ctx", str(CTX), "--metrics-compat", "vllm"],
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    states = []
    try:
        def ask():
            answer = http.get("/metrics")
            assert answer.status_code == 200
            now = Scrape(answer.text)
            check_histograms(now)
            state = [s for s in ("loading", "ready", "draining") if now.get("whimbrel:state", state=s) == 1]
            assert len(state) == 1
            assert ("whimbrel:model_info" in now.labels) == (state != ["loading"])
            assert 0 <= now.get("whimbrel:load_progress_ratio") <= 1
            states.append(state[0])
            return state[0]
        end = time.monotonic() + START_LIMIT_S
        while True:
            try:
                if ask() == "ready":
                    break
            except httpx2.ConnectError:
                pass
            time.sleep(0.02)  # loading needs the CPU too
            assert time.monotonic() < end and process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        begun = threading.Event()

        def stream():
            with httpx2.stream("POST", f"http://127.0.0.1:{port}/v1/completions", timeout=60, json={
                    "prompt": "Once", "max_tokens": 120, "ignore_eos": True, "stream": True}) as answer:
                for _ in answer.iter_lines():
                    begun.set()
        thread = threading.Thread(target=stream)
        thread.start()
        assert begun.wait(60)
        process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 30
        while ask() != "draining":
            assert time.monotonic() < end
        thread.join(60)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        http.close()
        log.close()
    assert states == sorted(states, key=["loading", "ready", "draining"].index)
