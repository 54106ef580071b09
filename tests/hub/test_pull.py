# SPDX-License-Identifier: Apache-2.0
"""Pulls that go well: what is fetched, where it lies, and who finds it there."""
import json
import os
import pathlib

from fakehub import Hub, Repo
from models import MIB, gguf_bytes, ggufs, large, tiny

NEEDED = ["config.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
          "model-00003-of-00003.safetensors", "model.safetensors.index.json", "tokenizer.json"]
IDS = ("--ids", "1 2 3", "-n", "4", "-q")


def snapshot(case, repo):
    return case.repo(repo.name) / "snapshots" / repo.commit


def check_layout(case, repo, names):
    """The layout of Hugging Face's cache, to the letter."""
    root = case.repo(repo.name)
    there = sorted(str(p.relative_to(snapshot(case, repo))) for p in snapshot(case, repo).rglob("*") if not p.is_dir())
    assert there == sorted(names), there
    for name in names:
        link = os.readlink(snapshot(case, repo) / name)
        assert link == "../" * (2 + name.count("/")) + "blobs/" + repo.etag(name), (name, link)
        assert (snapshot(case, repo) / name).read_bytes() == repo.files[name], name
    assert (root / "refs" / "main").read_text() == repo.commit
    assert case.blobs(repo.name) == sorted({repo.etag(n) for n in names})


def test_layout(case):
    with Hub(tiny()) as hub:
        repo = hub.repos["org/tiny"]
        out, err = case.run(hub, "pull", "org/tiny", HF_TOKEN="hf_secret\n")
        assert out == f"{snapshot(case, repo)}\n", out
        check_layout(case, repo, NEEDED)
        assert "left out 5 files" in err and "pytorch_model.bin" in err and "pickles are never" in err, err
        assert "fetch org/tiny: " in err and "100%" in err, err
        # The token is for the hub and for nobody else.
        for role, _, path, headers in hub.requests():
            want = "Bearer hf_secret" if role == "hub" else None
            assert headers.get("Authorization") == want, (role, path)
            assert headers["User-Agent"].startswith("whimbrel/"), headers
        # Again: one look at the listing and no more.
        n = len(hub.requests())
        _, err = case.run(hub, "pull", "org/tiny")
        assert len(hub.requests()) == n + 1 and "all in the cache" in err, err
        out, err = case.run(hub, "pull", "org/tiny", "-q")
        assert err == "", err


def test_model_of_every_command(case):
    with Hub(tiny(), ggufs()) as hub:
        got, err = case.run(hub, "run", "org/tiny", *IDS)
        assert err == "", err
        n = len(hub.requests())
        assert case.run(hub, "run", "org/tiny", *IDS)[0] == got
        assert len(hub.requests()) == n, "a whole copy in the cache needs no hub"
        assert case.run(hub, "run", "org/tiny", *IDS, HF_HUB_OFFLINE="1")[0] == got
        out, _ = case.run(hub, "inspect", "org/tiny-GGUF:q4_k_m", "--json")
        assert json.loads(out)["format"] == "gguf", out
        case.run(hub, "bench", "org/tiny", "-p", "4", "-n", "2", "-r", "1", "--seconds", "0.01", "-q")


def test_draft_by_name(case):
    folder = pathlib.Path(__file__).resolve().parent.parent / "data" / "drafts" / "llama-f32-dspark"
    draft = Repo("org/tiny_dspark", {n: (folder / n).read_bytes() for n in ("config.json", "model.safetensors")})
    with Hub(tiny(), draft) as hub:
        plain, _ = case.run(hub, "run", "org/tiny", *IDS)
        got, err = case.run(hub, "run", "org/tiny", "--draft", "org/tiny_dspark", "--no-lookup", *IDS)
        assert (got, err) == (plain, ""), (got, err)
        check_layout(case, draft, ["config.json", "model.safetensors"])
        case.run(hub, "run", "org/tiny", "--draft", "org/nothing", *IDS, code=1, says=["--draft", "org/nothing"])
        case.run(hub, "run", "org/tiny", "--draft", "org/tiny", *IDS, code=1, says=["--draft", "LlamaForCausalLM"])


def test_revisions(case):
    repo = tiny(refs=("main", "refs/pr/1", "v1.0"))
    with Hub(repo) as hub:
        for rev in ("v1.0", "refs/pr/1"):
            case.run(hub, "pull", f"org/tiny@{rev}", "-q")
            assert (case.repo(repo.name) / "refs" / rev).read_text() == repo.commit
        assert not (case.repo(repo.name) / "refs" / "main").exists()
        out, _ = case.run(hub, "pull", f"org/tiny@{repo.commit}", "-q")
        assert out.strip() == str(snapshot(case, repo))
        assert sorted(os.listdir(case.repo(repo.name) / "refs")) == ["refs", "v1.0"]
        case.run(hub, "pull", "org/tiny@nope", code=1, says='no revision "nope" of org/tiny')
        case.run(hub, "run", "org/tiny", *IDS, code=1, says=['has no "org/tiny" at "main"', "HF_HUB_OFFLINE"], HF_HUB_OFFLINE="1")
        case.run(hub, "run", f"org/tiny@{repo.commit}", *IDS, HF_HUB_OFFLINE="1")


