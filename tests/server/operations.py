#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What whoever runs the server relies on: exit codes, signals, health, keys, the folder of keys and values, many idle
connections, the watchdog, preemption, and a log without secrets. With an argument: only tests with it in the name."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from rawhttp import (LIMIT, MODEL, PROGRAM, RUNNER, SLOW, Reader, Report, Server, connect, events, free_port, get,
                     post, request_bytes, skip_without_model)

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SMALL = ("--ctx", 1024, "--kv-mem", "48M")
QUICK = 30 * SLOW  # seconds to wait for what needs no work; how long it took is never checked, machines are busy
ORDINARY = {"prompt": "The sea is", "max_tokens": 6, "temperature": 0}


def ids(seed, n):
    rng = random.Random(seed)
    return [rng.randrange(100, 40000) for _ in range(n)]


def text_of(answer):
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.text()[:300]}")
    return answer.json()["choices"][0]["text"]


def start_and_end(*args, env=None):
    """A start that should fail: exit status and what it said."""
    done = subprocess.run(RUNNER + [PROGRAM, "serve", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT, env={**os.environ, **(env or {})}, check=False)
    return done.returncode, (done.stderr + done.stdout).decode()


# --- starting ---------------------------------------------------------------------------------------------

def exit_codes(r, folder):
    empty = os.path.join(folder, "empty")
    with open(empty, "w", encoding="ascii"):
        pass
    port = free_port()
    cases = [
        ("unknown flag", 2, ("--frobnicate",), "frobnicate"),
        ("port out of range", 2, ("--port", 99999), "port"),
        ("key file that is not there", 2, (MODEL, "--port", port, "--api-key-file", folder + "/none"), "none"),
        ("key file without a key", 2, (MODEL, "--port", port, "--api-key-file", empty), "empty"),
        ("model that is not there", 1, (folder + "/none.gguf", "--port", port), "none.gguf"),
        ("model that is none", 1, (empty, "--port", port), "empty"),
    ]
    # In a container a key is made instead (tests/first/start.py).
    if not any(os.path.exists(x) for x in ("/.dockerenv", "/run/.containerenv")):
        cases += [(f"{host} without a key", 2, (MODEL, "--port", port, "--host", host), "--allow-no-key")
                  for host in ("0.0.0.0", "::")]
    for name, want, args, word in cases:
        code, said = start_and_end(*args)
        r.equal(f"{name}: exit status", code, want)
        r.check(f"{name}: says so", word in said, said[-300:])
        r.check(f"{name}: before loading", "loading" not in said, said[-300:])


def port_in_use(r, _folder):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, said = start_and_end(MODEL, "--port", port)
    r.equal("port in use: exit status", code, 1)
    r.check("port in use: says so", "is taken" in said and str(port) in said and "make serve PORT=" in said, said)
    r.check("port in use: before loading", "loading" not in said, said)


def loading(r, _folder):
    seen, refused = [], None
    with Server(*SMALL, ready=False) as server:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            try:
                ready = get(server.port, "/readyz")
                live = get(server.port, "/livez").status
                health = get(server.port, "/health")
                if ready.status == 503 and refused is None:
                    refused = post(server.port, CHAT, {"messages": [{"role": "user", "content": "a"}]})
            except OSError:
                continue
            seen.append((ready.status, ready.json()["status"], live, health.json()["status"]))
            if ready.status == 200:
                break
    r.equal("loading: ready in the end", seen[-1][:3], (200, "ready", 200))
    r.check("loading: alive all the time", all(x[2] == 200 for x in seen), seen)
    if len(seen) < 2 or refused is None or refused.status != 503:
        r.skip("loading", "the model was there before the first question")
        return
    r.equal("loading: said so", seen[0][:2], (503, "loading"))
    r.equal("loading: code", refused.json()["error"]["code"], "model_loading")
    r.check("loading: Retry-After", "retry-after" in refused.headers, refused.headers)


# --- stopping ---------------------------------------------------------------------------------------------

class Stream(threading.Thread):
    """A long answer in the background."""

    def __init__(self, port, n_token):
        super().__init__(daemon=True)
        self.port, self.n_token = port, n_token
        self.begun = threading.Event()
        self.data, self.error = [], None
        self.start()
        if not self.begun.wait(LIMIT):
            raise RuntimeError("the stream does not begin")

    def run(self):
        try:
            for n, (_, data) in enumerate(events(self.port, COMPLETIONS, {
                    "prompt": "Once", "max_tokens": self.n_token, "ignore_eos": True, "temperature": 0,
                    "return_token_ids": True})):
                self.data.append(data)
                if n == 2:
                    self.begun.set()
        except (OSError, EOFError, RuntimeError) as error:
            self.error = error
        self.begun.set()

    def n_made(self):
        return sum(len(c.get("token_ids") or []) for d in self.data if d != "[DONE]"
                   for c in json.loads(d).get("choices", []))


def finishing(server):
    """A signal to stop was heard, which a thread of the server's own waits for."""
    end = time.monotonic() + LIMIT
    while "finishing" not in server.log() and time.monotonic() < end:
        time.sleep(0.02)
    return "finishing" in server.log()


def drain(r, _folder):
    with Server(*SMALL, "--drain", LIMIT) as server:
        alone = text_of(post(server.port, COMPLETIONS, ORDINARY))
        r.check("an ordinary answer", alone != "", alone)
        kept = connect(server.port)
        kept.sendall(request_bytes("GET", "/livez"))
        r.equal("drain: a connection before it", Reader(kept).answer().status, 200)
        stream = Stream(server.port, 150)
        half = connect(server.port)  # let in, and not complete when the signal comes
        sent = request_bytes("POST", COMPLETIONS, ORDINARY, {"Expect": "100-continue"})
        half.sendall(sent[:-5])
        begun = Reader(half)
        r.equal("drain: a request half sent", begun.line(), b"HTTP/1.1 100 Continue")
        server.signal(signal.SIGTERM)
        r.check("drain: it began", finishing(server), server.log()[-300:])
        kept.sendall(request_bytes("POST", COMPLETIONS, ORDINARY))
        answer = Reader(kept).answer()
        r.equal("drain: a new request", answer.status, 503)
        r.equal("drain: its code", answer.json()["error"]["code"], "draining")
        r.equal("drain: its connection", answer.headers.get("connection"), "close")
        probe = get(server.port, "/readyz")
        r.equal("drain: readyz", (probe.status, probe.json()["status"]), (503, "draining"))
        r.equal("drain: livez", get(server.port, "/livez").status, 200)
        r.equal("drain: on a new connection", post(server.port, COMPLETIONS, ORDINARY).status, 503)
        half.sendall(sent[-5:])
        begun.line()
        answer = begun.answer()
        r.equal("drain: who was let in before", (text_of(answer), answer.headers.get("connection")), (alone, "close"))
        code = server.wait()
        stream.join(LIMIT)
        r.equal("drain: exit status", code, 0)
        r.check("drain: the stream ended well", stream.error is None and stream.data[-1] == "[DONE]", stream.error)
        r.equal("drain: all its tokens", stream.n_made(), 150)
        r.check("drain: it says what it waits for", "finishing 2 requests" in server.log(), server.log()[-500:])


def cut_off(r, name, server, stream):
    code = server.wait()
    stream.join(LIMIT)
    r.equal(f"{name}: exit status", code, 0)
    r.check(f"{name}: the stream was not finished", 0 < stream.n_made() < stream.n_token, stream.n_made())
    r.check(f"{name}: it is told so", stream.error is None and stream.data[-1:] == ["[DONE]"]
            and "error" in json.loads(stream.data[-2]), (stream.error, stream.data[-2:]))


def second_signal(r, _folder):
    for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)):
        with Server(*SMALL) as server:
            stream = Stream(server.port, 900)
            server.signal(first)
            r.check("second signal: the first was heard", finishing(server), server.log()[-300:])
            time.sleep(0.7)
            r.check("second signal: it waits after the first", server.alive(), server.log()[-300:])
            server.signal(second)
            cut_off(r, f"second signal {second.name}", server, stream)


