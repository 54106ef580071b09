# SPDX-License-Identifier: Apache-2.0
"""What the machine brings along: other processes, full disks, certificates, proxies, terminals."""
import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
import threading

from fakehub import Hub
from models import MIB, large, tiny
from proxy import Proxy
from run import Skip, WHIMBREL
from test_pull import IDS, NEEDED, check_layout

LARGE = ["config.json", "model.safetensors", "tokenizer.json"]


def test_two_at_once(case):
    with Hub(large(40 * MIB)) as hub:
        children = [case.start(hub, "pull", "org/large") for _ in range(3)]
        for child in children:
            case.wait(child)
        check_layout(case, hub.repos["org/large"], LARGE)
        assert hub.sent == 40 * MIB + 2, f"{hub.sent}: each byte comes once"


def test_lock_of_others(case):
    """The lock file of Hugging Face's own tools is waited for."""
    with Hub(tiny()) as hub:
        lock = case.cache / ".locks" / "models--org--tiny" / (hub.repos["org/tiny"].etag("config.json") + ".lock")
        lock.parent.mkdir(parents=True)
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            child = case.start(hub, "pull", "org/tiny")
            for line in child.stderr:
                if "waiting for another process, which fetches config.json" in line:
                    break
            assert child.poll() is None
        case.wait(child)
        check_layout(case, hub.repos["org/tiny"], NEEDED)


def test_file_limit(case):
    with Hub(large(40 * MIB)) as hub:
        case.run(hub, "pull", "org/large", code=1, says="ulimit -f", wrap=("prlimit", f"--fsize={20 * MIB}"))
        case.run(hub, "pull", "org/large", "-q")
        check_layout(case, hub.repos["org/large"], LARGE)