def test_new_commit(case):
    """What has not changed is not fetched again, and the old snapshot stays."""
    with Hub(tiny()) as hub:
        old = hub.repos["org/tiny"]
        case.run(hub, "pull", "org/tiny", "-q")
        new = tiny()
        new.files["config.json"] += b"\n"
        new.commit = "c" * 40
        hub.repos["org/tiny"] = new
        sent = hub.sent
        _, err = case.run(hub, "pull", "org/tiny", says="to fetch: 1, ")
        assert hub.sent - sent == len(new.files["config.json"])
        assert (case.repo("org/tiny") / "refs" / "main").read_text() == new.commit
        assert (snapshot(case, old) / "config.json").read_bytes() == old.files["config.json"]
        assert (snapshot(case, new) / "config.json").read_bytes() == new.files["config.json"]


def test_gguf_choice(case):
    with Hub(ggufs()) as hub:
        repo = hub.repos["org/tiny-GGUF"]
        out, err = case.run(hub, "pull", "org/tiny-GGUF", says=["tiny-Q4_K_M.gguf", "left out"])
        assert out.strip() == str(snapshot(case, repo) / "tiny-Q4_K_M.gguf")
        check_layout(case, repo, ["tiny-Q4_K_M.gguf"])
        out, _ = case.run(hub, "pull", "org/tiny-GGUF:bf16", "-q")
        assert out.strip().endswith("BF16/tiny-BF16-00001-of-00002.gguf"), out
        assert (snapshot(case, repo) / "BF16" / "tiny-BF16-00002-of-00002.gguf").read_bytes() == b"two"
        out, _ = case.run(hub, "pull", "org/tiny-GGUF", "--file", "tiny-Q4_K_XL.gguf", "-q")
        assert out.strip().endswith("/tiny-Q4_K_XL.gguf"), out
        case.run(hub, "pull", "org/tiny-GGUF:Q4_K_XL", code=1, says=["tiny-Q4_K_XL.gguf, tiny-UD-Q4_K_XL.gguf"])
        case.run(hub, "pull", "org/tiny-GGUF:Q4_K", code=1, says=['no file "Q4_K"', "tiny-Q2_K.gguf", "tiny-Q8_0.gguf"])
        case.run(hub, "pull", "org/tiny-GGUF:Q3_K_S@main", code=1, says="Q3_K_S")
        out, _ = case.run(hub, "pull", "org/tiny-GGUF", "--file", "README.md", "-q")
        assert pathlib.Path(out.strip()).read_bytes() == b"x"
        # Offline the choice is among what is there.
        out, _ = case.run(hub, "pull", "org/tiny-GGUF:Q4_K_M", HF_HUB_OFFLINE="1")
        assert pathlib.Path(out.strip()).read_bytes() == gguf_bytes()
        case.run(hub, "pull", "org/tiny-GGUF:Q8_0", code=1, says=["Q8_0", "HF_HUB_OFFLINE"], HF_HUB_OFFLINE="yes")


def test_pieces(case):
    with Hub(large()) as hub:
        repo = hub.repos["org/large"]
        case.run(hub, "pull", "org/large", "--connections", "4", "-q")
        check_layout(case, repo, ["config.json", "model.safetensors", "tokenizer.json"])
        ranges = sorted(h["Range"] for role, _, _, h in hub.requests("cdn"))
        assert len(ranges) == 3 and "bytes=0-33554431" in ranges, ranges
        assert hub.sent == 72 * MIB + 2, hub.sent


def test_without_ranges(case):
    with Hub(large()) as hub:
        hub.ranges = False
        case.run(hub, "pull", "org/large", "--connections", "4", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])


def test_one_connection(case):
    with Hub(large(40 * MIB)) as hub:
        case.run(hub, "pull", "org/large", "--connections", "1", "-q")
        check_layout(case, hub.repos["org/large"], ["config.json", "model.safetensors", "tokenizer.json"])


def test_mirror_without_checksums(case):
    """Where the listing has names only, the headers of each file tell the rest."""
    with Hub(tiny()) as hub:
        hub.repos["org/tiny"].has_blobs = False
        case.run(hub, "pull", "org/tiny", "-q")
        check_layout(case, hub.repos["org/tiny"], NEEDED)
        assert sum(r[1] == "HEAD" for r in hub.requests()) == len(NEEDED)