def drain_limit(r, _folder):
    with Server(*SMALL, "--drain", 1) as server:
        stream = Stream(server.port, 900)
        server.signal(signal.SIGTERM)
        cut_off(r, "drain limit", server, stream)


def stop_under_fire(r, _folder):
    """Health is asked all the time while the server stops: nothing may look at what is gone."""
    for _ in range(3):
        with Server(*SMALL) as server:
            stream = Stream(server.port, 900)
            stop = threading.Event()

            def ask(port=server.port, stop=stop):
                try:
                    while not stop.is_set():
                        get(port, random.choice(["/livez", "/health"]))
                except OSError:
                    pass  # it has stopped
            threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
            for t in threads:
                t.start()
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGTERM)
            r.check("stop under fire: a signal was heard", finishing(server), server.log()[-300:])
            server.signal(signal.SIGTERM)
            r.equal("stop under fire: exit status", server.wait(), 0)
            stop.set()
            stream.join(LIMIT)


def watchdog(r, _folder):
    """A loop that does not come back: one thread is held, as a hanging step would hold it."""
    with Server(*SMALL, "--step-limit", 5) as server:
        post(server.port, COMPLETIONS, ORDINARY)
        thread = server.hold_engine()
        r.check("watchdog: there is a loop", thread != 0, "no thread has the name engine")
        if thread < 0:
            r.skip("watchdog", f"one thread cannot be held here: {os.strerror(-thread)}")
            return
        start = time.monotonic()
        with connect(server.port) as s:
            s.sendall(request_bytes("POST", COMPLETIONS, ORDINARY))
            while server.reap_held(thread) and time.monotonic() - start < LIMIT:
                time.sleep(0.05)
        r.equal("watchdog: exit status", server.wait(), 1)
        quiet = re.search(r"event=hang .*quiet_ms=(\d+)", server.log())
        r.check("watchdog: after the limit", quiet is not None and int(quiet[1]) >= 5000, server.log()[-500:])
        r.check("watchdog: last words", "event=hang" in server.log(), server.log()[-500:])


