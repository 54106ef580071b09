#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""whimbrel pull against a hub on loopback (fakehub.py) that drops, lies, refuses and stalls.
tests/hub/run.py [NAME...]: the tests whose names hold one of the words. $WHIMBREL is the program."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True
WHIMBREL = os.environ.get("WHIMBREL", str(ROOT.parent.parent / "build" / "whimbrel"))
LIMIT = 120  # seconds for one run of the program


class Skip(Exception):
    pass


class Case:
    """What one test has of its own: a folder, a cache in it, and the program."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.cache = self.folder / "hub"

    def env(self, hub, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("HF_", "HUGGING", "CURL_", "SSL_", "REQUESTS_", "TRANSFORMERS_"))
               and not k.lower().endswith("_proxy")}
        env |= {"HF_HUB_CACHE": str(self.cache), "HF_HOME": str(self.folder), "no_proxy": "*",
                "HF_ENDPOINT": hub if isinstance(hub, str) else hub.url}
        env |= more
        return {k: v for k, v in env.items() if v is not None}

    def start(self, hub, *args, wrap=(), **env):
        return subprocess.Popen([*wrap, WHIMBREL, *args], env=self.env(hub, **env), cwd=self.folder, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, hub, *args, code=0, says=(), wrap=(), **env):
        """Run to the end; sets out and err, and checks the exit status and what standard error holds."""
        child = self.start(hub, *args, wrap=wrap, **env)
        return self.wait(child, code, says)

    def wait(self, child, code=0, says=()):
        try:
            out, err = child.communicate(timeout=LIMIT)
        finally:
            child.kill()
        assert child.returncode == code, f"exit status {child.returncode}, expected {code}: {err[-600:]}"
        for text in [says] if isinstance(says, str) else says:
            assert text in err, f"standard error lacks {text!r}: {err[-600:]}"
        return out, err

    def repo(self, name):
        return self.cache / ("models--" + name.replace("/", "--"))

    def blobs(self, name):
        return sorted(p.name for p in (self.repo(name) / "blobs").iterdir())


def collect():
    import test_broken
    import test_memory
    import test_pull
    import test_shelf
    import test_system
    found = []
    for module in (test_pull, test_broken, test_memory, test_shelf, test_system):
        found += [(f"{module.__name__[5:]}/{k[5:]}", v) for k, v in vars(module).items() if k.startswith("test_")]
    return found


def run_one(test):
    name, call = test
    folder = tempfile.mkdtemp(prefix="whim-hub-")
    begin = time.monotonic()
    try:
        call(Case(folder))
        return name, "ok", f"{time.monotonic() - begin:.1f} s"
    except Skip as why:
        return name, "skip", str(why)
    except Exception as why:
        place = traceback.extract_tb(why.__traceback__)
        mine = [f for f in place if pathlib.Path(f.filename).name.startswith("test_")] or place
        return name, "FAIL", f"{pathlib.Path(mine[-1].filename).name}:{mine[-1].lineno}: {type(why).__name__}: {why}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    words = sys.argv[1:]
    tests = [t for t in collect() if not words or any(w in t[0] for w in words)]
    count = {"ok": 0, "FAIL": 0, "skip": 0}
    # Most of them wait for each other's clocks; a few at once do no harm.
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for name, word, why in pool.map(run_one, tests):
            count[word] += 1
            print(f"{word} {name}{': ' if why else ''}{why}", flush=True)
    print(f"RESULT passed={count['ok']} failed={count['FAIL']} skipped={count['skip']}")
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]
    sys.exit(main())
