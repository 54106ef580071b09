#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks beside polite clients: --seconds 900 --attacks 200 --seed N. Three attacks at a time run in random order
(attacks.py), while four clients, each from an address of its own, ask what was asked on the quiet server before. Each
of their answers must be the same; the server must live, say nothing of sanitizers, end well, and stay inside its plan
of memory. How long they waited is told; --strict makes it a condition, for a machine that does nothing else:
five times the idle time to the first token and two steps' worth. On any machine it is a condition how many steps the
model took from a request to its first token.

--turn N takes the attacks of the N-th of many short runs: together they have all kinds and all rows. With TLS=1 the
server speaks TLS, and is attacked there (attacks_tls.py)."""
import argparse
import multiprocessing
import queue
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import attacks
import attacks_tls
from rawhttp import (LIMIT, SLOW, TLS, Reader, Report, Server, connect, files_raise, request_bytes,
                     skip_without_model, split_events)

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
AT_ONCE, POLITE = 3, 4
SPAWN = multiprocessing.get_context("spawn")  # a fork would have locks of this process's threads
RETRIES = 60  # of an answer 429 or 503, as clients do
MOST_STEPS = 15  # from a request to its first token, in half of the cases: 2 to 4 were seen
TOLD = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error|SUMMARY:|UndefinedBehavior")

REQUESTS = [
    (COMPLETIONS, {"prompt": "The sea is", "max_tokens": 12, "temperature": 0}),
    (CHAT, {"messages": [{"role": "user", "content": "Name three birds."}], "max_tokens": 24, "temperature": 0}),
    (CHAT, {"messages": [{"role": "user", "content": "Say a number."}], "max_tokens": 16, "seed": 7, "temperature": 1}),
    (COMPLETIONS, {"prompt": "Gulls nest on cliffs. " * 30 + "Terns nest", "max_tokens": 8, "temperature": 0}),
]


class Refused(Exception):
    pass


def n_steps(port, address):
    """How many steps the model has taken."""
    with connect(port, address=address) as s:
        s.sendall(request_bytes("GET", "/metrics", None, {"Connection": "close"}))
        return int(re.search(rb"^whimbrel:step_seconds_count (\d+)", Reader(s).answer().body, re.M).group(1))


def ask(port, address, path, body, at_first=lambda: None):
    """A streamed answer from this address: its ids and the seconds to its first token, when at_first() is called."""
    start = time.monotonic()
    with connect(port, address=address) as s:
        s.sendall(request_bytes("POST", path, {**body, "stream": True, "return_token_ids": True},
                                {"Connection": "close"}))
        reader = Reader(s)
        status, fields = reader.head()
        if status in (429, 503):
            raise Refused(f"status {status}, Retry-After {fields.get('retry-after')}")
        if status != 200:
            raise RuntimeError(f"status {status}: " + b"".join(reader.pieces(fields)).decode()[:300])
        first, ids = None, []
        for _name, data in split_events(reader.pieces(fields)):
            if data == "[DONE]":
                return ids, first
            found = attacks.json.loads(data)
            if "error" in found:
                raise RuntimeError(f"an error in a stream: {data[:300]}")
            new = [i for c in found["choices"] for i in c.get("token_ids") or []]
            if first is None and new:
                first = time.monotonic() - start
                at_first()
            ids += new
    raise RuntimeError("the stream ended without [DONE]")


class Polite(SPAWN.Process):
    """A client that asks the same few things again and again, in a process of its own: attackers that make large
    bodies keep all threads of theirs waiting, and would be measured with the server."""

    def __init__(self, port, number, wanted):
        super().__init__(daemon=True)
        self.port, self.number, self.wanted = port, number, wanted
        self.stop = SPAWN.Event()
        self.ear, self.mouth = SPAWN.Pipe(duplex=False)
        self.waits = []  # (request, when it was asked, seconds to its first token)
        self.steps = []  # (request, steps of the model to its first token)
        self.refused, self.wrong = 0, []  # wrong: (when, what)

    def run(self):
        turn = self.number
        while not self.stop.is_set() and len(self.wrong) < 5:
            which = turn % len(REQUESTS)
            turn += 1
            begun = time.monotonic()
            try:
                self.one(which)
            except (OSError, EOFError, ValueError, RuntimeError) as error:
                self.wrong.append((begun, f"client {self.number}, request {which}: {error!r}"))
            time.sleep(0.2)
        self.mouth.send((self.waits, self.steps, self.refused, self.wrong))

    def one(self, which):
        for attempt in range(RETRIES + 1):
            address, steps = f"127.0.0.{10 + self.number}", []
            before = n_steps(self.port, address)
            begun = time.monotonic()
            try:
                ids, first = ask(self.port, address, *REQUESTS[which], lambda: steps.append(n_steps(self.port, address)))
            except Refused as why:
                self.refused += 1
                if attempt == RETRIES:
                    self.wrong.append((begun, f"client {self.number}: refused {RETRIES} times: {why}"))
                    return
                time.sleep(1)
                continue
            self.waits.append((which, begun, first))
            self.steps.append((which, steps[0] - before))
            if ids != self.wanted[which]:
                self.wrong.append((begun, f"client {self.number}, request {which}: another answer: {ids}"))
            return

    def end(self):
        """In the parent: what it found; False: it did not come to its end."""
        self.stop.set()
        if not self.ear.poll(LIMIT):
            return False
        self.waits, self.steps, self.refused, self.wrong = self.ear.recv()
        self.join(LIMIT)
        return True


class Attackers:
    """A few at a time work off the list; each attack has its share of the time."""

    def __init__(self, port, chosen, seed, seconds, stop):
        self.port, self.seed, self.stop = port, seed, stop
        self.log = []  # (begin, end, name)
        self.share = seconds * AT_ONCE / len(chosen)
        self.left, self.done = queue.Queue(), 0
        for i, attack in enumerate(chosen):
            self.left.put((i, attack))
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(AT_ONCE)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while not self.stop.is_set():
            try:
                i, attack = self.left.get_nowait()
            except queue.Empty:
                return
            foe = attacks.Foe(self.port, self.seed * 1000 + i, time.monotonic() + self.share, self.stop)
            begun = time.monotonic()
            try:
                attack(foe)
            except (OSError, EOFError, ValueError):
                pass  # refused, closed, timed out: as it should be
            finally:
                foe.close()
                self.log.append((begun, time.monotonic(), attack.__name__))
            self.done += 1

    def beside(self, begin, end):
        """The attacks of that time."""
        return ", ".join(sorted({name for begun, ended, name in self.log if begun < end and ended > begin}))


def tell_waits(report, polite, foes, idle, two_steps, strict):
    """What the polite clients waited, and against what; whether all is within the bound."""
    asked = [w for p in polite for w in p.waits]
    late = []
    for which, alone in enumerate(idle):
        waits = sorted(seconds for request, _when, seconds in asked if request == which)
        if not report.check(f"request {which} was answered", bool(waits)):
            continue
        bound = 5 * alone + two_steps
        late += [w for w in asked if w[0] == which and w[2] > bound]
        print(f"     request {which}: idle {alone:.3f} s, bound {bound:.3f} s; of {len(waits)}: median "
              f"{statistics.median(waits):.3f}, 99 of 100 {waits[int(len(waits) * 0.99)]:.3f}, worst {waits[-1]:.3f} s",
              flush=True)
    print(f"     {len(asked)} polite answers, {len(late)} later than the bound, {sum(p.refused for p in polite)} times "
          "refused and asked again", flush=True)
    for which, when, seconds in sorted(late, key=lambda w: -w[2])[:20]:
        print(f"     request {which}: {seconds:.3f} s, beside {foes.beside(when, when + seconds)}", flush=True)
    if strict:
        report.equal("later than the bound", len(late), 0)
    for which in range(len(REQUESTS)):
        steps = sorted(n for p in polite for request, n in p.steps if request == which)
        report.check(f"request {which} was answered", steps)
        steps = steps or [0]
        print(f"     request {which}: steps to its first token: median {statistics.median(steps):.0f}, worst {steps[-1]}",
              flush=True)
        report.check(f"request {which} waits a few steps", statistics.median(steps) <= MOST_STEPS, steps)


def longest_step(server):
    """Seconds of a full step, from a prompt that takes some."""
    start = time.monotonic()
    ask(server.port, "127.0.0.9", COMPLETIONS, {"prompt": list(range(1000, 2024)), "max_tokens": 1})
    return (time.monotonic() - start) / 2  # of 512 tokens each


def siege(server, report, args):
    wanted, idle = [], []
    for path, body in REQUESTS:
        found = [ask(server.port, "127.0.0.9", path, body) for _ in range(4)]
        report.check("the same four times", all(ids == found[0][0] for ids, _ in found))
        wanted.append(found[0][0])
        idle.append(statistics.median(first for _, first in found))
    two_steps = 2 * longest_step(server)
    stop, peak = threading.Event(), [0, 0]
    if TLS:
        chosen = [attacks_tls.KINDS[i % len(attacks_tls.KINDS)] for i in range(args.attacks)]
    else:
        chosen = attacks.choose(random.Random(args.seed), args.attacks, args.turn)
    polite = [Polite(server.port, i, wanted) for i in range(POLITE)]
    watcher = threading.Thread(target=server.watch, args=(stop, peak), daemon=True)
    for thread in [*polite, watcher]:
        thread.start()
    foes = Attackers(server.port, chosen, args.seed, args.seconds, stop)
    end = time.monotonic() + args.seconds * 1.5 + 4 * LIMIT
    while any(t.is_alive() for t in foes.threads) and server.alive() and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(2)
    stop.set()
    for p in polite:
        report.check("a polite client has ended", p.end())
        told = "; ".join(f"{what}, beside {foes.beside(when, when + 1)}" for when, what in p.wrong)
        report.check("polite answers", not p.wrong, told[:900])
    report.check("attacks", foes.done >= args.attacks * 0.9, f"{foes.done} of {args.attacks} came to their end")
    tell_waits(report, polite, foes, idle, two_steps, args.strict)
    plan = server.planned_bytes()
    print(f"     memory at its peak: {peak[0] / (1 << 30):.2f} GiB, planned {plan / (1 << 30):.2f} GiB", flush=True)
    if "requests and answers" in server.log() and SLOW == 1:
        report.check("memory inside the plan", peak[0] <= plan, f"{peak[0]} of {plan:.0f} bytes")


def certificate(folder):
    """Options of a server that has a certificate of its own; RSA, whose signatures are the dearest."""
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-out", cert, "-keyout", key], check=True, capture_output=True)
    return ["--tls-cert", cert, "--tls-key", key]


def run(server, report, args):
    """A siege, and how the server ends."""
    with server:
        siege(server, report, args)
        health = server.wait_idle()
        report.equal("pages in use at the end", health["kv_pages_used"], 0)
        report.check("alive", server.alive(), server.log()[-3000:])
        report.equal("exit status", server.stop(), 0)
        told = [line for line in server.lines if TOLD.search(line)]
        report.check("no report of a sanitizer", not told, "\n".join(told[:20]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--attacks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--turn", type=int)
    parser.add_argument("--strict", action="store_true")
    args = parser.parse_args()
    skip_without_model()
    if TLS and shutil.which("openssl") is None:
        print("skip: there is no openssl to make a certificate with")
        return 77
    files_raise()
    report = Report()
    print(f"     seed {args.seed}, {args.attacks} attacks in {args.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = Server("--no-kv-dir", *(certificate(folder) if TLS else []))
        except RuntimeError as error:
            if not TLS or "this build has no TLS" not in str(error):
                raise
            print("skip: this build has no TLS")
            return 77
        run(server, report, args)
    return report.end()



if __name__ == "__main__":
    sys.exit(main())
