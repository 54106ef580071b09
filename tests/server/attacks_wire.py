# SPDX-License-Identifier: Apache-2.0
"""More attacks of attack.py, on sockets and HTTP: see attacks.py for what an attack is."""
import socket
import time

from rawhttp import request_bytes

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
HOST = "Host: localhost\r\n"
GENERATES = (CHAT, COMPLETIONS, RESPONSES, "/v1/messages", "/completion", "/api/chat")


def again(foe, data, read=65536):
    """The same bytes on one connection after the other, some of the answer read."""
    while not foe.over():
        s = foe.connect()
        s.sendall(data)
        try:
            s.recv(read)
        finally:
            s.close()
            foe.socks.remove(s)


def bodies_on_all_connections(foe):
    """Every connection there is with a body that never ends."""
    for _ in range(1008):
        if foe.over():
            return
        s = foe.connect()
        s.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\n{HOST}Content-Length: 100\r\n\r\n{{".encode())
    foe.hold()


def grammars_on_all_connections(foe):
    """And with a request that waits for a grammar of its own."""
    for i in range(400):
        if foe.over():
            return
        foe.send(COMPLETIONS, {"prompt": "a", "max_tokens": 1, "regex": f"((a{{0,40}}){{0,40}}){{0,40}}{i}"}, read=False)
    foe.hold()


def requests_on_all_connections(foe):
    """Every connection there is with a whole request that waits for a grammar of its own, and much behind it."""
    for i in range(1008):
        if foe.over():
            return
        body = {"prompt": "a", "max_tokens": 1, "regex": f"((a{{0,40}}){{0,40}}){{0,40}}{i}", "user": "x" * 31000}
        s = foe.send(COMPLETIONS, body, read=False, headers={"Connection": "keep-alive", "X-Long": "y" * 7000})
        s.setblocking(False)
        try:
            s.send(b"z" * 60000)
        except BlockingIOError:
            pass
    foe.hold()


def bytes_behind_a_stream(foe):
    """Requests that are sent behind one whose stream is not over, as many as are taken."""
    s = foe.send(CHAT, {"messages": [{"role": "user", "content": "Count."}], "max_tokens": 3000, "ignore_eos": True,
                        "stream": True}, read=False, headers={"Connection": "keep-alive"})
    s.settimeout(1)
    piece = request_bytes("GET", "/openapi.json") * 500
    while not foe.over():
        try:
            s.sendall(piece)
        except TimeoutError:
            time.sleep(0.2)


def unread_pages(foe):
    """Large replies asked for again and again, none of which is read."""
    while not foe.over():
        s = foe.connect(buffer=4096)
        s.settimeout(0.5)
        try:
            s.sendall(request_bytes("GET", foe.rng.choice(["/openapi.json", "/", "/metrics", "/metrics/history"])) * 200)
        except TimeoutError:
            time.sleep(0.1)


def long_heads(foe):
    again(foe, b"GET /livez HTTP/1.1\r\n" + HOST.encode() + b"".join(b"X-%d: " % i + b"a" * 300 + b"\r\n" for i in range(95))
          + b"\r\n")


def heads_in_pieces(foe):
    """Large heads that come line by line, many at a time."""
    socks = [foe.connect() for _ in range(200)]
    for line in [f"GET /livez HTTP/1.1\r\n{HOST}"] + [f"X-{i}: " + "a" * 300 + "\r\n" for i in range(90)]:
        for s in socks:
            s.sendall(line.encode())
        if foe.over():
            return


def many_cookies(foe):
    again(foe, request_bytes("GET", "/v1/models", headers={"Cookie": "; ".join(f"a{i}={i}" for i in range(2000)),
                                                           "Authorization": "Bearer " + "x" * 9000}))


def odd_chunks(foe):
    """Chunks with extensions and trailers, to their bounds."""
    head = f"POST {COMPLETIONS} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"".join(b"1;a=" + b"b" * foe.rng.randrange(200) + b"\r\n \r\n" for _ in range(300))
    trailers = b"".join(b"X-%d: %s\r\n" % (i, b"c" * 300) for i in range(90))
    again(foe, head + chunks + b"0\r\n" + trailers + b"\r\n")


def slow_chunks(foe):
    socks = [foe.connect() for _ in range(60)]
    for s in socks:
        s.sendall(f"POST {CHAT} HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n".encode())
    while not foe.over():
        for s in socks:
            s.sendall(foe.rng.choice([b"1\r\n{\r\n", b"0001;x=y\r\n \r\n"]))
        time.sleep(0.1)


def waits_for_continue(foe):
    """Announces large bodies and never sends them."""
    for i in range(300):
        s = foe.connect()
        s.sendall(f"POST {foe.rng.choice(GENERATES)} HTTP/1.1\r\n{HOST}Content-Length: {30_000_000 + i}\r\n"
                  "Expect: 100-continue\r\n\r\n".encode())
    foe.hold()


def urgent_bytes(foe):
    while not foe.over():
        s = foe.connect()
        data = request_bytes("POST", COMPLETIONS, {"prompt": "a", "max_tokens": 1})
        s.sendall(data[:40])
        s.send(b"!", socket.MSG_OOB)
        s.sendall(data[40:])
        s.recv(100)
        s.close()
        foe.socks.remove(s)


def odd_targets(foe):
    """Targets that a router may read in two ways."""
    while not foe.over():
        target = foe.rng.choice(["http://localhost/v1/models", "//v1/models", "/v1//models", "/v1/models/" + "%41" * 2500,
                                 "/v1/models?" + "a=b&" * 1900, "/%76%31/models", "/v1/models/..%2f..", "*", "/v1/v1/v1",
                                 "/v1/responses/" + "/" * 5000, "/assets/../../etc/passwd", "/assets/%2e%2e/x",
                                 "/slots?fail_on_no_slot=" + "9" * 7000, "/v1/models/\u00ff" * 100])
        foe.send(target, method=foe.rng.choice(["GET", "HEAD", "OPTIONS", "DELETE", "PUT", "A" * 31]))


def pipelined_posts(foe):
    """Hundreds of requests at once on a connection, whose answers are left."""
    body = {"prompt": "The sea", "max_tokens": 3}
    data = b"".join(request_bytes("POST", foe.rng.choice([COMPLETIONS, "/tokenize", "/completion"]), body)
                    for _ in range(300))
    again(foe, data, read=1)


def half_an_id(foe):
    """Ids that others might have, asked for and deleted."""
    while not foe.over():
        path = f"{RESPONSES}/resp_{foe.rng.randbytes(foe.rng.choice([1, 12, 2000])).hex()}"
        foe.send(path, method=foe.rng.choice(["GET", "DELETE"]))


def proxies_that_are_none(foe):
    """Other addresses in X-Forwarded-For: without a trusted proxy they make no new client."""
    while not foe.over():
        many = ", ".join(f"10.0.{foe.rng.randrange(256)}.{i}" for i in range(200))
        foe.send(COMPLETIONS, {"prompt": "a", "max_tokens": 200, "ignore_eos": True, "n": 8}, read=False,
                 headers={"X-Forwarded-For": many, "Forwarded": "for=10.1.1.1", "X-Real-IP": "10.2.2.2"})
        time.sleep(0.2)


def shut_at_once(foe):
    """A storm of streams that are asked for and shut in the same moment."""
    data = request_bytes("POST", CHAT, {"messages": [{"role": "user", "content": "Hi."}], "stream": True, "n": 4,
                                        "max_tokens": 500})
    while not foe.over():
        socks = [foe.connect() for _ in range(30)]
        for s in socks:
            s.sendall(data)
            s.shutdown(socket.SHUT_RDWR)
        for s in socks:
            s.close()
            foe.socks.remove(s)


KINDS = [bodies_on_all_connections, grammars_on_all_connections, requests_on_all_connections, bytes_behind_a_stream, unread_pages, long_heads,
         heads_in_pieces, many_cookies, odd_chunks, slow_chunks, waits_for_continue, urgent_bytes, odd_targets,
         pipelined_posts, half_an_id, proxies_that_are_none, shut_at_once]
