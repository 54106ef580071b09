#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting the server: the port before everything else, what is said when it is taken, the ready block where people
are, and Ctrl-C in every phase."""
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hub"))
# pylint: disable=wrong-import-position
from fakehub import Hub, Repo  # noqa: E402
from first import (FILE, LIMIT, MODEL, NOBODY, PROGRAM, QUESTION, ROOT, SMALL, Box, Started, as_nobody, children,
                   environment, free_port, get, have_root, main, post, run, try_run)

COMPLETIONS = "/v1/completions"
IN_CONTAINER = any(os.path.exists(x) for x in ("/.dockerenv", "/run/.containerenv"))


def serve(*args, program=PROGRAM, model=MODEL):
    return [program, "serve", *([model] if model else []), *SMALL, *map(str, args)]


def script(box, name, text):
    path = f"{box.path}/{name}"
    with open(path, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


# --- the port ---------------------------------------------------------------------------------------------

def port_taken(r):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, text = run(serve("--port", port, model=None), environment(WHIMBREL_CACHE="/nonexistent"))
        r.equal("taken: status", code, 1)
        r.check("taken: the port", f"port {port} of 127.0.0.1 is taken" in text, text)
        r.check("taken: the owner", f"(process {os.getpid()})" in text, text)
        other = re.search(r"make serve PORT=(\d+), or whimbrel serve --port (\d+)", text)
        r.check("taken: what to type", other and port < int(other.group(1)) == int(other.group(2)), text)
        r.check("taken: before the model is looked for", "nonexistent" not in text, text)
        if have_root():
            with Box() as box:
                code, text = run(as_nobody(serve("--port", port, program=box.program, model=None)))
                r.check("taken by another user", code == 1 and "is taken by another program" in text, text)


def port_of_whimbrel(r):
    port = free_port()
    with Box() as box:
        stall = script(box, "stall", "exec sleep 600\n")
        with Started(serve("--port", port, "--fetch", stall, model=None),
                     environment(WHIMBREL_CACHE=box.path + "/cache")) as one:
            wait_port(port)
            code, text = run(serve("--port", port))
            r.equal("another whimbrel: status", code, 1)
            r.check("another whimbrel: its address", f"http://127.0.0.1:{port}" in text, text)
            r.check("another whimbrel: its process", f"whimbrel (process {one.process.pid})" in text, text)


def wait_port(port):
    end = time.monotonic() + LIMIT
    while True:
        try:
            return get(port, "/livez")
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def both_loopbacks(r):
    port = free_port()
    with Started(serve("--port", port)) as s:
        r.check("ready", s.wait_text("\nready: "), s.text())
        r.equal("127.0.0.1", get(port, "/readyz").status, 200)
        with open("/proc/net/if_inet6", encoding="ascii") if os.path.exists("/proc/net/if_inet6") else open(
                os.devnull, encoding="ascii") as f:
            has_six = " lo\n" in f.read()
        if has_six:
            with socket.create_connection(("::1", port), timeout=LIMIT):
                r.check("::1", True)
        else:
            r.skip("::1", "there is no IPv6 here")


def without_ipv6(r):
    if not have_root() or not try_run(["unshare", "-n", "true"]):
        r.skip("without IPv6", "needs root and namespaces")
        return
    off = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null; "
    with Started(["unshare", "-n", "sh", "-c", off + 'exec "$@"', "x", *serve("--port", 0)]) as s:
        r.check("ready", s.wait_text("\nready: "), s.text())
        r.check("silently", "::1" not in s.text() and "listen_skipped" not in s.text(), s.text())


# --- the download, behind the bound port --------------------------------------------------------------------

def fetching(r):
    with Box() as box:
        cache = box.path + "/cache"
        env = environment(WHIMBREL_CACHE=cache)
        for name, sig in (("SIGINT", signal.SIGINT), ("SIGTERM", signal.SIGTERM), ("Ctrl-C", signal.SIGINT)):
            port = free_port()
            stall = script(box, "stall", "echo fetching now\nexec sleep 600\n")
            with Started(serve("--port", port, "--fetch", stall, model=None), env) as s:
                r.check(f"{name}: the program runs", s.wait_text("fetching now"), s.text())
                r.equal(f"{name}: alive meanwhile", get(port, "/livez").status, 200)
                ready = get(port, "/readyz")
                r.check(f"{name}: not ready, with progress", ready.status == 503 and "progress" in ready.json(),
                        ready.text())
                r.equal(f"{name}: an answer meanwhile", post(port, COMPLETIONS, QUESTION).status, 503)
                child = children(s.process.pid)
                if name == "Ctrl-C":
                    s.signal_all(sig)
                else:
                    s.process.send_signal(sig)
                r.equal(f"{name}: status", s.end(), 0)
                r.check(f"{name}: the download is gone", child and not os.path.exists(f"/proc/{child[0]}"), child)
                r.check(f"{name}: no complaint", "whimbrel:" not in s.text(), s.text())
        fails = script(box, "fails", "echo no network here >&2\nexit 1\n")
        code, text = run(serve("--port", 0, "--fetch", fails, model=None), env)
        r.equal("a failing download: status", code, 1)
        r.check("a failing download: said", "no network here" in text and "was not fetched" in text, text)
        good = script(box, "good", f"mkdir -p {cache} && ln -s {MODEL} {cache}/{FILE}\n")
        with Started(serve("--port", 0, "--fetch", good, model=None), env) as s:
            r.check("a download that works", s.wait_text("\nready: "), s.text())
        with Started(serve("--port", 0, "--fetch", fails, model=None), env) as s:
            r.check("not asked for again", s.wait_text("\nready: "), s.text())


def loading(r):
    """Ctrl-C before the model is there; the port is open from the first moment."""
    port = free_port()
    with Started(serve("--port", port)) as s:
        wait_port(port)
        s.process.send_signal(signal.SIGINT)
        r.equal("while loading or just after: status", s.end(), 0)


# --- the ready block ----------------------------------------------------------------------------------------

def ready_block(r):
    env = environment(WHIMBREL_CACHE=os.path.dirname(MODEL), SSH_CONNECTION="10.0.0.2 5000 10.0.0.1 22", USER="ann")
    with Box() as box, Started(serve("--port", 0, model=None), {**env, "WHIMBREL_KV_DIR": box.path + "/kv"}) as s:
        r.check("ready", s.wait_text("  stop      Ctrl-C"), s.text())
        block = s.text()[s.text().index("\nready: "):]
        port = re.search(r"ready: http://127\.0\.0\.1:(\d+)", block).group(1)
        for part in ("SmolLM2-135M-Instruct.Q4_1, context 512 tokens", "sampling  temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, repetition_penalty 1.1",
                     "135M parameters: a demo; for real work: whimbrel serve auto",
                     f"curl http://127.0.0.1:{port}/v1/chat/completions",
                     f"ssh -L {port}:127.0.0.1:{port} ann@10.0.0.1",
                     f"kept      keys and values of prompts and answers, in {box.path}/kv: "):
            r.check(f"says {part[:30]}", part in block, block)
        draft = MODEL.removesuffix(".gguf") + ".draft"
        r.equal("names its draft", f"\n  draft     {os.path.basename(draft)}: " in block, os.path.isdir(draft))
        r.equal("a container is told", "container" in block, IN_CONTAINER)
        before = s.text()[:s.text().index("\nready: ")]
        r.equal("lines of the log before it", [x for x in before.splitlines() if "event=" in x], [])
        curl = re.search(r"^  try       (curl .*)$", block, re.M).group(1)
        curl = curl.replace('}]}', '}],"max_tokens":4}')
        code, text = run(["bash", "-c", curl], limit=LIMIT) if try_run(["curl", "--version"]) else (0, '"content"')
        r.check("the curl line works", code == 0 and '"content"' in text, text)


def container(r):
    inside = environment(container="podman")
    with Started(serve("--port", 0), inside) as s:
        r.check("hint", s.wait_text("--host 0.0.0.0"), s.text())
    with Started(serve("--port", 0, "--host", "0.0.0.0"), inside) as s:
        r.check("ready", s.wait_text("  stop      Ctrl-C"), s.text())
        key = re.search(r"key       (sk-[0-9a-f]{32}) ", s.text())
        port = int(re.search(r"ready: http://127\.0\.0\.1:(\d+)", s.text()).group(1))
        r.check("a key is made and shown", key is not None, s.text())
        r.equal("no answer without", post(port, COMPLETIONS, QUESTION).status, 401)
        with_key = {"Authorization": "Bearer " + key.group(1)}
        r.equal("an answer with it", post(port, COMPLETIONS, QUESTION, with_key).status, 200)
        s.process.send_signal(signal.SIGHUP)
        r.equal("it stays after SIGHUP", post(port, COMPLETIONS, QUESTION, with_key).status, 200)
    if not IN_CONTAINER:
        code, text = run(serve("--port", 0, "--host", "0.0.0.0"))
        r.check("elsewhere it is refused", code == 2 and "--allow-no-key" in text, text)


# --- make serve, on a terminal ------------------------------------------------------------------------------

class Terminal:
    """A command with a terminal of its own."""

    def __init__(self, command, env):
        self.pid, self.fd = pty.fork()
        self.data = b""
        if self.pid == 0:
            os.chdir(ROOT)
            os.execvpe(command[0], command, env)

    def wait_text(self, part, limit=LIMIT * 3):
        end = time.monotonic() + limit
        while part.encode() not in self.data and time.monotonic() < end:
            if not self.more():
                break
        return part.encode() in self.data

    def more(self):
        if select.select([self.fd], [], [], 0.2)[0]:
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                return False
            self.data += piece
            return bool(piece)
        return True

    def end(self):
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit and self.more():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def text(self):
        return self.data.decode("utf-8", "replace")


def make_serve(r):
    """Ctrl-C at make serve: make says nothing of an error. HOST of the environment is not ours."""
    env = environment(WHIMBREL_CACHE=os.path.dirname(MODEL), HOST="some.machine", TERM="dumb",
                      CCACHE_DIR=os.environ.get("CCACHE_DIR", ""))
    t = Terminal(["make", "serve", f"PORT={free_port()}", "ARGS=" + " ".join(SMALL)], env)
    try:
        r.check("ready", t.wait_text("  stop      Ctrl-C"), t.text()[-1500:])
        before = len(t.data)
        os.write(t.fd, b"\x03")
        t.end()
        r.check("make is silent", b"***" not in t.data[before:] and b"Error" not in t.data[before:],
                t.data[before:])
    finally:
        try:
            os.kill(t.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(t.fd)


def make_serve_asks(r):
    """With a hub in reach make serve asks which model, and MODEL=auto does not."""
    with open(MODEL, "rb") as f:
        model = f.read()
    with open(ROOT + "/apps/local/models.def", encoding="utf-8") as f:
        rows = re.findall(r'^WHIM_MODEL\("[^"]*", "([^"]*)", "([^"]*)"', f.read(), re.M)
    repos = [Repo(name, {f"{name.split('/')[1].removesuffix('-GGUF')}-{pick}.gguf": model}) for name, pick in rows]
    with Box() as box, Hub(*repos) as hub:
        env = environment(WHIMBREL_CACHE=os.path.dirname(MODEL), HF_ENDPOINT=hub.url, HF_HUB_CACHE=box.path + "/hub",
                          no_proxy="*", TERM="dumb", CCACHE_DIR=os.environ.get("CCACHE_DIR", ""))
        command = ["make", "serve", f"PORT={free_port()}", "ARGS=" + " ".join(SMALL)]
        with Typed(Terminal(command, env)) as t:
            r.check("make serve asks", t.wait_text("waiting 60 s:") and "  1  the default" in t.text(), t.text()[-1500:])
            os.write(t.fd, b"\n")
            r.check("Enter takes the default model", t.wait_text("  stop      Ctrl-C") and "a demo; for real work: make serve MODEL=auto"
                    in t.text(), t.text()[-1500:])
        with Typed(Terminal([*command, "MODEL=auto"], env)) as t:
            r.check("MODEL=auto serves", t.wait_text("  stop      Ctrl-C"), t.text()[-1500:])
            r.check("and has chosen", "auto: qwen3" in t.text() and "waiting 60 s" not in t.text(), t.text()[-1500:])


class Typed:
    """A terminal whose command is ended with Ctrl-C."""

    def __init__(self, terminal):
        self.terminal = terminal

    def __enter__(self):
        return self.terminal

    def __exit__(self, *_):
        try:
            os.write(self.terminal.fd, b"\x03")
            self.terminal.end()
            os.kill(self.terminal.pid, signal.SIGKILL)
        except (ProcessLookupError, ChildProcessError, OSError):
            pass
        os.close(self.terminal.fd)


def terminal_closes(r):
    """The window is closed, or ssh is cut: the server ends as by Ctrl-C, though nobody can read what it says."""
    t = Terminal(serve("--port", free_port()), environment(TERM="dumb"))
    try:
        r.check("ready", t.wait_text("  stop      Ctrl-C"), t.text()[-1500:])
        os.close(t.fd)
        end = time.monotonic() + LIMIT
        while (done := os.waitpid(t.pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(0.05)
        r.equal("status", done, (t.pid, 0))
    finally:
        try:
            os.kill(t.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def offline(r):
    """A second make serve in a network namespace that has nothing, not even a loopback."""
    if not have_root() or not try_run(["unshare", "-n", "true"]):
        r.skip("offline", "needs root and namespaces")
        return
    env = environment(WHIMBREL_CACHE=os.path.dirname(MODEL), CCACHE_DIR=os.environ.get("CCACHE_DIR", ""))
    with Started(["unshare", "-n", "make", "serve", "PORT=0", "ARGS=" + " ".join(SMALL)], env) as s:
        r.check("ready", s.wait_text("\nready: ", LIMIT * 3), s.text())
        s.signal_all(signal.SIGINT)
        s.end()
        r.check("ends", "***" not in s.text() or "Interrupt" in s.text(), s.text())


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        print(f"skip: no model at {MODEL}")
        sys.exit(77)
    sys.exit(main([port_taken, port_of_whimbrel, both_loopbacks, without_ipv6, fetching, loading, ready_block, container,
                   make_serve, make_serve_asks, terminal_closes, offline]))