def stopped_for_a_while(r, _folder):
    """The whole process was stopped (Ctrl-Z, a paused machine): that is no step that hangs."""
    with Server(*SMALL, "--step-limit", 5) as server:
        text = text_of(post(server.port, COMPLETIONS, ORDINARY))
        stream = Stream(server.port, 100)
        for _ in range(2):
            server.signal(signal.SIGSTOP)
            time.sleep(5.5)
            server.signal(signal.SIGCONT)
            time.sleep(0.1)
        stream.join(LIMIT)
        r.check("stopped for a while: the stream goes on", stream.error is None and stream.n_made() == 100,
                stream.error)
        r.check("stopped for a while: alive", server.alive(), server.log()[-500:])
        r.equal("stopped for a while: the same text", text_of(post(server.port, COMPLETIONS, ORDINARY)), text)


# --- keys and the log --------------------------------------------------------------------------------------

def keys(r, folder):
    path = os.path.join(folder, "keys")

    def write(*lines):
        with open(path, "w", encoding="ascii") as f:
            f.write("\n".join(lines) + "\n")
    write("# ours", "first-key-7Qx", "", "second-key-8Rz priority")
    with Server(*SMALL, "--api-key-file", path, "--log-level", "debug") as server:
        def status(key, header="bearer"):
            headers = {} if key is None else ({"Authorization": f"Bearer {key}"} if header == "bearer"
                                              else {"x-api-key": key})
            return post(server.port, "/tokenize", {"prompt": "a"}, headers).status
        r.equal("keys", [status(None), status("wrong-key-9Sy"), status("first-key-7Qx"), status("second-key-8Rz"),
                         status("first-key-7Qx", "x"), status("first-key-7Q"), status("first-key-7Qxx"), status("")],
                [401, 401, 200, 200, 200, 401, 401, 401])
        r.equal("health needs none", [get(server.port, p).status for p in ("/livez", "/readyz", "/health")], [200] * 3)
        r.equal("what is behind it does", [get(server.port, p).status for p in ("/v1/models", "/version")], [401] * 2)
        write("third-key-1Tu")
        server.signal(signal.SIGHUP)
        end = time.monotonic() + QUICK
        while status("third-key-1Tu") != 200 and time.monotonic() < end:
            time.sleep(0.05)
        r.equal("after SIGHUP", [status("third-key-1Tu"), status("first-key-7Qx")], [200, 401])
        write("two words")
        server.signal(signal.SIGHUP)
        time.sleep(1)
        r.equal("after SIGHUP with a bad file", [status("third-key-1Tu"), status("two")], [200, 401])
        secret(r, server)
        r.equal("keys: exit status", server.stop(), 0)
        for word in ("first-key", "second-key", "third-key", "wrong-key", "two words"):
            r.check(f"the log has no {word}", word not in server.log(), word)
    code, said = start_and_end(MODEL, "--port", free_port(), "--host", "0.0.0.0", "--api-key-file", folder + "/x",
                               env={"WHIMBREL_API_KEY": "k"})
    r.equal("the file is named though there is a variable", code, 2)
    r.check("it says which", "--api-key-file" in said, said)


