# SPDX-License-Identifier: Apache-2.0
"""What is in the cache: list and rm, on what pull left there, in the layout of Hugging Face's own tools."""
import fcntl
import json
import os
import time

from fakehub import Hub, Repo
from models import ggufs, tiny


def rows(case, hub, **env):
    out, _ = case.run(hub, "list", "--json", WHIMBREL_CACHE=str(case.folder / "own"), **env)
    return {row["name"]: row for row in json.loads(out)}


def tree(case):
    return sorted(str(p.relative_to(case.cache)) for p in case.cache.rglob("*") if not p.is_dir())


def test_list(case):
    with Hub(tiny(), ggufs()) as hub:
        out, _ = case.run(hub, "list", WHIMBREL_CACHE=str(case.folder / "own"))
        assert out.startswith("no models in"), out
        case.run(hub, "pull", "org/tiny", "-q")
        case.run(hub, "pull", "org/tiny-GGUF:Q4_K_M", "-q")
        case.run(hub, "pull", "org/tiny-GGUF:Q2_K", "-q")
        case.run(hub, "pull", "org/tiny-GGUF:BF16", "-q")
        found = rows(case, hub)
        assert sorted(found) == ["org/tiny", "org/tiny-GGUF:BF16", "org/tiny-GGUF:Q2_K", "org/tiny-GGUF:Q4_K_M"], found
        one = found["org/tiny"]
        files = [p for p in case.repo("org/tiny").glob("snapshots/*/*")]
        assert one["bytes"] == sum(p.stat().st_size for p in files), one
        assert one["complete"] and one["runs"] and not one["served"] and abs(one["used"] - time.time()) < 600, one
        assert found["org/tiny-GGUF:Q4_K_M"]["runs"], found
        # Both parts; and what is no model at all says why.
        assert found["org/tiny-GGUF:BF16"]["bytes"] == 6 and not found["org/tiny-GGUF:BF16"]["runs"]
        assert found["org/tiny-GGUF:Q2_K"]["why_not"], found
        # Each name leads to its model, without the hub.
        for name in ("org/tiny", "org/tiny-GGUF:Q4_K_M"):
            case.run(hub, "inspect", name, HF_HUB_OFFLINE="1")
        out, _ = case.run(hub, "list", WHIMBREL_CACHE=str(case.folder / "own"))
        assert out.startswith("MODEL") and "4 models, " in out and " ago" in out, out


def test_list_what_is_not_whole(case):
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", "-q")
        next(case.repo("org/tiny").glob("snapshots/*/model-00002*")).unlink()
        (case.cache / "models--org--begun" / "blobs").mkdir(parents=True)
        (case.cache / "models--org--begun" / "blobs" / ("a" * 64 + ".whimbrel.incomplete")).write_bytes(b"x" * 9000)
        for odd in ("datasets--org--data", "models--", "models--a", "models--..--b", "models--a--b--c"):
            (case.cache / odd).mkdir()
        found = rows(case, hub)
        assert sorted(found) == ["org/begun", "org/tiny"], found
        assert not found["org/tiny"]["complete"] and "model-00002-of-00003" in found["org/tiny"]["why_not"], found
        assert not found["org/begun"]["complete"] and found["org/begun"]["bytes"] >= 8192, found
        case.run(hub, "rm", "org/begun", "-y")
        assert not (case.cache / "models--org--begun").exists()


def test_revisions_have_names(case):
    repo = tiny(refs=("main", "v1"))
    with Hub(repo) as hub:
        case.run(hub, "pull", "org/tiny@v1", "-q")
        assert list(rows(case, hub)) == ["org/tiny@v1"]
        case.run(hub, "pull", f"org/tiny@{repo.commit}", "-q")
        case.run(hub, "pull", "org/tiny", "-q")
        assert list(rows(case, hub)) == ["org/tiny"]
        for ref in ("main", "v1"):
            (case.repo("org/tiny") / "refs" / ref).unlink()
        assert list(rows(case, hub)) == [f"org/tiny@{repo.commit}"]


def test_rm_asks(case):
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", "-q")
        before = tree(case)
        case.run(hub, "rm", "org/tiny", code=2, says="-y")
        case.run(hub, "rm", "org/nothing", "-y", code=1, says=['has no "org/nothing"', "it has org/tiny"])
        case.run(hub, "rm", "org/tiny:Q4_K_M", "-y", code=1, says="has no")
        case.run(hub, "rm", "tiny", "-y", code=2, says=["the cache has org/tiny;", "your system's rm"])
        case.run(hub, "rm", "../..", "-y", code=2)
        case.run(hub, "rm", code=2, says="rm what")
        assert tree(case) == before
        out, _ = case.run(hub, "rm", "org/tiny", "-y", "--json")
        assert json.loads(out)["freed_bytes"] > 0, out
        assert tree(case) == [], tree(case)
        assert not case.repo("org/tiny").exists()