def in_namespace():
    """A command prefix whose mounts are its own, or Skip."""
    wrap = ("unshare", "--user", "--map-root-user", "--mount")
    if os.geteuid() == 0:
        wrap = ("unshare", "--mount")
    if shutil.which("unshare") is None or subprocess.run(
            [*wrap, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode:
        raise Skip("no mount namespace can be made here")
    return wrap


def small_disk(case, size, script):
    """Run a script of Python where the cache is a small disk; `pull` is the program's start."""
    case.cache.mkdir()
    head = f"""
import subprocess, sys, urllib.request, pathlib
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={size}", "none", {str(case.cache)!r}], check=True)
cache = pathlib.Path({str(case.cache)!r})
def pull(*args):
    return subprocess.Popen([{WHIMBREL!r}, "pull", "org/large", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
def end(child, code, *says):
    out, err = child.communicate(timeout=100)
    assert child.returncode == code, (child.returncode, err)
    for text in says:
        assert text in err, err
"""
    return head + script


def test_no_space(case):
    wrap = in_namespace()
    with Hub(large()) as hub:
        script = small_disk(case, 30 * MIB, """
end(pull(), 1, "org/large needs 76.00 MiB more, and ", " left", "HF_HUB_CACHE")
""")
        done = subprocess.run([*wrap, sys.executable, "-c", script], env=case.env(hub), capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr
        assert hub.sent == 0, "nothing is fetched that cannot be kept"


def test_disk_fills_up(case):
    """Space that is there at first and then is not; what came is kept, and the rest comes when there is room again."""
    wrap = in_namespace()
    with Hub(large()) as hub:
        held, go = threading.Event(), threading.Event()

        def hold(handler, repo, name, start, end):
            if name == "model.safetensors" and start == 0 and not go.is_set():
                held.set()
                go.wait(60)

        def api(handler, repo):
            if repo.name == "wait/held":
                held.wait(60)
            elif repo.name == "set/go":
                go.set()
            else:
                return None
            return handler.answer(200, b"{}")

        hub.on_file, hub.on_api = hold, api
        hub.repos["wait/held"] = type(hub.repos["org/large"])("wait/held", {})
        hub.repos["set/go"] = type(hub.repos["org/large"])("set/go", {})
        script = small_disk(case, 100 * MIB, f"""
child = pull("--connections", "1")
urllib.request.urlopen({hub.url!r} + "/api/models/wait/held/revision/main").read()
(cache / "fill").write_bytes(b"x" * {70 * MIB})
urllib.request.urlopen({hub.url!r} + "/api/models/set/go/revision/main").read()
end(child, 1, "disk is full", "kept")
(cache / "fill").unlink()
end(pull("-q"), 0)
blob = [b for b in (cache / "models--org--large" / "blobs").iterdir() if b.stat().st_size > 1000]
assert len(blob) == 1 and blob[0].stat().st_size == {72 * MIB}, blob
""")
        done = subprocess.run([*wrap, sys.executable, "-c", script], env=case.env(hub), capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr
        assert hub.sent < 72 * MIB + 40 * MIB, hub.sent


def test_read_only_cache(case):
    """A whole model in a cache that cannot be written is used, and a pull of it is content."""
    wrap = in_namespace()
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", "-q")
        script = f'mount --bind "{case.cache}" "{case.cache}" && mount -o remount,ro,bind "{case.cache}" && exec "$@"'
        for command in (("pull", "org/tiny"), ("run", "org/tiny", *IDS)):
            case.run(hub, *command, wrap=(*wrap, "sh", "-c", script, "sh"))
        hub.repos["org/tiny"].files["config.json"] += b" "
        hub.repos["org/tiny"].commit = "d" * 40
        case.run(hub, "pull", "org/tiny", code=1, says=["Read-only", "HF_HUB_CACHE"],
                 wrap=(*wrap, "sh", "-c", script, "sh"))


def test_certificates(case):
    """An authority of our own, by the variables that name one."""
    if shutil.which("openssl") is None:
        raise Skip("there is no openssl to make certificates with")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=case.folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test CA",
            "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "hub.key", "-out", "hub.csr", "-subj", "/CN=127.0.0.1")
    (case.folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "hub.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext",
            "-out", "hub.pem")
    authority = str(case.folder / "ca.pem")
    with Hub(tiny(), cert=(case.folder / "hub.pem", case.folder / "hub.key")) as hub, Hub(tiny()) as plain:
        case.run(hub, "pull", "org/tiny", code=1, says=["certificate is not trusted", "SSL_CERT_FILE"])
        for variable in ("SSL_CERT_FILE", "CURL_CA_BUNDLE"):
            case.run(hub, "pull", "org/tiny", "-q", **{variable: authority})
        check_layout(case, hub.repos["org/tiny"], NEEDED)
        with Proxy() as proxy:  # sees hosts only
            shutil.rmtree(case.cache)
            case.run(hub, "pull", "org/tiny", "-q", https_proxy=proxy.url, no_proxy=None, SSL_CERT_FILE=authority)
            assert proxy.seen and all(line.startswith("CONNECT 127.0.0.1:") for line in proxy.seen), proxy.seen
        check_layout(case, hub.repos["org/tiny"], NEEDED)
        # From https nothing leads to http, where anybody could read along.
        hub.repos["org/tiny"].files["model-00001-of-00003.safetensors"] += b"x"
        hub.redirect = lambda place: place.replace(hub.cdn_url, plain.cdn_url)
        case.run(hub, "pull", "org/tiny", code=1, says="from https to", SSL_CERT_FILE=authority)
        assert not plain.requests()


def test_proxy(case):
    with Hub(tiny()) as hub, Proxy() as proxy:
        case.run(hub, "pull", "org/tiny", "-q", http_proxy=proxy.url, no_proxy=None)
        check_layout(case, hub.repos["org/tiny"], NEEDED)
        seen = len(proxy.seen)
        assert seen > len(NEEDED) and all(s.split()[1].startswith("http://127.0.0.1:") for s in proxy.seen), proxy.seen
        assert len(hub.requests()) <= seen, "some went past the proxy"
        shutil.rmtree(case.cache)
        case.run(hub, "pull", "org/tiny", "-q", http_proxy=proxy.url, no_proxy="localhost,127.0.0.1")
        assert len(proxy.seen) == seen, "no_proxy names the host"
    shutil.rmtree(case.cache)
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", code=1, says=[proxy.url.partition("//")[2].partition(":")[0], "cannot be reached"],
                 http_proxy=proxy.url, no_proxy=None)


def test_terminal(case):
    """A bar that is redrawn on a terminal, lines elsewhere (test_layout)."""
    with Hub(large(40 * MIB)) as hub:
        ours, theirs = pty.openpty()
        child = subprocess.Popen([WHIMBREL, "pull", "org/large"], env=case.env(hub, TERM="xterm"), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(ours)
        child.communicate(timeout=60)
        assert child.returncode == 0, text
        assert b"\r" in text and b"fetch org/large" in text and text.rstrip().endswith(b"s"), text


def test_serve(case):
    """serve ORG/NAME fetches what is missing and calls the model by its name."""
    with Hub(tiny()) as hub:
        repo = hub.repos["org/tiny"]
        # A model that can be served needs a tokenizer; the server says so after the download.
        child = case.start(hub, "serve", "org/tiny", "--port", "0")
        case.wait(child, 1, ["fetch org/tiny: 100%"])
        check_layout(case, repo, NEEDED)
        # A log that a program reads has nothing else in it.
        shutil.rmtree(case.cache)
        _, err = case.run(hub, "serve", "org/tiny", "--port", "0", "--log-format", "json", code=1)
        events = [json.loads(line) for line in err.splitlines()]
        assert [e["done"] for e in events if "done" in e][-1] == sum(len(repo.files[n]) for n in NEEDED), events
