#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixed load for as long as it is told: --seconds 60. Every answer is compared with the one that the same request got
alone on the quiet server before; resident memory stays flat; every page comes back; no request is lost.

The server has little memory for keys and values, so that prefixes are evicted and requests preempted, and a folder
for them. A fifth of the clients hang up in the middle; others read slowly or send bodies that are refused."""
import argparse
import asyncio
import collections
import json
import random
import statistics
import sys
import tempfile
import time

from rawhttp import LIMIT, SLOW, Report, Server, post, request_bytes, skip_without_model, split_events

MIB = 1 << 20
# What memory may do after the warm-up: heaps of many threads settle slowly, so a little is let pass. Medians show what
# stays; at its peak there are pages that wait for a slow disk too, as the memory plan says.
GROWTH = 32 * MIB
LATE_GROWTH = 8 * MIB  # the last third of the run against the one before
WAITING_PAGES = 64 * MIB

CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
WORDS = ("sea bird wing tide shore salt wind egg nest reef sand shell gull crab stone wave light cloud rain grass "
         "river boat net rope sail star night moon cold warm").split()
TOOL = {"name": "look", "description": "Look for a bird.",
        "parameters": {"type": "object", "properties": {"bird": {"type": "string", "maxLength": 12},
                                                        "count": {"type": "integer", "minimum": 0, "maximum": 99}},
                       "required": ["bird", "count"], "additionalProperties": False}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10},
                                           "kind": {"enum": ["gull", "tern", "wader"]},
                                           "sizes": {"type": "array", "items": {"type": "integer", "minimum": 0,
                                                                               "maximum": 9},
                                                     "minItems": 1, "maxItems": 3}},
          "required": ["name", "kind", "sizes"], "additionalProperties": False}
REFUSED = [(COMPLETIONS, b"{", 400), (CHAT, b'{"messages":[]}', 400), (COMPLETIONS, b'{"prompt":[-1]}', 400),
           (CHAT, b'{"messages":[{"role":"user","content":"\xff"}]}', 400), (MESSAGES, b'{"max_tokens":1}', 400),
           (RESPONSES, b'{"input":3}', 400), ("/nothing", b"{}", 404), (COMPLETIONS, b'{"prompt":"a","n":1000}', 400),
           (CHAT, b'{"messages":[{"role":"user","content":"a"}],"regex":"("}', 400),
           (COMPLETIONS, json.dumps({"prompt": [7] * 9000}).encode(), 400)]


# --- the requests -----------------------------------------------------------------------------------------

def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


def make_request(rng, prefixes, kind):
    """(path, body) of one kind; sampled ones have a seed, so that they too have one answer."""
    text = words(rng, rng.randint(3, 40))
    if rng.random() < 0.4:
        text = rng.choice(prefixes) + " " + text
    if kind.startswith("long"):
        text = words(rng, rng.randint(int(kind[4:]) // 2, int(kind[4:])))
    limit = rng.choice([1, 4, 12, 24, 48])
    sampling = {"temperature": 0} if rng.random() < 0.7 else {"temperature": 0.9, "top_p": 0.9,
                                                              "seed": rng.randint(0, 1 << 40)}
    turn = {"messages": [{"role": "user", "content": text}]}
    if kind == "completions":
        return COMPLETIONS, {"prompt": [text] * rng.choice([1, 1, 2]), "max_tokens": limit, "return_token_ids": True,
                             "n": rng.choice([1, 1, 3]), **sampling}
    if kind == "ids":
        return COMPLETIONS, {"prompt": [rng.randrange(100, 40000) for _ in range(rng.randint(1, 300))],
                             "max_tokens": limit, "return_token_ids": True, "ignore_eos": True, **sampling}
    if kind == "messages":
        return MESSAGES, {**turn, "max_tokens": limit, "system": rng.choice(prefixes), **sampling}
    if kind == "responses":
        sampling.pop("seed", None)
        return RESPONSES, {"input": text, "max_output_tokens": limit, **sampling, "temperature": 0}
    body = {**turn, "max_tokens": limit, "return_token_ids": True, **sampling}
    if kind == "tools":
        body.update(tools=[{"type": "function", "function": TOOL}], tool_choice="required", max_tokens=60)
    elif kind == "schema":
        body.update(response_format={"type": "json_schema", "json_schema": {"name": "b", "schema": SCHEMA}},
                    max_tokens=80)
    elif kind == "many":
        body["n"] = rng.randint(2, 6)
    elif kind == "stops":
        body["stop"] = rng.sample(["e", " the", "a", "\n", "."], 2)
    return CHAT, body


KINDS = ("chat", "chat", "completions", "ids", "messages", "responses", "tools", "schema", "many", "stops")


def make_requests(rng, n, longest):
    """Every kind comes soon, so that a run that has time for few requests still has all of them."""
    prefixes = [words(rng, n_word) for n_word in (20, 100, 100, longest // 4)]
    kinds = [f"long{longest}" if i % 12 == 4 else KINDS[i % len(KINDS)] for i in range(n)]
    return [make_request(rng, prefixes, kind) for kind in kinds]


# --- answers, streamed or not, in one form ----------------------------------------------------------------

def chat_choices(answer):
    out = {}
    for c in answer["choices"]:
        m = c["message"]
        calls = [(t["function"]["name"], t["function"]["arguments"]) for t in m.get("tool_calls") or []]
        out[c["index"]] = (m["content"] or "", calls, c["finish_reason"], c.get("token_ids"))
    return out


def chat_stream(chunks):
    text, calls, ids, finish = collections.defaultdict(str), collections.defaultdict(list), {}, {}
    for chunk in chunks:
        if "error" in chunk:
            raise RuntimeError(f"error in a stream: {chunk}")
        for c in chunk["choices"]:
            i, delta = c["index"], c["delta"]
            text[i] += delta.get("content") or ""
            ids.setdefault(i, []).extend(c.get("token_ids") or [])
            for t in delta.get("tool_calls") or []:
                if "name" in t["function"]:
                    calls[i].append((t["function"]["name"], ""))
                name, arguments = calls[i][t["index"]]
                calls[i][t["index"]] = (name, arguments + t["function"].get("arguments", ""))
            if c["finish_reason"] is not None:
                finish[i] = c["finish_reason"]
    return {i: (text[i], calls[i], finish[i], ids[i]) for i in sorted(finish)}


def completion_choices(answer):
    return {c["index"]: (c["text"], c["finish_reason"], c["token_ids"]) for c in answer["choices"]}


def completion_stream(chunks):
    text, ids, finish = collections.defaultdict(str), collections.defaultdict(list), {}
    for chunk in chunks:
        if "error" in chunk:
            raise RuntimeError(f"error in a stream: {chunk}")
        for c in chunk["choices"]:
            text[c["index"]] += c["text"]
            ids[c["index"]] += c.get("token_ids") or []
            if c["finish_reason"] is not None:
                finish[c["index"]] = c["finish_reason"]
    return {i: (text[i], finish[i], ids[i]) for i in sorted(finish)}


def message_choices(answer):
    return ["".join(b["text"] for b in answer["content"] if b["type"] == "text"), answer["stop_reason"],
            answer["usage"]["output_tokens"]]


def message_stream(chunks):
    text, reason, n = "", None, 0
    for event in chunks:
        if event["type"] == "error":
            raise RuntimeError(f"error in a stream: {event}")
        if event["type"] == "content_block_delta":
            text += event["delta"]["text"]
        elif event["type"] == "message_delta":
            reason, n = event["delta"]["stop_reason"], event["usage"]["output_tokens"]
    return [text, reason, n]


def response_choices(answer):
    text = "".join(p["text"] for item in answer["output"] if item["type"] == "message" for p in item["content"])
    return [text, answer["status"], answer["usage"]["output_tokens"]]


def response_stream(chunks):
    for event in chunks:
        if event["type"] in ("response.completed", "response.incomplete"):
            return response_choices(event["response"])
        if event["type"] in ("response.failed", "error"):
            raise RuntimeError(f"error in a stream: {event}")
    raise RuntimeError("the stream has no end")


FORMS = {CHAT: (chat_choices, chat_stream), COMPLETIONS: (completion_choices, completion_stream),
         MESSAGES: (message_choices, message_stream), RESPONSES: (response_choices, response_stream)}


def whole(path, body):
    return FORMS[path][0](json.loads(body))


def joined(path, pieces):
    return FORMS[path][1]([json.loads(data) for _, data in split_events(pieces) if data != "[DONE]"])


# --- one client -------------------------------------------------------------------------------------------

class Load:
    def __init__(self, server, requests, alone, seed):
        self.server, self.requests, self.alone, self.seed = server, requests, alone, seed
        self.counts = collections.Counter()
        self.wrong = []
        self.memory = []  # (seconds, RSS, anonymous)

    def fault(self, what, request, detail):
        self.counts["wrong"] += 1
        if len(self.wrong) < 20:
            self.wrong.append(f"{what}: {request[0]} {json.dumps(request[1])[:300]}: {detail}")

    async def send(self, path, body, headers=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 20)
        writer.write(request_bytes("POST", path, body, {"Connection": "close", **(headers or {})}))
        await writer.drain()
        return reader, writer

    async def head(self, reader):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        return int(head[0].split()[1]), fields

    async def pieces(self, reader, fields, pause):
        """The body's chunks, with a pause before each for a slow reader."""
        out = []
        if "content-length" in fields:
            return [await reader.readexactly(int(fields["content-length"]))]
        while True:
            n = int(await reader.readuntil(b"\r\n"), 16)
            piece = await reader.readexactly(n + 2)
            if n == 0:
                return out
            out.append(piece[:-2])
            if pause > 0:
                await asyncio.sleep(pause)

    async def ask(self, rng, pause=0.0):
        """One request to its end, compared."""
        i = rng.randrange(len(self.requests))
        path, body = self.requests[i]
        stream = rng.random() < 0.6 or pause > 0
        body = {**body, "stream": stream}
        if path in (CHAT, COMPLETIONS):
            body["priority"] = rng.choice([-1, 0, 0, 0, 2])
        reader, writer = await self.send(path, body)
        try:
            status, fields = await self.head(reader)
            pieces = await self.pieces(reader, fields, pause)
        finally:
            writer.close()
        if status in (429, 529):
            self.counts["queue full"] += 1
            if "retry-after" not in fields:
                self.fault("no Retry-After", self.requests[i], fields)
            await asyncio.sleep(0.2)
            return
        if status != 200:
            self.fault(f"status {status}", self.requests[i], b"".join(pieces)[:300])
            return
        got = joined(path, pieces) if stream else whole(path, b"".join(pieces))
        self.counts["streamed" if stream else "whole"] += 1
        self.counts["compared"] += 1
        if got != self.alone[i]:
            self.fault("another answer than alone", self.requests[i], f"{got} alone: {self.alone[i]}")

    async def hang_up(self, rng):
        """A request that is left at some moment: while it is sent, waits, or is answered."""
        path, body = rng.choice(self.requests)
        data = request_bytes("POST", path, {**body, "stream": rng.random() < 0.7})
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        when = rng.random()
        try:
            writer.write(data[:rng.randrange(1, len(data))] if when < 0.2 else data)
            await writer.drain()
            if when > 0.5:
                await asyncio.wait_for(reader.read(rng.choice([1, 200, 2000])), rng.random() * 3)
            else:
                await asyncio.sleep(rng.random() * 0.3)
        except TimeoutError:
            pass
        finally:
            if rng.random() < 0.5:
                writer.transport.abort()
            else:
                writer.close()
        self.counts["hung up"] += 1
        await asyncio.sleep(rng.random())  # or those who leave would be most of all who come

    async def bad(self, rng):
        path, body, want = rng.choice(REFUSED)
        reader, writer = await self.send(path, body)
        status, fields = await self.head(reader)
        pieces = await self.pieces(reader, fields, 0)
        writer.close()
        self.counts["refused"] += 1
        if status != want or b'"error"' not in b"".join(pieces):
            self.fault(f"status {status}, not {want}", (path, repr(body)[:100]), b"".join(pieces)[:200])

    async def client(self, number, until):
        rng = random.Random(f"{self.seed} {number}")
        while time.monotonic() < until and self.server.alive():
            self.counts["sent"] += 1
            try:
                if number % 5 == 0:
                    work = self.hang_up(rng)
                elif number % 10 == 3:
                    work = self.ask(rng, pause=rng.choice([0.01, 0.1]))
                elif rng.random() < 0.1:
                    work = self.bad(rng)
                else:
                    work = self.ask(rng)
                await asyncio.wait_for(work, 4 * LIMIT)
            except (OSError, EOFError, TimeoutError, RuntimeError, ValueError, KeyError) as error:
                if number % 5 == 0 and isinstance(error, ConnectionError):
                    continue
                self.counts["lost"] += 1
                self.fault("lost", ("client", number), repr(error))
                await asyncio.sleep(0.2)

    async def watch(self, start, until):
        while time.monotonic() < until and self.server.alive():
            self.memory.append((time.monotonic() - start, *self.server.memory()))
            await asyncio.sleep(0.5)

    async def run(self, n_client, seconds):
        start = time.monotonic()
        until = start + seconds
        await asyncio.gather(self.watch(start, until), *(self.client(i, until) for i in range(n_client)))


