# SPDX-License-Identifier: Apache-2.0
"""A server under test, and HTTP by hand: only the standard library, so that every byte is ours.

Settings: WHIMBREL=program, MODEL=file, WHIMBREL_RUNNER="setarch -R" before the program, SLOW=factor for time limits
(a program built with sanitizers), TLS=1: the server under test speaks it.
"""
import contextlib
import ctypes
import json
import os
import platform
import re
import resource
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("WHIMBREL", f"{ROOT}/build/{platform.machine()}/whimbrel")
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
MODEL = os.environ.get("MODEL", f"{CACHE}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf")
RUNNER = shlex.split(os.environ.get("WHIMBREL_RUNNER", ""))
SLOW = float(os.environ.get("SLOW", "1"))
LIMIT = 60 * SLOW  # seconds for anything that should be quick
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if os.environ.get("TLS") else None
if TLS:
    TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE  # the certificate signs itself


def skip_without_model():
    if not os.path.exists(MODEL):
        print(f"skip: no model at {MODEL}")
        sys.exit(77)


def files_raise():
    """Sockets of all clients are of this process: more than the usual 1,024."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`whimbrel serve` in a process of its own; its log is kept in `lines`."""

    def __init__(self, *args, env=None, ready=True, model=MODEL):
        self.port = free_port()
        command = RUNNER + [PROGRAM, "serve", model, "--port", str(self.port), *map(str, args)]
        self.lines = []
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if ready:
            self.wait_ready()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def wait_ready(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.reader.join()
                raise RuntimeError("the server ended:\n" + "\n".join(self.lines[-20:]))
            try:
                if get(self.port, "/readyz").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError("the server did not become ready")

    def health(self):
        return get(self.port, "/health").json()

    def wait_idle(self, limit=LIMIT):
        """Until no request runs, waits or holds a page; the last health that was seen."""
        end = time.monotonic() + limit
        while True:
            h = self.health()
            if h["running"] == h["waiting"] == h["kv_pages_used"] == h["answers_active"] == 0:
                return h
            if time.monotonic() > end:
                return h
            time.sleep(0.1)

    def planned_bytes(self, line="total"):
        """What the memory plan that it printed says."""
        found = re.search(rf"^\s*{line}\s+([\d.]+) ([KMG]iB)", self.log(), re.M)
        return float(found.group(1)) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[found.group(2)]

    def memory(self):
        """Bytes: resident in all, and of those not of files."""
        sizes = {}
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            for line in f:
                name, _, value = line.partition(":")
                if name in ("VmRSS", "RssAnon"):
                    sizes[name] = int(value.split()[0]) * 1024
        return sizes["VmRSS"], sizes["RssAnon"]

    def watch(self, stop, peak):
        """Until it is over, the most that memory() has said, into `peak`."""
        while not stop.is_set() and self.alive():
            with contextlib.suppress(OSError, KeyError):  # as it ends
                peak[:] = map(max, peak, self.memory())
            time.sleep(0.2)

    def hold_engine(self):
        """Stop the engine's thread alone, as a hanging step would: its id; 0: there is none; -errno: not possible."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, interrupt = 0x4206, 0x4207
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="utf-8") as f:
                if f.read().strip() != "engine":
                    continue
            if libc.ptrace(seize, int(task), None, None) or libc.ptrace(interrupt, int(task), None, None):
                return -ctypes.get_errno()
            return int(task)
        return 0

    def reap_held(self, thread):
        """The held thread's own end, without which the process does not end for us; whether it still runs."""
        any_child = 0x40000000
        try:
            os.waitpid(thread, any_child | os.WNOHANG)
        except ChildProcessError:
            pass
        return self.process.poll() is None

    def alive(self):
        return self.process.poll() is None

    def signal(self, sig):
        self.process.send_signal(sig)

    def wait(self, limit=LIMIT):
        """The exit status, or None if it still runs after the limit."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join()
        return code

    def stop(self):
        if self.alive():
            self.signal(signal.SIGTERM)
        code = self.wait()
        if code is None:
            self.process.kill()
            self.process.wait()
        return code

    def log(self):
        return "\n".join(self.lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.alive():
            self.process.kill()
        self.wait()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode("utf-8", "replace")


def connect(port, limit=LIMIT, address=None):
    s = socket.create_connection(("127.0.0.1", port), timeout=limit, source_address=address and (address, 0))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return TLS.wrap_socket(s) if TLS else s


def request_bytes(method, path, body=None, headers=None):
    """One request. A header with the value None is left out; body is bytes, or something for JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    fields = {"Host": "localhost"}
    if body is not None:
        fields["Content-Type"] = "application/json"
        fields["Content-Length"] = str(len(body))
    fields.update(headers or {})
    head = f"{method} {path} HTTP/1.1\r\n"
    head += "".join(f"{k}: {v}\r\n" for k, v in fields.items() if v is not None)
    return head.encode("utf-8", "surrogateescape") + b"\r\n" + (body or b"")


class Reader:
    """Answers from a socket, one after the other."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def more(self):
        piece = self.sock.recv(65536)
        self.data += piece
        return bool(piece)

    def line(self):
        while b"\r\n" not in self.data:
            if not self.more():
                raise EOFError("the connection ended")
        line, self.data = self.data.split(b"\r\n", 1)
        return line

    def take(self, n):
        while len(self.data) < n:
            if not self.more():
                raise EOFError("the connection ended")
        piece, self.data = self.data[:n], self.data[n:]
        return piece

    def head(self):
        line = self.line().split(b" ", 2)
        if not line[0].startswith(b"HTTP/1."):
            raise ValueError(f"not a status line: {line!r}")
        headers = {}
        while True:
            field = self.line()
            if not field:
                return int(line[1]), headers
            name, _, value = field.partition(b":")
            headers[name.decode().lower()] = value.strip().decode()

    def pieces(self, headers):
        """The body as it comes."""
        if headers.get("transfer-encoding") == "chunked":
            while True:
                n = int(self.line(), 16)
                if n == 0:
                    self.line()
                    return
                yield self.take(n)
                self.take(2)
        elif "content-length" in headers:
            yield self.take(int(headers["content-length"]))
        else:
            while self.more():
                pass
            yield self.data
            self.data = b""

    def answer(self, no_body=False):
        status, headers = self.head()
        if status == 100:
            status, headers = self.head()
        body = b"" if no_body else b"".join(self.pieces(headers))
        return Answer(status, headers, body)


def exchange(port, data, half_close=False, limit=LIMIT):
    """Send these bytes on a connection of their own; the first answer, or None if there was none. The server may
    answer and close before it has taken all of them."""
    with connect(port, limit) as s:
        def send():
            try:
                s.sendall(data)
                if half_close:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        if len(data) > 65536:
            thread = threading.Thread(target=send, daemon=True)
            thread.start()
        else:
            send()
        try:
            return Reader(s).answer(no_body=data.startswith(b"HEAD "))
        except (EOFError, ConnectionError):
            return None


def call(port, method, path, body=None, headers=None, limit=LIMIT):
    answer = exchange(port, request_bytes(method, path, body, {"Connection": "close", **(headers or {})}),
                      limit=limit)
    if answer is None:
        raise ConnectionError(f"{method} {path}: no answer")
    return answer


def get(port, path, headers=None, limit=LIMIT):
    return call(port, "GET", path, None, headers, limit)


def post(port, path, body, headers=None, limit=LIMIT):
    return call(port, "POST", path, body, headers, limit)


def events(port, path, body, headers=None, limit=LIMIT):
    """The events of a stream as (name or None, data); raises on another status than 200."""
    with connect(port, limit) as s:
        s.sendall(request_bytes("POST", path, {**body, "stream": True}, {"Connection": "close", **(headers or {})}))
        reader = Reader(s)
        status, fields = reader.head()
        if status != 200:
            raise RuntimeError(f"status {status}: " + b"".join(reader.pieces(fields)).decode())
        yield from split_events(reader.pieces(fields))


def split_events(pieces):
    rest = b""
    for piece in pieces:
        rest += piece
        while b"\n\n" in rest:
            block, rest = rest.split(b"\n\n", 1)
            name, data = None, []
            for line in block.decode().split("\n"):
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
            if data:
                yield name, "\n".join(data)


class Report:
    """Counts, and the RESULT line that tests/run-tests reads."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, ok, detail=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {name}: {detail}", flush=True)
        return ok

    def equal(self, name, got, want):
        return self.check(name, got == want, f"got {str(got)[:300]!r}, not {str(want)[:300]!r}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip {name}: {why}", flush=True)

    def guard(self, name, function, *args):
        """Run a test; what it raises is a failure of it."""
        start = time.monotonic()
        try:
            function(*args)
        except Exception as error:  # pylint: disable=broad-except
            self.check(name, False, f"{type(error).__name__}: {error}")
        print(f"     {name}: {time.monotonic() - start:.1f} s", flush=True)

    def end(self):
        print(f"RESULT passed={self.passed} failed={self.failed} skipped={self.skipped}", flush=True)
        return 1 if self.failed else 0
