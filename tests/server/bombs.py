#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server in a control group of 1 GB, all that takes much memory at once from one address, a whole request on every
connection from another, and a polite client from a third: it gets the right answer throughout, and the server lives
within what its plan says. For so many seconds (30), and until each bomb was thrown and some polite answers came."""
import collections
import contextlib
import functools
import json
import os
import re
import socket
import sys
import threading
import time

import rawhttp
from rawhttp import LIMIT, SLOW, Reader, Report, Server, files_raise, request_bytes, skip_without_model

GROUP_BYTES = 1 << 30
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 30
ASK = {"prompt": "The sea is", "max_tokens": 3, "temperature": 0, "return_token_ids": True}
LARGE = {**ASK, "metadata": {"nobody_reads": "x" * 300_000}}
BOMBER, POLITE, CROWDED = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MOST_HELD = 60  # connections whose replies one bomb leaves unread
CROWD = 1008  # connections of the bomb that takes all of them
RETRIES = 20  # of an answer 429 or 503, as clients do
LEAST = 3  # polite answers


# --- the control group -----------------------------------------------------------------------------

class Group:
    """Of version 1 or 2, whichever takes us."""

    def __init__(self):
        name = f"whimbrel-bombs-{os.getpid()}"
        self.path = self.v1 = None
        for root, limit, more in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
                                  ("/sys/fs/cgroup", "memory.max", "memory.swap.max")):
            path = f"{root}/{name}"
            try:
                os.mkdir(path)
                with open(f"{path}/{limit}", "w", encoding="ascii") as f:
                    f.write(str(GROUP_BYTES))
            except OSError as e:
                self.why = str(e)
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                continue
            with contextlib.suppress(OSError):  # not every kernel counts swap
                with open(f"{path}/{more}", "w", encoding="ascii") as f:
                    f.write(str(GROUP_BYTES if "memsw" in more else 0))
            self.path, self.v1 = path, "limit_in_bytes" in limit
            return

    def runner(self):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def most(self):
        with open(f"{self.path}/" + ("memory.max_usage_in_bytes" if self.v1 else "memory.peak"), encoding="ascii") as f:
            return int(f.read())

    def close(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


refusals = collections.Counter()  # of the polite one


# --- requests --------------------------------------------------------------------------------------

def connect(port, source, limit=LIMIT):
    return socket.create_connection(("127.0.0.1", port), timeout=limit, source_address=(source, 0))


def polite(port, path="/v1/completions", body=ASK):
    """An answer. Who is told that memory is short or the queue full asks again, as it is told, RETRIES times."""
    for attempt in range(RETRIES + 1):
        with connect(port, POLITE) as s:
            s.sendall(request_bytes("POST", path, body, {"Connection": "close"}))
            answer = Reader(s).answer()
        if answer.status not in (429, 503) or attempt == RETRIES:
            return answer
        refusals[path if body is ASK else "large"] += 1
        time.sleep(float(answer.headers["retry-after"]))


def said(content, **more):
    return {"messages": [{"role": "user", "content": content}], **more}


def values(n_bytes):
    """A text of JSON that takes most memory for its length."""
    return '{"a":[' + ",".join(["{}"] * (n_bytes // 3)) + "]}"


@functools.cache
def ids_bomb():
    return "/detokenize", json.dumps({"tokens": [28, 339, 253] * 666_000}).encode()


@functools.cache
def field_bomb():
    body = json.dumps(said("hi", max_tokens=400, ignore_eos=True, stream=True))
    return "/v1/chat/completions", (body[:-1] + ',"nobody_reads":[' + ",".join(['""'] * 2_000_000) + "]}").encode()


@functools.cache
def arguments_bomb():
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": values(30_000_000)}}
    return "/v1/chat/completions", json.dumps(
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": "x", "content": "1"}], "max_tokens": 1}).encode()


@functools.cache
def text_bomb():
    return "/v1/chat/completions", json.dumps(said("word " * 6_000_000, max_tokens=1)).encode()


@functools.cache
def cut_bomb():
    return "/v1/completions", json.dumps({"prompt": "word " * 6_000_000, "truncate_prompt_tokens": 9,
                                          "max_tokens": 1}).encode()


@functools.cache
def small_values_bomb():
    return "/v1/chat/completions", ('{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"metadata":'
                                    + values(30_000) + "}").encode()


@functools.cache
def small_ids_bomb():
    return "/detokenize", json.dumps({"tokens": [28] * 10_000}).encode()


def schema_bomb():
    schema_bomb.n += 1
    schema = {"type": "object", "properties": {f"k{schema_bomb.n}_{i}": {"enum": [f"{i}_{k}" for k in range(40)]}
                                               for i in range(300)}}
    return "/v1/chat/completions", json.dumps(said("hi", max_tokens=1, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})).encode()


schema_bomb.n = 0


@functools.cache
def tell_all_bomb():
    return "/v1/chat/completions", json.dumps(said("hi", n=4, max_tokens=300, ignore_eos=True, logprobs=True,
                                                   top_logprobs=20)).encode()


@functools.cache
def repeated_bomb():
    """Settings that each of many answers repeats."""
    return "/completion", json.dumps({"prompt": "hi", "n_predict": 1, "n_cmpl": 128,
                                      "logit_bias": [[i, 0.5] for i in range(8000)]}).encode()


@functools.cache
def echo_bomb():
    return "/v1/completions", json.dumps({"prompt": "word " * 1500, "n": 64, "max_tokens": 1, "echo": True,
                                          "return_token_ids": True}).encode()


@functools.cache
def half_a_body():
    """Much of a body whose end never comes."""
    return "/v1/completions", b'{"prompt":"' + b"x" * 20_000_000


def crowd_bomb():
    """A request that waits for a grammar of its own."""
    crowd_bomb.n += 1
    return "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1, "user": "x" * 31_000,
                                          "regex": f"((a{{0,40}}){{0,40}}){{0,40}}{crowd_bomb.n}"}).encode()


crowd_bomb.n = 0


class Bomber(threading.Thread):
    """Throws one kind over and over, and keeps the connections open without reading, the latest MOST_HELD."""

    def __init__(self, port, make, stop, statuses, address=BOMBER, most=MOST_HELD, wait=0.5, behind=b""):
        super().__init__(daemon=True)
        self.address, self.most, self.wait, self.behind = address, most, wait, behind
        self.port, self.make, self.stop, self.statuses = port, make, stop, statuses
        self.held, self.silent, self.thrown = [], set(), 0  # silent: had no status when it was looked at

    def look(self, s, wait):
        """Count the status where it is there by now; whether it was."""
        s.settimeout(wait)
        got = None
        with contextlib.suppress(OSError):
            got = re.match(rb"HTTP/1.1 (\d+)", s.recv(16, socket.MSG_PEEK))
        if got:
            self.statuses[f"{self.make.__name__} {int(got.group(1))}"] += 1
        return got is not None

    def drop(self, s):
        if s in self.silent:
            self.silent.remove(s)
            self.look(s, 0.01)
        s.close()

    def run(self):
        while not self.stop.is_set():
            try:
                path, body = self.make()
                s = connect(self.port, self.address, 5)
                claimed = 32_000_000 if self.make is half_a_body else len(body)
                s.sendall(request_bytes("POST", path, body, {"Content-Length": str(claimed)}))
                self.held.append(s)
                self.thrown += 1
                if self.behind:
                    s.send(self.behind, socket.MSG_DONTWAIT)
                if not self.look(s, self.wait):
                    self.silent.add(s)
            except OSError:
                time.sleep(0.05)
            while len(self.held) > self.most:
                self.drop(self.held.pop(0))
        for s in self.held:
            self.drop(s)


def run(group, report):
    files_raise()
    with Server("--ctx", 2048, "--max-seqs", 8, "--no-kv-dir") as server:
        want = polite(server.port).json()["choices"][0]["token_ids"]
        statuses, late, wrong, n, idle = collections.Counter(), 0, [], 0, server.memory()[1]
        large = []  # what became of large bodies of the polite one
        kinds = (ids_bomb, field_bomb, arguments_bomb, text_bomb, cut_bomb, small_values_bomb, small_ids_bomb, schema_bomb,
                 tell_all_bomb, repeated_bomb, echo_bomb, half_a_body)
        stop, end = threading.Event(), time.monotonic() + 10 * (SECONDS + LIMIT)
        peak = [0, 0]
        watcher = threading.Thread(target=server.watch, args=(stop, peak), daemon=True)
        watcher.start()
        for kind in kinds:
            kind()  # most are made once, because that takes as long as the answers
        bombers = [Bomber(server.port, crowd_bomb, stop, statuses, CROWDED, CROWD, 0.001, b"z" * 60_000)]
        bombers[0].start()
        while bombers[0].thrown < CROWD and time.monotonic() < end:
            time.sleep(0.05)
        bombers += [Bomber(server.port, kind, stop, statuses) for kind in kinds]
        for bomber in bombers[1:]:
            bomber.start()
        until = time.monotonic() + SECONDS
        while server.alive() and time.monotonic() < end and (
                time.monotonic() < until or n < LEAST or not all(b.thrown > 0 for b in bombers)):
            began = time.monotonic()
            try:
                answer = polite(server.port)
                if answer.status != 200 or answer.json()["choices"][0]["token_ids"] != want:
                    wrong.append(f"{answer.status} {answer.text()[:200]}")
            except (OSError, EOFError) as e:
                wrong.append(repr(e))
            late = max(late, time.monotonic() - began)
            try:
                large.append(polite(server.port, body=LARGE).status)
            except (OSError, EOFError) as e:
                large.append(repr(e))
            n += 1
            time.sleep(0.1)
        stop.set()
        for thread in [*bombers, watcher]:
            thread.join()
        report.check("the server lives", server.alive(), server.log()[-1500:])
        report.check("all connections were taken", bombers[0].thrown >= CROWD, bombers[0].thrown)
        report.check("every polite answer is right", n >= LEAST and not wrong, f"{len(wrong)} of {n}: {wrong[:5]}")
        report.check("every large polite body is answered", set(large) == {200}, collections.Counter(large))
        report.check("all were thrown", all(b.thrown > 0 for b in bombers), {b.make.__name__: b.thrown for b in bombers})
        report.check("some were told that memory is short", any(k.endswith(" 503") for k in statuses), statuses)
        report.check("few polite requests are refused", refusals["/v1/completions"] <= n + RETRIES, f"{refusals} of {n}")
        took, planned = peak[1] - idle, server.planned_bytes("requests and answers")
        if SLOW == 1:  # sanitizers take memory of their own
            report.check("memory inside the plan", took <= planned, f"{took} of {planned:.0f} bytes")
        print(f"{n} polite answers, the slowest took {late:.1f} s; refused: {dict(refusals)}; requests took {took >> 20} of "
              f"{int(planned) >> 20} MiB, the group {group.most() >> 20}; {dict(statuses)}")
        if server.alive():
            server.wait_idle()
            report.equal("and it answers afterwards", polite(server.port).json()["choices"][0]["token_ids"], want)
            report.equal("a clean end", server.stop(), 0)


def main():
    skip_without_model()
    group = Group()
    report = Report()
    if group.path is None:
        print(f"skip: no control group can be made: {group.why}")
        sys.exit(77)
    rawhttp.RUNNER = group.runner() + rawhttp.RUNNER
    try:
        run(group, report)
    finally:
        group.close()
    print(f"RESULT passed={report.passed} failed={report.failed} skipped={report.skipped}")
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
