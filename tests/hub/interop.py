#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One cache, two tools: what Hugging Face's own library wrote whimbrel reads, and the other way round. Run by hand with
a Python that has huggingface_hub: tests/hub/interop.py (make test does not need it)."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from fakehub import Handler, Hub
from models import ggufs, large, tiny
from run import WHIMBREL

CODE = """
import os, sys, huggingface_hub
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
print("huggingface_hub", huggingface_hub.__version__)
"""


def library(env, code):
    done = subprocess.run([sys.executable, "-c", CODE + code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def whimbrel(env, *args):
    done = subprocess.run([WHIMBREL, *args], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def main():
    usual = Handler.do_GET

    def with_tree(self):  # the library lists files by another route
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/?]+)(\?.*)?", self.path)
        if not found:
            return usual(self)
        repo = self.server.hub.repos[found[1]]
        entries = []
        for entry in repo.listing()["siblings"]:
            row = {"type": "file", "path": entry["rfilename"], "size": entry["size"], "oid": entry["blobId"]}
            if "lfs" in entry:
                row["lfs"] = {"oid": entry["lfs"]["sha256"], "size": entry["size"], "pointerSize": 134}
            entries.append(row)
        self.answer(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    Handler.do_GET = with_tree
    with tempfile.TemporaryDirectory() as folder, Hub(tiny(), ggufs(), large()) as hub:
        base = {k: v for k, v in os.environ.items() if not k.startswith("HF_")} | {"HF_ENDPOINT": hub.url, "no_proxy": "*",
                                                                                  "HF_HUB_DISABLE_TELEMETRY": "1"}
        theirs, ours, mixed = (base | {"HF_HOME": f"{folder}/{n}"} for n in ("theirs", "ours", "mixed"))
        ids = ("--ids", "1 2 3", "-n", "4", "-q")
        # Theirs, read by us.
        print(library(theirs, "print(snapshot_download('org/tiny'))").strip())
        off = theirs | {"HF_HUB_OFFLINE": "1"}
        first = whimbrel(off, "run", "org/tiny", *ids)
        n = hub.sent
        assert whimbrel(theirs, "pull", "org/tiny", "-q").endswith(hub.repos["org/tiny"].commit)
        assert hub.sent == n, "their blobs are taken as they are"
        # Ours, read by them.
        assert whimbrel(ours, "run", "org/tiny", *ids) == first
        path = whimbrel(ours, "pull", "org/tiny-GGUF:BF16", "-q")
        off = ours | {"HF_HUB_OFFLINE": "1"}
        assert library(off, "print(snapshot_download('org/tiny'))").split()[-1].endswith(hub.repos["org/tiny"].commit)
        got = library(off, "print(hf_hub_download('org/tiny-GGUF', 'BF16/tiny-BF16-00001-of-00002.gguf'))").split()[-1]
        assert os.path.samefile(got, path), (got, path)
        n = hub.sent
        library(ours, "snapshot_download('org/tiny', allow_patterns=['*.safetensors', '*.json'])")
        assert hub.sent == n, "our blobs are taken as they are"
        print(library(off, "info = scan_cache_dir()\n"
                           "print(len(info.repos), 'repos', info.warnings)\nassert not info.warnings and len(info.repos) == 2").strip())
        # Both at once, on one large file.
        n = hub.sent
        both = [subprocess.Popen([WHIMBREL, "pull", "org/large", "-q"], env=mixed, stdout=subprocess.PIPE),
                subprocess.Popen([sys.executable, "-c", CODE + "snapshot_download('org/large')"], env=mixed,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)]
        assert [p.wait(300) for p in both] == [0, 0]
        size = len(hub.repos["org/large"].files["model.safetensors"])
        print(f"both at once fetched {(hub.sent - n) / size:.2f} of the file")
        whimbrel(mixed, "pull", "org/large", "--verify", "-q")
    print("ok")


main()
