# SPDX-License-Identifier: Apache-2.0
"""Repositories for the tests."""
import functools
import pathlib
import random

from fakehub import Repo

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
MIB = 1 << 20


def tiny(name="org/tiny", **kwargs):
    """A model that runs, in three shards, with things beside it that nobody needs."""
    files = {p.name: p.read_bytes() for p in sorted((DATA / "llama-f32").iterdir()) if not p.name.startswith(("golden", "hidden"))}
    files |= {"tokenizer.json": b"{}", "README.md": b"# tiny\n", "pytorch_model.bin": b"pickle" * 999,
              "onnx/model.onnx": b"o" * 5000, "empty.txt": b"", ".gitattributes": b"*.bin filter=lfs\n"}
    return Repo(name, files, **kwargs)


def gguf_bytes():
    return (DATA / "llama-mixed-gguf" / "model.gguf").read_bytes()


def ggufs(name="org/tiny-GGUF"):
    """Several quantisations; only one is a model that runs."""
    files = {f"tiny-{q}.gguf": q.encode() * 100 for q in ("Q2_K", "Q8_0", "UD-Q4_K_XL", "Q4_K_XL", "IQ4_XS")}
    files |= {"tiny-Q4_K_M.gguf": gguf_bytes(), "mmproj-F16.gguf": b"eyes", "README.md": b"x",
              "BF16/tiny-BF16-00001-of-00002.gguf": b"one", "BF16/tiny-BF16-00002-of-00002.gguf": b"two"}
    return Repo(name, files)


@functools.lru_cache
def random_bytes(n):
    return random.Random(n).randbytes(n)


def large(n=72 * MIB, name="org/large"):
    """A file of more than two pieces; no two mebibytes of it are alike."""
    return Repo(name, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": random_bytes(n)})