def secret(r, server):
    """Requests of every kind, good and bad, with words that must not be in the log."""
    key = {"Authorization": "Bearer third-key-1Tu"}
    word = "Zanzibarium"
    turn = [{"role": "user", "content": word}]
    for path, body in ((CHAT, {"messages": turn, "max_tokens": 3}), (COMPLETIONS, {"prompt": word, "max_tokens": 3}),
                       ("/v1/messages", {"messages": turn, "max_tokens": 3}),
                       ("/v1/responses", {"input": word, "max_output_tokens": 3}),
                       ("/tokenize", {"prompt": word}), (CHAT, {"messages": turn, "stop": [word], "n": 1000}),
                       (COMPLETIONS, {"prompt": [word] * 2000}), (CHAT, {"messages": turn, "regex": word + "("}),
                       (CHAT, {"messages": turn, "response_format": {"type": "json_schema", "json_schema": {
                           "name": "x", "schema": {"type": word}}}}),
                       (CHAT, {"messages": [{"role": word, "content": word}]}), (CHAT, word.encode() + b"{"),
                       (COMPLETIONS, {"prompt": word * 2000})):
        post(server.port, path, body, key)
    r.check("the log has no prompt", word not in server.log(),
            [x for x in server.lines if word in x][:2])


# --- the folder of keys and values ---------------------------------------------------------------------------

LONG = {"prompt": ids(5, 300), "max_tokens": 8, "temperature": 0, "ignore_eos": True}


def ask_long(server):
    answer = post(server.port, COMPLETIONS, LONG)
    return text_of(answer), answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def files_of(folder):
    return sorted((os.path.join(d, f) for d, _, names in os.walk(folder) for f in names),
                  key=lambda p: -os.path.getsize(p))