# --- the run ----------------------------------------------------------------------------------------------

def ask_alone(server, requests, limit):
    """The answers of the quiet server, one request at a time; as many as the time lets."""
    end = time.monotonic() + limit
    alone = []
    for path, body in requests:
        answer = post(server.port, path, body, limit=4 * LIMIT)
        if answer.status != 200:
            raise RuntimeError(f"{path} alone: {answer.status} {answer.text()[:300]} for {json.dumps(body)[:300]}")
        alone.append(whole(path, answer.body))
        if time.monotonic() > end:
            break
    return alone


def fill_kv(server, rng, n_token):
    """Touch every page once, so that what grows later is not the first use of memory that was planned."""
    for _ in range(100):
        h = server.wait_idle()
        if h["kv_pages_cached"] >= 0.9 * h["kv_pages_total"]:
            return
        post(server.port, COMPLETIONS, {"prompt": [rng.randrange(100, 40000) for _ in range(n_token)],
                                        "max_tokens": 1}, limit=4 * LIMIT)
    raise RuntimeError(f"the pages do not fill: {h}")


def check_memory(report, memory):
    def usual(lo, hi):
        return statistics.median(a for s, _, a in memory if lo <= s <= hi)
    total = memory[-1][0]
    first, middle, last = memory[0][2], usual(total / 3, 2 * total / 3), usual(2 * total / 3, total)
    peak = max(a for _, _, a in memory)
    print(f"memory: {first / MIB:.1f} MiB at the start, {middle / MIB:.1f} in the middle, {last / MIB:.1f} at the end "
          f"(anonymous, medians), {peak / MIB:.1f} at most; {memory[-1][1] / MIB:.1f} resident in all", flush=True)
    report.check("memory since the start", last - first <= GROWTH, f"{(last - first) / MIB:.1f} MiB more")
    report.check("memory late in the run", last - middle <= LATE_GROWTH, f"{(last - middle) / MIB:.1f} MiB more")
    report.check("memory at its peak", peak - first <= GROWTH + WAITING_PAGES, f"{(peak - first) / MIB:.1f} MiB more")


