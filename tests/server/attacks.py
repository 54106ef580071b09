# SPDX-License-Identifier: Apache-2.0
"""The attacks of attack.py: each takes a `Foe`, does its harm until `foe.over()` and returns. None looks at what it
gets: refused or answered, the others must not suffer. Rows of hostile.py, which are one exchange each, are attacks
too."""
import json
import random
import socket
import struct
import time

import attacks_fields
import attacks_wire
import hostile
from rawhttp import request_bytes

CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
MIB = 1 << 20


class Foe:
    """An address of its own, a time that ends, and sockets that are closed with it."""

    def __init__(self, port, seed, until, stop):
        self.port, self.rng, self.until, self.stop = port, random.Random(seed), until, stop
        self.address = f"127.1.{self.rng.randrange(256)}.{self.rng.randrange(1, 255)}"
        self.socks = []

    def over(self):
        return time.monotonic() > self.until or self.stop.is_set()

    def connect(self, address=None, buffer=None):
        s = socket.socket()
        self.socks.append(s)
        if buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        s.settimeout(max(0.1, self.until - time.monotonic()))
        s.bind((address or self.address, 0))
        s.connect(("127.0.0.1", self.port))
        return s

    def send(self, path, body=None, method="POST", read=True, headers=None, address=None, buffer=None):
        """One request on a connection of its own; its answer is read and forgotten."""
        s = self.connect(address, buffer)
        s.sendall(request_bytes(method, path, body, {"Connection": "close", **(headers or {})}))
        while read and not self.over() and s.recv(65536):
            pass
        if read:
            s.close()
            self.socks.remove(s)
        return s

    def hold(self):
        """Until the end, with what is open."""
        while not self.over():
            time.sleep(0.05)

    def close(self):
        for s in self.socks:
            s.close()


def said(content, **more):
    return {"messages": [{"role": "user", "content": content}], **more}


# --- sockets ---------------------------------------------------------------------------------------

def idle_sockets(foe):
    for _ in range(foe.rng.choice([100, 600, 1100])):
        if foe.over():
            return
        foe.connect()
    foe.hold()


def heads_by_the_byte(foe):
    socks = [foe.connect() for _ in range(50)]
    data = request_bytes("GET", "/livez", headers={"X-Long": "a" * 400})
    for i in range(len(data)):
        for s in socks:
            s.sendall(data[i:i + 1])
        time.sleep(0.2)
        if foe.over():
            return


def bodies_by_the_byte(foe):
    socks = [foe.connect() for _ in range(30)]
    for s in socks:
        s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n".encode())
    while not foe.over():
        for s in socks:
            s.sendall(b'{')
        time.sleep(0.2)


def resets(foe):
    """Connections that end with a reset, in the middle of something."""
    while not foe.over():
        s = foe.send(CHAT, said("Count.", max_tokens=200, stream=True), read=False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        foe.socks.remove(s)


def noise(foe):
    while not foe.over():
        s = foe.connect()
        s.sendall(foe.rng.randbytes(foe.rng.choice([10, 1000, 50000])))
        s.close()
        foe.socks.remove(s)


def pipelines(foe):
    while not foe.over():
        s = foe.connect()
        s.sendall(request_bytes("GET", foe.rng.choice(["/livez", "/metrics", "/health"])) * 300)
        while not foe.over() and len(s.recv(65536)) == 65536:
            pass


def chunks_of_a_byte(foe):
    s = foe.connect()
    s.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    while not foe.over():
        s.sendall(b"1\r\n \r\n" * 10000)


def half_closed(foe):
    while not foe.over():
        s = foe.send(COMPLETIONS, {"prompt": "The sea", "max_tokens": 50}, read=False)
        s.shutdown(socket.SHUT_WR)
        s.recv(10)


def many_addresses(foe):
    """A flood of new clients that each want one token."""
    while not foe.over():
        address = f"127.2.{foe.rng.randrange(256)}.{foe.rng.randrange(1, 255)}"
        foe.send(COMPLETIONS, {"prompt": "a", "max_tokens": 1}, address=address)


def wrong_keys(foe):
    while not foe.over():
        key = foe.rng.randbytes(foe.rng.choice([8, 24, 2000])).hex()
        foe.send(CHAT, said("hi", max_tokens=1), headers={"Authorization": f"Bearer {key}"})


# --- bodies ----------------------------------------------------------------------------------------

def bomb(piece, size):
    return b"[" + b",".join([piece] * (size // (len(piece) + 1))) + b"]"


def json_bombs(foe):
    while not foe.over():
        piece = foe.rng.choice([b"{}", b"[]", b'""', b"1", b'{"a":{}}', b'"\\u0001"', b"[[[[]]]]"])
        field = foe.rng.choice([b"x", b"messages", b"prompt", b"tools", b"metadata", b"stop", b"logit_bias"])
        body = b'{"model":"m","' + field + b'":' + bomb(piece, foe.rng.choice([1, 6, 20]) * MIB) + b"}"
        foe.send(foe.rng.choice([CHAT, COMPLETIONS, MESSAGES, RESPONSES, "/api/chat", "/infill"]), body)


def unread_fields(foe):
    """A body whose fields that nobody reads are kept until its answer ends."""
    body = b'{"prompt":"The sea","max_tokens":400,"ignore_eos":true,"x":' + bomb(b'""', 6 * MIB) + b"}"
    while not foe.over():
        foe.send(COMPLETIONS, body, read=foe.rng.random() < 0.5)


def call_arguments(foe):
    arguments = ('{"a":' + bomb(foe.rng.choice([b"{}", b"[]"]), 8 * MIB).decode() + "}")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "c1", "content": "b"}], "max_tokens": 1}
    data = json.dumps(body).encode()
    while not foe.over():
        foe.send(CHAT, data)


