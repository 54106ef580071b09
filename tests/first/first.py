# SPDX-License-Identifier: Apache-2.0
"""What the tests of the first five minutes share: clean environments, another user, namespaces, a server."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "server"))
# pylint: disable=wrong-import-position,unused-import
from rawhttp import LIMIT, MODEL, PROGRAM, ROOT, SLOW, Report, call, free_port, get, post  # noqa: E402

NOBODY = 65534
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMALL = ("--ctx", "512", "--kv-mem", "32M", "--max-seqs", "4")
QUESTION = {"prompt": "The sea is", "max_tokens": 6, "temperature": 0}


def environment(**more):
    """Nothing of the environment that the tests run in, but for what programs cannot do without; nothing is kept in the
    user's own folder over a restart."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": os.environ.get("HOME", "/"), "WHIMBREL_KV_DIR": "",
            **more}


def have_root():
    return os.geteuid() == 0


def as_nobody(command):
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


def run(command, env=None, limit=LIMIT, cwd=ROOT):
    """(status, what it said)"""
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment() if env is None else env, timeout=limit,
                          cwd=cwd, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def try_run(command):
    """Whether this works here at all."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=LIMIT).returncode == 0
    except OSError:
        return False


class Box:
    """A folder that every user can enter, with a copy of the program; gone at the end."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="whimbrel-first-")
        os.chmod(self.path, 0o755)
        self.program = shutil.copy(PROGRAM, self.path)

    def folder(self, name, mode=0o755, owner=None):
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        if owner is not None and have_root():
            os.chown(path, owner, owner)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Started:
    """A command that ends in a server, in a process group of its own; what it says is in `text()`."""

    def __init__(self, command, env=None, cwd=ROOT):
        self.lines = []
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=environment() if env is None else env, cwd=cwd,
                                        start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def text(self):
        return "\n".join(self.lines)

    def wait_text(self, part, limit=LIMIT):
        """True when this was said; false when the process ended, or the time, without."""
        end = time.monotonic() + limit
        while part not in self.text():
            if self.process.poll() is not None:
                self.reader.join(5)
                return part in self.text()
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def signal_all(self, sig):
        """As a terminal does it."""
        os.killpg(self.process.pid, sig)

    def end(self, limit=LIMIT):
        """The exit status, or None."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.signal_all(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join(5)


def children(pid):
    """Processes whose parent this is."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                    if int(f.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(name))
            except OSError:
                pass
    return found


def main(tests):
    """Run those with an argument in their name; the exit status."""
    report = Report()
    for test in tests:
        if len(sys.argv) < 2 or any(word in test.__name__ for word in sys.argv[1:]):
            report.guard(test.__name__, test, report)
    return report.end()