def test_rm_keeps_what_another_revision_uses(case):
    with Hub(tiny(refs=("main", "v1"))) as hub:
        old = hub.repos["org/tiny"]
        case.run(hub, "pull", "org/tiny@v1", "-q")
        new = tiny()
        new.files["config.json"] += b"\n"
        new.commit = "c" * 40
        hub.repos["org/tiny"] = new
        case.run(hub, "pull", "org/tiny", "-q")
        assert sorted(rows(case, hub)) == ["org/tiny", "org/tiny@v1"]
        case.run(hub, "rm", "org/tiny@v1", "-y")
        assert list(rows(case, hub)) == ["org/tiny"]
        assert rows(case, hub)["org/tiny"]["complete"]
        blobs = case.blobs("org/tiny")
        assert old.etag("config.json") not in blobs and new.etag("config.json") in blobs, blobs
        assert not (case.repo("org/tiny") / "snapshots" / old.commit).exists()
        assert os.listdir(case.repo("org/tiny") / "refs") == ["main"]
        case.run(hub, "run", "org/tiny", "--ids", "1 2 3", "-n", "2", "-q", HF_HUB_OFFLINE="1")


def test_rm_one_file(case):
    with Hub(ggufs()) as hub:
        for quant in ("Q4_K_M", "Q2_K", "BF16"):
            case.run(hub, "pull", f"org/tiny-GGUF:{quant}", "-q")
        n = len(case.blobs("org/tiny-GGUF"))
        case.run(hub, "rm", "org/tiny-GGUF:bf16", "-y")
        assert sorted(rows(case, hub)) == ["org/tiny-GGUF:Q2_K", "org/tiny-GGUF:Q4_K_M"]
        assert len(case.blobs("org/tiny-GGUF")) == n - 2
        case.run(hub, "rm", "org/tiny-GGUF:Q2_K", "-y")
        case.run(hub, "inspect", "org/tiny-GGUF:Q4_K_M", HF_HUB_OFFLINE="1")
        case.run(hub, "rm", "org/tiny-GGUF:Q4_K_M", "-y")
        assert not case.repo("org/tiny-GGUF").exists()


def test_rm_leaves_other_folders_alone(case):
    """A link in a repository that leads out of it is deleted, and not what it leads to."""
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", "-q")
        outside = case.folder / "outside"
        outside.mkdir()
        (outside / "precious").write_bytes(b"x")
        (case.repo("org/tiny") / "snapshots" / "link").symlink_to(outside)
        case.run(hub, "rm", "org/tiny", "-y")
        assert (outside / "precious").read_bytes() == b"x" and not case.repo("org/tiny").exists()


def test_rm_refuses_what_is_in_use(case):
    with Hub(tiny()) as hub:
        case.run(hub, "pull", "org/tiny", "-q")
        (lock,) = [next((case.cache / ".locks" / "models--org--tiny").iterdir())]
        with open(lock, "r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            case.run(hub, "rm", "org/tiny", "-y", code=1, says="being fetched by another process")
        # A server that has it, as its file in whimbrel's cache says.
        own = case.folder / "own" / "running"
        own.mkdir(parents=True)
        snapshot = next(case.repo("org/tiny").glob("snapshots/*")).resolve()
        about = {"pid": os.getpid(), "started": 1, "port": 9, "tls": False, "needs_key": False, "device_bytes": 0,
                 "machine": os.uname().nodename, "url": "http://127.0.0.1:9", "host": "127.0.0.1", "model": "m",
                 "path": str(snapshot), "device": ""}
        with open(own / "1.json", "w") as server:
            json.dump(about, server)
            server.flush()
            fcntl.flock(server, fcntl.LOCK_EX)
            case.run(hub, "rm", "org/tiny", "-y", code=1, says=["in use by the server at http://127.0.0.1:9"],
                     WHIMBREL_CACHE=str(case.folder / "own"))
            assert rows(case, hub)["org/tiny"]["served"]
        case.run(hub, "rm", "org/tiny", "-y", WHIMBREL_CACHE=str(case.folder / "own"))


def test_short_names(case):
    """A short name is said to be what it is before anything comes, and the same table leads list and rm to it."""
    data = dict(ggufs().files)
    with Hub(Repo("Qwen/Qwen3-4B-GGUF", {"Qwen3-4B-Q4_K_M.gguf": data["tiny-Q4_K_M.gguf"]})) as hub:
        _, err = case.run(hub, "pull", "qwen3:4b")
        said = err.index("qwen3:4b is Qwen/Qwen3-4B-GGUF:Q4_K_M")
        assert said < err.index("Qwen/Qwen3-4B-GGUF at ") < err.index("fetch Qwen/Qwen3-4B-GGUF"), err
        _, err = case.run(hub, "run", "qwen3:4b", "--ids", "1 2", "-n", "2", "-q")
        assert err == "", err
        address = "https://huggingface.co/Qwen/Qwen3-4B-GGUF/blob/main/Qwen3-4B-Q4_K_M.gguf"
        case.run(hub, "inspect", address, HF_HUB_OFFLINE="1")
        assert rows(case, hub)["Qwen/Qwen3-4B-GGUF:Q4_K_M"]["short_name"] == "qwen3:4b"
        case.run(hub, "rm", "qwen3:4b", "-y")
        assert not case.repo("Qwen/Qwen3-4B-GGUF").exists()