def deep(foe):
    while not foe.over():
        opening = foe.rng.choice([b"[", b'{"a":', b'[{"a":'])
        foe.send(CHAT, b'{"messages":' + opening * foe.rng.choice([100, 1000, 500000]))


def keys_that_collide(foe):
    body = {"prompt": "a", "max_tokens": 1, "logit_bias": {str(i): 1 for i in range(40000)},
            "chat_template_kwargs": {f"k{foe.rng.random()}": i for i in range(30000)}}
    while not foe.over():
        foe.send(foe.rng.choice([CHAT, COMPLETIONS]), body)


# --- texts and tokens ------------------------------------------------------------------------------

def long_texts(foe):
    while not foe.over():
        piece = foe.rng.choice(["a", " ", "\n", "ab ", "\u0301", "<|im_start|>", "\U0001f98a", "0", "'s", "\r\n"])
        text = piece * (foe.rng.choice([1, 8, 20]) * MIB // len(piece.encode()))
        path = foe.rng.choice(["/tokenize", COMPLETIONS, CHAT, "/v1/messages/count_tokens"])
        body = {"content": text, "prompt": text, "max_tokens": 1, **said(text)}
        foe.send(path, body)


def many_ids(foe):
    """Ids as text, in an answer that nobody reads."""
    body = {"tokens": [foe.rng.randrange(1000, 49000) for _ in range(1000)] * 1000}
    while not foe.over():
        foe.send("/detokenize", body, read=False, buffer=4096)
        time.sleep(0.5)


def many_messages(foe):
    turns = [{"role": r, "content": "a b c"} for r in ("user", "assistant")] * foe.rng.choice([500, 20000])
    while not foe.over():
        foe.send(foe.rng.choice([CHAT, MESSAGES, "/apply-template"]), {"messages": turns, "max_tokens": 1})


def template_arguments(foe):
    while not foe.over():
        foe.send(CHAT, said("a", max_tokens=1, chat_template_kwargs={
            "messages": [{"role": "user", "content": "x" * MIB}] * 20, "tools": ["y" * MIB] * 4,
            "enable_thinking": {"a": ["b"] * 100000}}))


def many_prompts(foe):
    while not foe.over():
        foe.send(COMPLETIONS, {"prompt": [f"{i} " * 300 for i in range(foe.rng.choice([40, 128, 2000]))],
                               "max_tokens": 4})


def other_prompts(foe):
    """Prompts that share nothing, so that all pages are thrown out."""
    while not foe.over():
        ids = [foe.rng.randrange(1000, 49000) for _ in range(3000)]
        foe.send(COMPLETIONS, {"prompt": ids, "max_tokens": 1})


# --- generation ------------------------------------------------------------------------------------

def greedy(foe):
    """All seats, for ever, first of all."""
    body = {"prompt": "The sea", "n": 32, "max_tokens": 7000, "ignore_eos": True, "priority": -4, "temperature": 1}
    while not foe.over():
        foe.send(COMPLETIONS, body)


def crowd(foe):
    for i in range(40):
        foe.send(CHAT, said(f"Count from {i} to 9000.", max_tokens=6000, ignore_eos=True, stream=True,
                            priority=foe.rng.choice([-1000, -4, 0, 9])), read=False)
        if foe.over():
            break
    foe.hold()


def unread_streams(foe):
    for _ in range(8):
        foe.send(COMPLETIONS, {"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": True, "logprobs": 20,
                               "n": 4, "temperature": 1}, read=False, buffer=4096)
    foe.hold()


def slow_readers(foe):
    socks = [foe.send(CHAT, said("Tell a long tale.", max_tokens=900, stream=True, ignore_eos=True), read=False)
             for _ in range(6)]
    while not foe.over():
        for s in socks:
            s.recv(1)
        time.sleep(0.1)


def cancels(foe):
    """Answers that are left after a few bytes, or before they begin."""
    while not foe.over():
        s = foe.send(foe.rng.choice([CHAT, RESPONSES]),
                     {**said("Hello.", n=8), "input": "Hello.", "stream": True, "max_tokens": 300}, read=False)
        if foe.rng.random() < 0.7:
            s.recv(20)
        s.close()
        foe.socks.remove(s)


def kept_responses(foe):
    while not foe.over():
        foe.send(RESPONSES, {"input": "x " * foe.rng.choice([10, 500000]), "max_output_tokens": 1, "store": True,
                             "previous_response_id": foe.rng.choice(["resp_0", "resp_" + "f" * 32, "x" * 3000])})


def ollama(foe):
    while not foe.over():
        foe.send("/api/chat", {"model": "m", **said("a " * 300), "options": {"num_predict": -1, "num_ctx": 1 << 40},
                               "keep_alive": -1}, read=foe.rng.random() < 0.3)
        foe.send("/api/generate", {"model": "m", "prompt": "a", "raw": True, "context": [1] * 9000,
                                   "options": {"num_predict": 50}})


def fill_in(foe):
    while not foe.over():
        foe.send("/infill", {"input_prefix": "a" * 500000, "input_suffix": "b" * 500000, "n_predict": 2,
                             "input_extra": [{"filename": "x" * 1000, "text": "y" * 9000}] * 50})


# --- grammars --------------------------------------------------------------------------------------

def with_schema(schema):
    return said("hi", max_tokens=20, response_format={"type": "json_schema",
                                                      "json_schema": {"name": "x", "schema": schema}})


def schemas(foe):
    while not foe.over():
        n = foe.rng.randrange(1000)
        props = {f"p{n}_{i}": {"type": "string", "pattern": f"^[a-z]{{{i},{i + 90}}}$"} for i in range(120)}
        schema = foe.rng.choice([
            {"type": "object", "properties": props},
            {"anyOf": [{"const": "y" * i + str(n)} for i in range(600)]},
            {"type": "array", "minItems": n, "maxItems": 5000, "items": {"enum": list(range(300))}},
            hostile.nested_not(12),
            {"allOf": [{"not": {"pattern": f"a{{{n}}}b"}}] * 40},
        ])
        foe.send(CHAT, with_schema(schema))


def expressions(foe):
    while not foe.over():
        n = foe.rng.randrange(100)
        foe.send(CHAT, said("hi", max_tokens=5, regex=foe.rng.choice(
            [f"(a|b)*a(a|b){{{n}}}", f"((a{{1,90}}){{1,90}}){{1,{n + 1}}}", f"(x+x+)+y{n}", "(" * 500, f"[^a]{{{n}000}}",
             f".*{n}.*{n}.*", "(?=a)" * 50])))


def gbnf(foe):
    while not foe.over():
        n = foe.rng.randrange(1000)
        rules = foe.rng.choice([
            f'root ::= a{{{n + 1}}}\na ::= b{{90}}\nb ::= "x" | "y"',
            'root ::= root root | "a"',
            "\n".join([f"root ::= r0 \"{n}\""] + [f'r{i} ::= r{i + 1} r{i + 1}' for i in range(40)] + ['r40 ::= "a"']),
            f'root ::= [^\\x00]{{0,{n}000}} "{n}"',
        ])
        foe.send(CHAT, said("hi", max_tokens=5, grammar=rules))


KINDS = [idle_sockets, heads_by_the_byte, bodies_by_the_byte, resets, noise, pipelines, chunks_of_a_byte, half_closed,
         many_addresses, wrong_keys, json_bombs, unread_fields, call_arguments, deep, keys_that_collide, long_texts,
         many_ids, many_messages, template_arguments, many_prompts, other_prompts, greedy, crowd, unread_streams,
         slow_readers, cancels, kept_responses, ollama, fill_in, schemas, expressions, gbnf, *attacks_wire.KINDS,
         *attacks_fields.KINDS]


def row(name, data):
    def send(foe):
        s = foe.connect()
        s.sendall(data)
        while not foe.over() and s.recv(65536):
            pass
    send.__name__ = f"hostile: {name}"
    return send


def part(of, n, turn):
    """n of them in a row, from where the turn before ended."""
    return [of[(turn * n + i) % len(of)] for i in range(n)]


def choose(rng, n, turn=None):
    """n attacks in random order: each kind as often as any other in half of them, rows of hostile.py in the rest. With a
    turn they are chosen by that alone: those of len(KINDS) turns in a row have all kinds, those of len(rows) all rows."""
    rows = [row(name, data) for make in (hostile.wire_rows, hostile.body_rows, hostile.field_rows, hostile.grammar_rows)
            for name, data, _want in make()]
    rows += [attacks_fields.row(*asked) for asked in attacks_fields.rows()]
    if turn is None:
        kinds = rng.sample(KINDS, len(KINDS))
        chosen = (kinds * (n // 2 // len(KINDS) + 1))[:max(n // 2, min(n, len(KINDS)))]
        chosen += rng.sample(rows, n - len(chosen))
    else:
        chosen = part(KINDS, n // 2, turn) + part(rows, n - n // 2, turn)
    rng.shuffle(chosen)
    return chosen
