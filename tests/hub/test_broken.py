# SPDX-License-Identifier: Apache-2.0
"""Hubs and networks that fail, refuse or lie."""
import json
import signal
import threading
import time

from fakehub import Hub, Repo
from models import MIB, large, tiny
from test_pull import IDS, NEEDED, check_layout


def first(n, action):
    """Do the action for the first n calls, then nothing."""
    left = threading.Semaphore(n)
    return lambda *args: action(*args) if left.acquire(blocking=False) else None


def cut(handler, repo, name, start, end, after=0.5):
    """Promise all and send a part."""
    data = repo.files[name]
    handler.send_response(206 if "Range" in handler.headers else 200)
    if "Range" in handler.headers:
        handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
    handler.send_header("Content-Length", str(end - start))
    handler.end_headers()
    part = data[start:start + int((end - start) * after)]
    handler.wfile.write(part)
    with handler.server.hub.lock:
        handler.server.hub.sent += len(part)
    return handler.drop()


def test_drops(case):
    with Hub(large()) as hub:
        hub.on_file = first(6, cut)  # half of what was asked for
        case.run(hub, "pull", "org/large", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])
        assert hub.sent < 73 * MIB, f"{hub.sent}: what came before a drop is not fetched again"


def test_drops_without_ranges(case):
    with Hub(large(40 * MIB)) as hub:
        hub.ranges = False
        hub.on_file = first(3, cut)
        case.run(hub, "pull", "org/large", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])


def test_drops_for_ever(case):
    with Hub(tiny()) as hub:
        hub.on_file = lambda handler, *_: handler.drop()
        case.run(hub, "pull", "org/tiny", "--tries", "2", code=1, says="broke off")
        assert not (case.repo("org/tiny") / "refs").exists()


def wrong(handler, repo, name, start, end):
    return handler.answer(200, b"X" + repo.files[name][1:]) if name == NEEDED[2] else None


def once(name, action):
    """Do the action for the first request of this file."""
    left = threading.Semaphore(1)
    return lambda *args: action(*args) if args[2] == name and left.acquire(blocking=False) else None


def test_wrong_sum_once(case):
    with Hub(tiny()) as hub:
        hub.on_file = once(NEEDED[2], wrong)
        case.run(hub, "pull", "org/tiny", says="wrong checksum")
        check_layout(case, hub.repos["org/tiny"], NEEDED)


def test_wrong_sum_always(case):
    with Hub(tiny()) as hub:
        repo = hub.repos["org/tiny"]
        hub.on_file = wrong
        case.run(hub, "pull", "org/tiny", code=1, says=["model-00002-of-00003.safetensors", "checksum", repo.etag(NEEDED[2])])
        assert not any(b.startswith(repo.etag(NEEDED[2])) for b in case.blobs("org/tiny")), "no trace of the wrong bytes"
        case.run(hub, "run", "org/tiny", *IDS, code=1, says="checksum")


def test_wrong_git_sum(case):
    with Hub(tiny()) as hub:
        hub.on_file = lambda h, repo, name, *_: h.answer(200, b"?" * len(repo.files[name])) if name == "config.json" else None
        case.run(hub, "pull", "org/tiny", code=1, says=["config.json", "checksum"])


def test_wrong_sizes(case):
    with Hub(tiny()) as hub:
        hub.on_file = lambda h, repo, name, *_: h.answer(200, b"<html>log in first</html>") if name == "config.json" else None
        case.run(hub, "pull", "org/tiny", "--tries", "2", code=1, says=["config.json", "25 bytes instead of"])
    with Hub(large(40 * MIB)) as hub:
        hub.on_file = lambda h, repo, name, s, e: h.answer(206, b"x" * 9, {"Content-Range": "bytes 7-15/99"}) if s else None
        case.run(hub, "pull", "org/large", "--tries", "2", code=1, says="bytes from 7 of 99")


def test_busy(case):
    """429 with a time to wait, then 503, then all is well."""
    with Hub(tiny()) as hub:
        answers = [(429, {"Retry-After": "2"}), (503, {}), (500, {})]
        times = []

        def busy(handler, repo):
            times.append(time.monotonic())
            if answers:
                status, headers = answers.pop(0)
                return handler.answer(status, b"", headers)

        hub.on_api = busy
        case.run(hub, "pull", "org/tiny", "-q")
        assert len(times) == 4 and times[1] - times[0] >= 1.9, "Retry-After is obeyed"
        files = [(502, {}), (429, {"Retry-After": "0"})]
        hub.on_file = lambda h, *_: h.answer(files[0][0], b"", files.pop(0)[1]) if files else None
        hub.repos["org/tiny"].files["config.json"] += b" "
        hub.repos["org/tiny"].files["tokenizer.json"] += b" "
        case.run(hub, "pull", "org/tiny", "-q")
        hub.on_api = lambda h, repo: h.answer(429, b"", {"Retry-After": "86400"})
        case.run(hub, "pull", "org/tiny", code=1, says=["429", "HF_TOKEN"])
        hub.on_api = lambda h, repo: h.answer(500, b"")
        case.run(hub, "pull", "org/tiny", "--tries", "2", code=1, says="status 500")