def test_odd_shards(case):
    """Shards that only the index knows."""
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "first.safetensors": b"1", "second.safetensors": b"2",
             "model.safetensors.index.json": b'{"weight_map": {"a": "first.safetensors", "b": "second.safetensors"}}'}
    with Hub(Repo("org/odd", files | {"model-00001-of-00001.safetensors": b"0"}), Repo("org/gap", {
            **files, "model-00001-of-00001.safetensors": b"0",
            "model.safetensors.index.json": b'{"weight_map": {"a": "third.safetensors"}}'})) as hub:
        case.run(hub, "pull", "org/odd", "-q")
        assert (snapshot(case, hub.repos["org/odd"]) / "second.safetensors").read_bytes() == b"2"
        case.run(hub, "pull", "org/gap", code=1, says="third.safetensors")
        assert not (case.repo("org/gap") / "refs" / "main").exists()


def test_same_content_twice(case):
    with Hub(Repo("org/twins", {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"w"})) as hub:
        case.run(hub, "pull", "org/twins", "-q")
        check_layout(case, hub.repos["org/twins"], ["config.json", "model.safetensors", "tokenizer.json"])


def test_empty_file(case):
    with Hub(Repo("org/empty", {"config.json": b"{}", "merges.txt": b"", "model.safetensors": b"w"})) as hub:
        case.run(hub, "pull", "org/empty", "-q")
        assert (snapshot(case, hub.repos["org/empty"]) / "merges.txt").read_bytes() == b""


def test_cache_of_others(case):
    """A cache as Hugging Face's library writes it: branches, a partial snapshot, blobs that are links to elsewhere."""
    repo = tiny()
    root = case.repo(repo.name)
    for name in NEEDED:
        blob, link = root / "blobs" / repo.etag(name), snapshot(case, repo) / name
        blob.parent.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        if name == "tokenizer.json":
            shared = case.cache / "shared" / "x"
            shared.parent.mkdir()
            shared.write_bytes(repo.files[name])
            blob.symlink_to(os.path.relpath(shared, blob.parent))
        else:
            blob.write_bytes(repo.files[name])
        link.symlink_to(f"../../blobs/{repo.etag(name)}")
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(repo.commit)
    case.run("http://127.0.0.1:9", "run", "org/tiny", *IDS)
    (root / "blobs" / repo.etag(NEEDED[2])).unlink()
    case.run("http://127.0.0.1:9", "run", "org/tiny", *IDS, code=1, says=[NEEDED[2] + " is missing"], HF_HUB_OFFLINE="1")
    with Hub(repo) as hub:
        case.run(hub, "run", "org/tiny", *IDS)
        assert hub.sent == len(repo.files[NEEDED[2]])


def test_verify(case):
    with Hub(tiny()) as hub:
        repo = hub.repos["org/tiny"]
        case.run(hub, "pull", "org/tiny", "-q")
        blob = case.repo(repo.name) / "blobs" / repo.etag(NEEDED[1])
        blob.write_bytes(b"x" * len(repo.files[NEEDED[1]]))
        case.run(hub, "pull", "org/tiny", "-q")
        assert blob.read_bytes()[:3] == b"xxx"
        case.run(hub, "pull", "org/tiny", "--verify", says=f"{NEEDED[1]} in the cache is damaged")
        check_layout(case, repo, NEEDED)
        blob.write_bytes(b"short")  # a wrong size is seen without being asked
        case.run(hub, "pull", "org/tiny", "-q")
        check_layout(case, repo, NEEDED)


def test_places(case):
    """The variables, in the order in which they count."""
    with Hub(tiny()) as hub:
        for n, (env, where) in enumerate([
                ({"HF_HUB_CACHE": str(case.folder / "a")}, "a"),
                ({"HF_HUB_CACHE": None, "HF_HOME": str(case.folder / "b")}, "b/hub"),
                ({"HF_HUB_CACHE": None, "HF_HOME": "~/c", "HOME": str(case.folder)}, "c/hub"),
                ({"HF_HUB_CACHE": None, "HF_HOME": None, "XDG_CACHE_HOME": str(case.folder / "d")}, "d/huggingface/hub"),
                ({"HF_HUB_CACHE": None, "HF_HOME": None, "XDG_CACHE_HOME": None, "HOME": str(case.folder / "e")},
                 "e/.cache/huggingface/hub")]):
            out, _ = case.run(hub, "pull", "org/tiny", "-q", **env)
            assert out.startswith(f"{case.folder / where}/models--org--tiny/snapshots/"), (n, out)
        (case.folder / "tok").write_text("  hf_file \n")
        (case.folder / "token").write_text("hf_home")
        for env, token in (({}, "hf_home"), ({"HF_TOKEN_PATH": str(case.folder / "tok")}, "hf_file"),
                           ({"HF_TOKEN": "hf_env"}, "hf_env")):
            case.run(hub, "pull", "org/tiny", "-q", **env)
            assert hub.requests("hub")[-1][3]["Authorization"] == "Bearer " + token
        case.run(hub, "pull", "org/tiny", code=1, says="token", HF_TOKEN="two words")
