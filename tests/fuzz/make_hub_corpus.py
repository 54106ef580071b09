#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_hub_listing and fuzz_hub_ref to corpus/ beside this script."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus"
SHA1, SHA256 = "0123456789abcdef0123456789abcdef01234567", "0123456789abcdef" * 4


def listing(*names, **more):
    files = [{"rfilename": n, "size": 7, "blobId": SHA1} for n in names]
    for entry in files:
        if entry["rfilename"].endswith((".safetensors", ".gguf")):
            entry["lfs"] = {"sha256": SHA256, "size": 1 << 33, "pointerSize": 134}
    return json.dumps({"sha": SHA1, "siblings": files} | more).encode()


whole = listing("config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin")
LISTINGS = {
    "folder": b"\n" + whole,
    "shards": b"\n" + listing("config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                              "model-00002-of-00002.safetensors"),
    "gguf": b"\n" + listing("a-Q4_K_M.gguf", "a-Q8_0.gguf", "mmproj-a.gguf"),
    "pick": b"q8_0\n" + listing("a-Q4_K_M.gguf", "Q8_0/a-Q8_0-00001-of-00002.gguf", "Q8_0/a-Q8_0-00002-of-00002.gguf"),
    "pick_file": b"notes.txt\n" + listing("notes.txt"),
    "pick_none": b"Q3_K\n" + listing("a-Q4_K_M.gguf"),
    "part_missing": b"\n" + listing("a-00001-of-00003.gguf", "a-99999-of-99999.gguf"),
    "hostile": b"\n" + listing("../x.gguf", "/etc/x", "a//b", "a\\b", "C:x", "x\n", "a/./b", "\x1b[2J", "config.json", "config.json"),
    "cut": b"\n" + whole[:len(whole) // 2],
    "sizes": b"\n" + whole.replace(b"7", b"-7").replace(b"8589934592", b"1e300"),
    "sha": b"\n" + whole.replace(SHA1.encode(), b"main"),
    "kinds": b'\n{"sha": "%s", "siblings": [{"rfilename": "a", "lfs": null, "size": null}, 7]}' % SHA1.encode(),
    "empty": b"\n" + listing(),
}
REFS = {
    "plain": "org/name", "rev": "Org-1/na_me.x@refs/pr/12", "pick": "a/b:Q4_K_M", "all": "a/b@v1:dir/x.gguf",
    "commit": f"a/b@{SHA1}", "dots": "a/b@x..y", "up": "a/b:../x", "path": "./a/b", "three": "a/b/c", "dash": "a/b--c",
    "file": "dir/model-00001-of-00002.safetensors", "drive": "C:x", "control": "a/\x1bb", "c1": "a/\u009bb",
    "url": "https://huggingface.co/a/b/tree/refs%2Fpr%2F1/Q4_K_M?show_file_info=x.gguf#y", "hfco": "hf.co/a/b@v1:Q8_0",
    "blob": "http://www.huggingface.co/a/b/resolve/main/s/x%20y.gguf?download=true",
    "urlbad": "https://huggingface.co/a/b/blob/main/%2e%2e/%00%4.gguf",
}
for folder, seeds in (("hub_listing", LISTINGS), ("hub_ref", REFS)):
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (ROOT / folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
