#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_http to corpus/http/ beside this script: two bytes that choose limits and cuts, then
requests."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus" / "http"
HOST = b"Host: h\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
SEEDS = {
    "get": b"\x10\x07GET /a%2Fb?x HTTP/1.1\r\n" + HOST + b"X-Request-Id: a\r\n\r\n"
           b"GET http://x/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "post": b"\x04\x21\r\n" + POST + b"Content-Length: 4\r\nExpect: 100-continue\r\n\r\n{\"\"}"
            b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    "chunked": b"\x02\x40" + POST + b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nabcd\r\n0A\r\n0123456789\r\n"
               b"0\r\nT: v\r\n\r\nHEAD / HTTP/1.1\r\n" + HOST + b"\r\n",
    "smuggle": b"\x00\x55" + POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two_lengths": b"\x00\x30" + POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "small_line": b"\x03\x09GET /0123456789012345678901234567890123456789 HTTP/1.1\r\n" + HOST + b"\r\n",
    "small_body": b"\x05\x09" + POST + b"Transfer-Encoding: chunked\r\n\r\n41\r\n",
    "folded": b"\x06\x11GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n",
    "preface": b"\x06\x08PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "encoded": b"\x08\x10" + POST + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
    "utf8": b"\x08\x10OPTIONS * HTTP/1.1\r\n" + HOST + b"X: \xc3\xa4\r\n\r\nGET /%c3%a4 HTTP/1.1\r\n" + HOST
            + b"\r\n",
}

ROOT.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (ROOT / name).write_bytes(data)
