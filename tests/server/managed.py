#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server under a service manager: what its notify socket hears, JSON logs, the journal's priorities, one line for each
request, and clients behind a proxy. With an argument: only tests with it in the name."""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from rawhttp import (LIMIT, MODEL, PROGRAM, RUNNER, Reader, Report, Server, connect, events, free_port, get, post,
                     request_bytes, skip_without_model)

COMPLETIONS = "/v1/completions"
SMALL = ("--ctx", 1024, "--kv-mem", "48M")
SHORT = {"prompt": "The sea is", "max_tokens": 4, "temperature": 0, "ignore_eos": True}


class Manager:
    """A socket that hears what a server says to whoever started it."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(0.2)
        self.heard, self.name = [], name

    def wait(self, word, limit=LIMIT):
        """Until a message has this line; the message, or None."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                message = self.socket.recv(4096).decode()
            except TimeoutError:
                continue
            self.heard.append(message)
            if word in message.split("\n"):
                return message
        return None

    def close(self):
        self.socket.close()


def notify(r, folder):
    keys = os.path.join(folder, "keys")
    with open(keys, "w", encoding="ascii") as f:
        f.write("a-key\n")
    manager = Manager(os.path.join(folder, "notify"))
    with Server(*SMALL, "--api-key-file", keys, ready=False,
                env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "2000000"}) as server:
        ready = manager.wait("READY=1")
        r.check("notify: ready", ready is not None and f":{server.port}" in ready, manager.heard)
        r.equal("notify: ready means ready", get(server.port, "/readyz").status, 200)
        loading = [m for m in manager.heard if "STATUS=Loading" in m]
        r.check("notify: loading asks for time", loading and "EXTEND_TIMEOUT_USEC=60000000" in loading[0].split("\n"),
                manager.heard)
        r.check("notify: nothing but loading before it", manager.heard.index(ready) == len(loading), manager.heard)
        r.check("notify: watchdog", manager.wait("WATCHDOG=1") is not None, manager.heard)
        r.check("notify: watchdog again", manager.wait("WATCHDOG=1") is not None, manager.heard)
        manager.heard.clear()
        server.signal(signal.SIGHUP)
        reloading = manager.wait("RELOADING=1")
        r.check("notify: reloading, with its time", reloading and re.search(r"MONOTONIC_USEC=\d+", reloading),
                manager.heard)
        r.check("notify: ready after it", manager.wait("READY=1") is not None, manager.heard)
        server.signal(signal.SIGTERM)
        stopping = manager.wait("STOPPING=1")
        r.check("notify: stopping, with time to drain", stopping and "EXTEND_TIMEOUT_USEC=90000000" in stopping,
                manager.heard)
        r.equal("notify: exit status", server.stop(), 0)
    manager.close()


def notify_hang(r, _folder):
    """An engine that hangs is not called alive, though the process is."""
    manager = Manager(f"@whimbrel-test-{os.getpid()}")
    with Server(*SMALL, env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"}) as server:
        r.check("hang: abstract name", manager.wait("READY=1") is not None, manager.heard)
        r.check("hang: alive before", manager.wait("WATCHDOG=1") is not None, manager.heard)
        held = server.hold_engine()
        if held < 0:
            r.skip("hang", f"one thread cannot be held here: {os.strerror(-held)}")
            server.stop()
        else:
            end = time.monotonic() + 30  # signs of life come every half second; two seconds without end them
            while (silent := manager.wait("WATCHDOG=1", 2) is None) is False and time.monotonic() < end:
                pass
            r.check("hang: no sign of life after it", silent, manager.heard[-3:])
            r.equal("hang: the process lives", get(server.port, "/readyz").status, 200)
            server.process.kill()
            while server.reap_held(held):
                time.sleep(0.02)
    manager.close()


def notify_names(r, _folder):
    manager = Manager(f"@whimbrel-test-{os.getpid()}")
    with Server(*SMALL, env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}) as server:
        manager.wait("never", 1.5)
        r.check("notify: no watchdog for another process", "WATCHDOG=1" not in manager.heard, manager.heard)
        r.equal("notify: exit status", server.stop(), 0)
    manager.close()
    with Server(*SMALL, env={"NOTIFY_SOCKET": "/nonexistent/notify"}) as server:
        r.check("notify: nobody there is said and survived",
                "event=notify error=\"cannot reach the socket to notify, /nonexistent/notify" in server.log(),
                server.log())


def json_log(r, _folder):
    with Server(*SMALL, "--log-format", "json", "--log-level", "debug", "--trusted-proxy", "127.0.0.0/8") as server:
        first = {"X-Request-Id": "first"}
        r.equal("json: an answer", post(server.port, COMPLETIONS, SHORT, first).status, 200)
        post(server.port, COMPLETIONS, SHORT, {"X-Request-Id": "second", "X-Forwarded-For": "6.6.6.6, 192.0.2.7"})
        for _ in events(server.port, COMPLETIONS, SHORT, {"X-Request-Id": "third"}):
            pass
        post(server.port, "/v1/nowhere%22%5C%C3%A4%20x", {}, {"X-Request-Id": "fourth"})
        for path in ("/livez", "/readyz", "/health"):
            get(server.port, path)
        leave(server, "fifth")
        r.equal("json: exit status", server.stop(), 0)
    lines = [json.loads(line) for line in server.lines]  # every line, the start's too
    r.check("json: keys first", all(list(x)[:3] == ["time", "level", "event"] for x in lines), lines[:2])
    by_id = {x["id"]: x for x in lines if x["event"] == "request"}
    r.equal("json: one line each", sorted(x["id"] for x in lines if x["event"] == "request"),
            ["fifth", "first", "fourth", "second", "third"])
    line = by_id["first"]
    r.equal("json: what it was", [line[k] for k in ("method", "route", "status", "cached", "new", "reason", "client")],
            ["POST", COMPLETIONS, 200, 0, 4, "length", "127.0.0.1"])
    r.check("json: times", line["prompt"] > 0 and 0 <= line["queue_ms"] <= line["ttft_ms"] <= line["total_ms"], line)
    r.equal("json: behind a proxy", by_id["second"]["client"], "192.0.2.7")
    r.equal("json: a stream", [by_id["third"][k] for k in ("status", "new", "reason")], [200, 4, "length"])
    r.equal("json: no such route", [by_id["fourth"][k] for k in ("status", "route")], [404, "/v1/nowhere\"\\\u00e4 x"])
    r.equal("json: a client that left", [by_id["fifth"][k] for k in ("status", "reason")], [499, "client gone"])
    r.check("json: probes are not logged", not [x for x in lines if "z" in x.get("route", "")], lines)
    r.check("json: and no content", "The sea" not in server.log(), "")


def leave(server, name):
    """A request whose client goes away before the answer."""
    with connect(server.port) as s:
        s.sendall(request_bytes("POST", COMPLETIONS, {"prompt": "Once", "max_tokens": 900, "ignore_eos": True},
                                {"X-Request-Id": name}))
        end = time.monotonic() + LIMIT
        while not [x for x in server.lines if '"admit"' in x and name in x] and time.monotonic() < end:
            time.sleep(0.02)
    end = time.monotonic() + LIMIT
    while not [x for x in server.lines if '"request"' in x and name in x] and time.monotonic() < end:
        time.sleep(0.02)


def json_complaint(r, folder):
    done = subprocess.run(RUNNER + [PROGRAM, "serve", folder + "/none.gguf", "--port", str(free_port()), "--log-format",
                                    "json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    line = json.loads(done.stderr)
    r.equal("json: a start that fails", [done.returncode, line["level"], line["event"]], [1, "error", "failed"])
    r.check("json: and why", "none.gguf" in line["error"], line)
    done = subprocess.run(RUNNER + [PROGRAM, "serve", "--trusted-proxy", "10.0.0.1/8"], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=LIMIT, check=False)
    r.equal("a network that is none", [done.returncode, b"--trusted-proxy" in done.stderr], [2, True])


def journal(r, _folder):
    """Priorities only where standard error is what the journal gave; content only with the flag, and loudly."""
    ours, theirs = os.pipe()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    info = os.fstat(theirs)
    port = free_port()
    command = [PROGRAM, "serve", MODEL, "--port", str(port), *map(str, SMALL), "--log-content"]
    process = subprocess.Popen(RUNNER + command, stdin=subprocess.DEVNULL, stderr=theirs, stdout=subprocess.DEVNULL,
                               env={**os.environ, "JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"},
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard)))
    os.close(theirs)
    lines = []

    def read():
        with open(ours, encoding="utf-8", errors="replace") as f:
            lines.extend(iter(f.readline, ""))
    reader = threading.Thread(target=read)
    reader.start()
    end = time.monotonic() + LIMIT
    while not [x for x in lines if "event=ready" in x] and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    with open(f"/proc/{process.pid}/limits", encoding="ascii") as f:
        files = next(x.split()[3:5] for x in f if x.startswith("Max open files"))
    r.equal("the soft limit of files is the hard one", files, [str(hard), str(hard)])
    post(port, COMPLETIONS, {**SHORT, "prompt": "Zanzibarium \u00fc"}, {"X-Request-Id": "told"})
    process.send_signal(signal.SIGTERM)
    r.equal("journal: exit status", process.wait(LIMIT), 0)
    reader.join()
    text = "".join(lines)
    r.check("journal: info", re.search(r"^<6>time=\S+ level=info event=ready ", text, re.M), text[-500:])
    r.check("journal: the warning about content", re.search(r"^<4>time=\S+ level=warn event=content ", text, re.M), text)
    r.check("content: the request", re.search(r"event=content_request id=told part=1 parts=1 text=.*Zanzibarium", text),
            text[-900:])
    r.check("content: the answer", re.search(r"event=content_answer id=told part=1 parts=1 text=", text), text[-900:])
    with Server(*SMALL, env={"JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"}) as server:
        server.stop()
    r.check("journal: not for another stream", "<6>" not in server.log(), server.log()[-300:])


def main():
    skip_without_model()
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    report = Report()
    for test in (notify, notify_hang, notify_names, json_log, json_complaint, journal):
        if only in test.__name__:
            with tempfile.TemporaryDirectory() as folder:
                report.guard(test.__name__, test, report, folder)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
