# SPDX-License-Identifier: Apache-2.0
"""Attacks of attack.py on a server that speaks TLS: see attacks.py for what an attack is."""
import contextlib
import socket
import ssl
import struct
import time

from rawhttp import TLS, request_bytes


def hello():
    """The first bytes of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        TLS.wrap_bio(incoming, outgoing).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def drop(foe, s):
    s.close()
    foe.socks.remove(s)


def handshakes(foe):
    """One after the other, and nothing after them."""
    while not foe.over():
        s = foe.connect()
        TLS.wrap_socket(s).close()
        foe.socks.remove(s)


def hellos(foe):
    """The same hello on many connections, so that the server alone has work; its answers are left."""
    data = hello()
    while not foe.over():
        socks = [foe.connect() for _ in range(100)]
        for s in socks:
            s.sendall(data)
        for s in socks:
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            drop(foe, s)


def halves(foe):
    """Half a hello on every connection there is."""
    data = hello()
    for _ in range(1008):
        if foe.over():
            return
        foe.connect().sendall(data[:len(data) // 2])
    foe.hold()


def hellos_by_the_byte(foe):
    data = hello()
    while not foe.over():
        socks = [foe.connect() for _ in range(50)]
        for s in socks:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            for s in socks:
                s.sendall(data[i:i + 1])
            time.sleep(0.002)  # or the server reads many at once
            if foe.over():
                return
        for s in socks:
            drop(foe, s)


def shaken_and_silent(foe):
    """Many that are through with it and say nothing."""
    for _ in range(400):
        if foe.over():
            return
        foe.socks.append(TLS.wrap_socket(foe.connect()))
    foe.hold()


def small_records(foe):
    """A request of which each byte is a record."""
    while not foe.over():
        s = TLS.wrap_socket(foe.connect())
        foe.socks.append(s)
        for byte in request_bytes("GET", "/v1/models", headers={"X-Long": "a" * 2000}):
            s.sendall(bytes([byte]))
            if foe.over():
                return


def no_tls(foe):
    while not foe.over():
        s = foe.connect()
        s.sendall(foe.rng.choice([request_bytes("GET", "/livez"), foe.rng.randbytes(5000), b"\x16\x03\x01\xff\xff",
                                  hello()[:-1] + b"!", b"\x15\x03\x03\x00\x02\x02\x00"]))
        with contextlib.suppress(OSError):  # it may be reset
            s.recv(100)
        drop(foe, s)
        time.sleep(0.01)


KINDS = [handshakes, hellos, halves, hellos_by_the_byte, shaken_and_silent, small_records, no_tls]
