# SPDX-License-Identifier: Apache-2.0
"""A pull when one allocation fails, each in turn: it says so, or is whole; the next one is."""
import pathlib
import shutil
import subprocess

from fakehub import Hub
from models import tiny
from run import LIMIT, Skip
from test_pull import NEEDED, check_layout


def preload(case):
    source, target = pathlib.Path(__file__).with_name("nth_alloc.c"), case.folder / "nth_alloc.so"
    if shutil.which("cc") is None:
        raise Skip("there is no C compiler")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
    return str(target)


def test_failing_allocations(case):
    with Hub(tiny()) as hub:
        repo, shim, counted = hub.repos["org/tiny"], preload(case), case.folder / "count"
        case.run(hub, "pull", "org/tiny", LD_PRELOAD=shim, FAIL_COUNT=str(counted))
        if not counted.exists():
            raise Skip("the program is static: nothing can be put before its allocator")
        n_alloc, n, refused = int(counted.read_text()), 1, 0
        assert n_alloc > 50, n_alloc
        while n <= n_alloc:
            shutil.rmtree(case.cache, ignore_errors=True)
            child = case.start(hub, "pull", "org/tiny", LD_PRELOAD=shim, FAIL_NTH=str(n))
            _, err = child.communicate(timeout=LIMIT)
            assert child.returncode in (0, 1), (n, child.returncode, err[-600:])
            if child.returncode == 0:
                check_layout(case, repo, NEEDED)
            else:
                refused += 1
                assert "memory" in err, (n, err[-600:])
                case.run(hub, "pull", "org/tiny")
                check_layout(case, repo, NEEDED)
            n += 1
        assert refused > 3, (refused, n_alloc)