def soak(report, server, options):
    rng = random.Random(options.seed)
    n = max(30, min(400, int(options.seconds * 0.6)))
    start = time.monotonic()
    if SLOW == 1:  # a program with sanitizers has memory of its own, so that it is not measured
        fill_kv(server, rng, options.longest)
        print(f"keys and values touched after {time.monotonic() - start:.1f} s", flush=True)
    requests = make_requests(rng, n, options.longest)
    alone = ask_alone(server, requests, max(20.0, options.seconds / 4))
    requests = requests[:len(alone)]
    print(f"{len(requests)} requests answered alone after {time.monotonic() - start:.1f} s", flush=True)
    load = Load(server, requests, alone, options.seed)
    asyncio.run(load.run(options.clients, options.seconds))
    print(", ".join(f"{k} {v}" for k, v in sorted(load.counts.items())), flush=True)
    for text in load.wrong:
        print("FAIL " + text, flush=True)
    report.check("alive", server.alive(), server.log()[-3000:])
    report.equal("lost requests", load.counts["lost"], 0)
    report.equal("wrong answers", load.counts["wrong"], 0)
    report.check("answers were compared", load.counts["compared"] >= options.seconds / 4 / SLOW,
                 load.counts["compared"])
    if SLOW == 1:
        check_memory(report, load.memory)
    health = server.wait_idle()
    print("after it: " + json.dumps(health), flush=True)
    report.equal("pages in use after it", (health["running"], health["waiting"], health["kv_pages_used"],
                                           health["answers_active"]), (0, 0, 0, 0))
    again = ask_alone(server, requests[:10], LIMIT)
    report.equal("the first requests, alone again", again, alone[:len(again)])


def main():
    skip_without_model()
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # A short run has no time for 3,000 tokens; its memory is smaller too, so that both meet its end.
    long_run = options.seconds >= 300
    options.longest = 3000 if long_run else 1000 if SLOW == 1 else 200
    report = Report()
    with tempfile.TemporaryDirectory() as folder, \
            Server("--ctx", 4096 if long_run else 1536, "--kv-mem", "144M" if long_run else "48M", "--kv-dir", folder,
                   "--kv-dir-size", "512M") as server:
        report.guard("soak", soak, report, server, options)
        report.equal("exit status", server.stop(), 0)
        errors = [line for line in server.lines if "level=error" in line]
        report.check("no error in the log", not errors, "\n".join(errors[:5]))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