def test_refusals(case):
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/none", code=1, says=['has no public model "org/none"', "spelling", "settings/tokens", "HF_TOKEN"])
        case.run(hub, "pull", "org/none", code=1, says=["that your token may see"], HF_TOKEN="hf_x")
        hub.on_api = lambda h, repo: h.answer(401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"})
        case.run(hub, "pull", "org/tiny", code=1, says="does not accept the token", HF_TOKEN="hf_x")
        hub.on_api = lambda h, repo: h.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        case.run(hub, "pull", "org/tiny", code=1, says=["gated", f"{hub.url}/org/tiny", "set HF_TOKEN"])
        case.run(hub, "pull", "org/tiny", code=1, says=["gated", "your token belongs to"], HF_TOKEN="hf_x")
        hub.on_api = lambda h, repo: None
        hub.on_file = lambda h, repo, name, *_: h.answer(403, b"", {"X-Error-Message": "no\x1b[2J"})
        _, err = case.run(hub, "pull", "org/tiny", code=1, says=["may not be read", "403"])
        assert "\x1b" not in err, "what a server says must not steer a terminal"
        n = len(hub.requests("hub"))
        assert n < 20, f"{n}: a refusal is not asked again and again"


def test_both_readings(case):
    (case.folder / "modles").mkdir()
    (case.folder / "modles" / "mine.gguf").write_bytes(b"x")
    with Hub(tiny()) as hub:
        case.run(hub, "run", "modles/mine", *IDS, code=1,
                 says=['no model "modles/mine"', "As a path", "modles/mine.gguf", "As a name on the hub", hub.url])
        case.run(hub, "run", "./no/such", *IDS, code=1, says=["no model", "ORG/NAME"])
        case.run(hub, "run", "org/x@a b", *IDS, code=1, says=["not a branch, tag or commit"])
        case.run("http://127.0.0.1:9", "run", "org/x", *IDS, code=1, says=["As a path", "cannot be reached"])
        for bad in ("tiny", "a/b/c", "../tiny", "org/ti--ny", "org/tiny:../x", "org/tiny@-x", "https://x/y"):
            case.run(hub, "pull", bad, code=2)
        case.run(hub, "pull", code=2, says="ORG/NAME")
        case.run(hub, "pull", "org/tiny", "--file", "../x", code=2, says="--file")
        assert not [r for r in hub.requests() if "tiny" in r[2]]


def test_bad_listings(case):
    whole = json.dumps(tiny().listing())
    answers = {whole[:len(whole) // 2]: "not valid JSON", "[]": "expected an object", "{}": '"sha" is missing',
               whole.replace(tiny().commit, "../../x"): "is not a commit", "": "not valid JSON",
               json.dumps({"sha": "a" * 40, "siblings": [1]}): "siblings", json.dumps({"sha": "a" * 40, "siblings": []}): "no *.safetensors",
               json.dumps({"sha": "a" * 40, "siblings": [{"rfilename": "model.safetensors", "size": -1}]}): "size"}
    with Hub(tiny()) as hub:
        for text, says in answers.items():
            hub.on_api = lambda h, repo, text=text: h.answer(200, text.encode())
            case.run(hub, "pull", "org/tiny", code=1, says=says)
    assert not case.cache.exists() or not list(case.cache.rglob("*config*"))


def test_hostile_names(case):
    """Names that lead out of the cache are refused, and the rest is fetched."""
    repo = tiny()
    names = ["../x.gguf", "../../../../evil", "/etc/evil", "a/../../b", "a//b", "./c", "a\\..\\b", "C:evil", "bad\nname", "d/", "..",
             "\x1b[2Jx", "e" * 300, "config.json/"]
    repo.files |= {n: b"evil" for n in names}
    with Hub(repo) as hub:
        _, err = case.run(hub, "pull", "org/tiny", says=f"{len(names)} names refused as unsafe")
        assert "\x1b" not in err
        names = [n for n in repo.files if n not in names]
        check_layout(case, repo, NEEDED)
        assert {p.name for p in case.folder.iterdir()} == {"hub"}
        assert {p.name for p in case.cache.iterdir()} == {"models--org--tiny", ".locks"}


def test_many_siblings(case):
    repo = tiny()
    listing = repo.listing()
    listing["siblings"] += [{"rfilename": f"d/{i:06}.txt", "size": 1, "blobId": "0" * 40} for i in range(10000)]
    with Hub(repo) as hub:
        hub.on_api = lambda h, r: h.answer(200, json.dumps(listing).encode())
        _, err = case.run(hub, "pull", "org/tiny", says="left out 10005 files")
        assert len(err) < 2000, err
        check_layout(case, repo, NEEDED)


def test_pickles(case):
    with Hub(Repo("org/old", {"config.json": b"{}", "pytorch_model.bin": b"x"})) as hub:
        case.run(hub, "pull", "org/old", code=1, says=["pickles such as pytorch_model.bin", "converted"])
        case.run(hub, "pull", "org/old", "--file", "pytorch_model.bin", code=1, says="pickle")
        assert hub.sent == 0


def test_redirects(case):
    with Hub(tiny()) as hub:
        port = hub.servers[0].server_address[1]
        # Renamed: the hub leads to a new name by a relative redirect, the token goes along.
        hub.repos["org/old"] = hub.repos["org/tiny"]
        hub.on_api = lambda h, repo: h.answer(307, b"", {"Location": h.path.replace("org/old", "org/tiny")}) \
            if "org/old" in h.path else None
        case.run(hub, "pull", "org/old", "-q", HF_TOKEN="hf_secret")
        for role, _, path, headers in hub.requests():
            assert ("Authorization" in headers) == (role == "hub"), (role, path)
        hub.log.clear()
        # The same machine under another name is another origin.
        hub.on_api = lambda h, repo: h.answer(302, b"", {"Location": f"http://localhost:{port}{h.path}"}) \
            if h.headers["Host"].startswith("127.") else None
        case.run(hub, "pull", "org/tiny", "-q", HF_TOKEN="hf_secret")
        for _, _, _, headers in hub.requests():
            assert ("Authorization" in headers) == (headers["Host"] == f"127.0.0.1:{port}"), headers
        for where, says in (("file:///etc/passwd", "not a web address"), ("gopher://x/", "not a web address"),
                            (hub.url + "/api/models/org/tiny/revision/main", "redirects")):
            hub.on_api = lambda h, repo, where=where: h.answer(302, b"", {"Location": where})
            case.run(hub, "pull", "org/tiny", code=1, says=says)


def test_address_that_runs_out(case):
    """An address of the CDN is used for all pieces until it is refused; then the hub is asked again."""
    refuse = threading.Semaphore(1)
    with Hub(large()) as hub:
        hub.on_file = lambda h, repo, name, start, end: h.answer(403) if start and refuse.acquire(blocking=False) else None
        case.run(hub, "pull", "org/large", "--connections", "1", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])


def test_stall(case):
    """Bytes that stop coming are asked for again."""
    with Hub(tiny()) as hub:
        wait = threading.Event()

        def hang(handler, repo, name, start, end):
            handler.send_response(200)
            handler.send_header("Content-Length", str(end))
            handler.end_headers()
            handler.wfile.write(repo.files[name][:9])
            wait.wait(60)
            return handler.drop()

        hub.on_file = once("config.json", hang)
        case.run(hub, "pull", "org/tiny", "-q", HF_HUB_DOWNLOAD_TIMEOUT="1")
        wait.set()
        check_layout(case, hub.repos["org/tiny"], NEEDED)


def interrupted(case, how, code, says=()):
    """Stop a pull in the middle; the next one fetches only the rest."""
    with Hub(large()) as hub:
        held, go = threading.Event(), threading.Event()

        def hold(handler, repo, name, start, end):
            if name != "model.safetensors":
                return None
            data = repo.files[name]
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            handler.send_header("Content-Length", str(end - start))
            handler.end_headers()
            handler.wfile.write(data[start:end - MIB])
            held.set()
            go.wait(60)
            return handler.drop()

        hub.on_file = hold
        child = case.start(hub, "pull", "org/large", "--connections", "3", "--tries", "1")
        assert held.wait(60)
        partial = case.repo("org/large") / "blobs" / (hub.repos["org/large"].etag("model.safetensors") + ".whimbrel.incomplete")
        until = time.monotonic() + 60
        # All that was sent: of each of the three pieces the last mebibyte is held back.
        while (not partial.exists() or partial.stat().st_blocks * 512 < 68 * MIB) and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(how)
        case.wait(child, code, says)
        go.set()
        assert partial.exists() and not (case.repo("org/large") / "refs").exists()
        hub.on_file = lambda *_: None
        hub.sent = 0
        case.run(hub, "pull", "org/large", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])
        assert 0 < hub.sent < 12 * MIB, hub.sent


def test_interrupt(case):
    interrupted(case, signal.SIGINT, 130, ["stopped", "kept"])


def test_kill(case):
    interrupted(case, signal.SIGKILL, -9)


def test_bad_partial(case):
    """A partial file that lies about itself costs a second download, and no more."""
    with Hub(tiny()) as hub:
        repo = hub.repos["org/tiny"]
        blobs = case.repo("org/tiny") / "blobs"
        blobs.mkdir(parents=True)
        size = len(repo.files[NEEDED[1]])
        table = b"whimprt1" + size.to_bytes(8, "little") + (32 * MIB).to_bytes(8, "little") + size.to_bytes(8, "little")
        (blobs / (repo.etag(NEEDED[1]) + ".whimbrel.incomplete")).write_bytes(b"?" * size + table)
        (blobs / (repo.etag(NEEDED[2]) + ".whimbrel.incomplete")).write_bytes(b"short")
        (blobs / (repo.etag(NEEDED[3]) + ".incomplete")).write_bytes(b"of another tool")
        case.run(hub, "pull", "org/tiny", says="wrong checksum")
        (blobs / (repo.etag(NEEDED[3]) + ".incomplete")).unlink()
        check_layout(case, repo, NEEDED)