def kv_folder(r, folder):
    args = (*SMALL, "--kv-dir", folder + "/kv")
    with Server(*args) as server:
        text, cached = ask_long(server)
        r.equal("folder: nothing at first", cached, 0)
        r.equal("folder: exit status", server.stop(), 0)
    r.equal("folder: for this user only", os.stat(folder + "/kv").st_mode & 0o077, 0)
    with Server(*args) as server:
        again, cached = ask_long(server)
        r.equal("folder: the same text", again, text)
        r.check("folder: served from disk", cached >= 256, cached)
        second = start_and_end(MODEL, *args, "--port", free_port())
        r.check("folder: not for two at once", second[0] == 1 and "Error" not in second[1], second)
        server.stop()
    segment = files_of(folder + "/kv")[0]
    size = os.path.getsize(segment)
    with open(segment, "r+b") as f:
        f.truncate(size * 2 // 3)
    with Server(*args) as server:
        again, cached = ask_long(server)
        r.equal("torn: the same text", again, text)
        r.check("torn: some of it was there", 0 < cached < 288, cached)
        r.check("torn: a kill leaves that, so no line", "event=kv_dir" not in server.log(), server.log()[-800:])
        server.stop()
    with open(files_of(folder + "/kv")[0], "r+b") as f:
        f.seek(size // 3)
        f.write(random.Random(1).randbytes(64))
    with open(os.path.join(os.path.dirname(segment), "foreign"), "wb") as f:
        f.write(b"not ours")
    for name in ("0", "1", "7", "99"):  # what a segment could be called
        with open(segment + name, "wb") as f:
            f.write(random.Random(2).randbytes(5000))
    with Server(*args) as server:
        r.equal("damaged: the same text", ask_long(server)[0], text)
        r.equal("damaged: exit status", server.stop(), 0)
    with Server(*args, "--kv-type", "f32") as server:
        _, cached = ask_long(server)
        r.equal("stale: keys and values of another kind are not taken", cached, 0)
        server.stop()


def kv_kill(r, folder):
    """kill -9 while pages are written, then again: nothing but cache is lost."""
    args = ("--ctx", 512, "--kv-mem", "14M", "--kv-dir", folder + "/kv")
    with Server(*args) as server:
        text, _ = ask_long(server)
        server.process.kill()
        server.wait()
    for turn in range(2):
        with Server(*args) as server:
            r.equal(f"kill {turn}: the same text", ask_long(server)[0], text)
            stop = threading.Event()

            def load(port=server.port, turn=turn, stop=stop):
                i = 0
                while not stop.is_set():
                    i += 1
                    try:
                        post(port, COMPLETIONS, {"prompt": ids(1000 * turn + i, 350), "max_tokens": 1})
                    except OSError:
                        return
            thread = threading.Thread(target=load, daemon=True)
            thread.start()
            written = lambda: sum(os.path.getsize(p) for p in files_of(folder + "/kv"))
            before, end = written(), time.monotonic() + LIMIT
            while written() < before + (9 << 20) and time.monotonic() < end:
                time.sleep(0.01)
            server.process.kill()
            r.check(f"kill {turn}: pages were written", written() > before, before)
            stop.set()
            thread.join(LIMIT)
    with Server(*args) as server:
        again, cached = ask_long(server)
        r.equal("after the kills: the same text", again, text)
        r.check("after the kills: what was written whole is there", cached >= 256, cached)
        r.equal("after the kills: exit status", server.stop(), 0)


# --- load ---------------------------------------------------------------------------------------------------

def idle_connections(r, _folder):
    with Server(*SMALL) as server:
        text_of(post(server.port, COMPLETIONS, ORDINARY))
        rss, socks = server.memory()[0], []
        for _ in range(1000):
            s = connect(server.port)
            s.sendall(request_bytes("GET", "/livez"))
            socks.append(s)
        statuses = {Reader(s).answer().status for s in socks}
        more, among = server.memory()[0] - rss, post(server.port, COMPLETIONS, ORDINARY)
        n = server.health()["connections"]
        for s in socks:
            s.close()
        r.equal("idle: all were answered", statuses, {200})
        r.equal("idle: a request beside them is answered", among.status, 200)
        r.check("idle: they are open", n >= 1000, n)
        if SLOW == 1:
            r.check("idle: under 20 MB", more < 20e6, more)


def large_bodies(r, _folder):
    """Parsed, a body of many turns takes some ten times its size: that memory comes back."""
    if SLOW != 1:
        r.skip("large bodies", "sanitizers have an allocator of their own")
        return
    body = json.dumps({"messages": [{"role": "user", "content": "word " * 20}] * 40000, "max_tokens": 1}).encode()
    with Server(*SMALL) as server:
        text_of(post(server.port, COMPLETIONS, ORDINARY))
        before = server.memory()[0]
        for _ in range(4):  # one for each thread that may have kept some
            r.equal("large bodies: refused", post(server.port, CHAT, body).status, 400)
        end = time.monotonic() + LIMIT
        while server.memory()[0] > before + 150e6 and time.monotonic() < end:
            time.sleep(0.1)
        more = server.memory()[0] - before
        print(f"     bodies of {len(body) / 1e6:.1f} MB: {more / 1e6:.0f} MB more after them", flush=True)
        r.check("large bodies: memory comes back", more < 150e6, more)


def preemption(r, _folder):
    """Many requests that do not fit together give the texts that they give alone."""
    with Server("--ctx", 512, "--kv-mem", "13M", "--max-seqs", 12) as server:
        bodies = [{"prompt": ids(i, 90 + i), "max_tokens": 60, "temperature": 0 if i % 2 else 0.8, "seed": i,
                   "ignore_eos": True, "return_token_ids": True, "priority": i % 3} for i in range(6)]
        alone = [post(server.port, COMPLETIONS, b).json()["choices"][0]["token_ids"] for b in bodies]
        together = [None] * len(bodies)

        def ask(i):
            answer = post(server.port, COMPLETIONS, bodies[i], limit=4 * LIMIT)
            together[i] = answer.json()["choices"][0]["token_ids"] if answer.status == 200 else answer.text()
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for t in threads:
            t.start()
        for t in threads:
            t.join(4 * LIMIT)
        health = server.wait_idle()
        r.check("preemption: there was some", health["preempted_total"] > 0, health)
        r.equal("preemption: pages come back", health["kv_pages_used"], 0)
        for i, tokens in enumerate(together):
            r.equal(f"preemption: request {i}", tokens, alone[i])
        print(f"     preempted {health['preempted_total']} times", flush=True)


def main():
    skip_without_model()
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    report = Report()
    for test in (exit_codes, port_in_use, loading, drain, second_signal, drain_limit, stop_under_fire, watchdog,
                 stopped_for_a_while, keys, kv_folder, kv_kill, idle_connections, large_bodies, preemption):
        if only in test.__name__:
            with tempfile.TemporaryDirectory() as folder:
                report.guard(test.__name__, test, report, folder)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
