# SPDX-License-Identifier: Apache-2.0
"""Two hosts: network namespaces with a cable between them, which can be cut; or more, with cables to a switch in the near
one. The test's own thread is on the near one, where the leader listens; agents run on the far ones. Nothing has a name,
so nothing is left behind."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import time

from serving import LOGS, PROGRAM

NEAR = "10.77.0.1"
SECRET = {"WHIMBREL_JOIN_SECRET": "a secret of these tests"}
MODULE = pathlib.Path(PROGRAM).resolve().parent / "whimbrel-ucx.so"
# UCX finds interfaces in /sys, which shows those of whoever mounted it.
ON_HOST = ("unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
NEW_NETWORK = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


class NoHosts(Exception):
    """Why there can be none here."""


def address(node):
    return f"10.77.0.{1 + node}"


def network():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(fd):
    if libc.setns(fd, NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def new_network():
    if libc.unshare(NEW_NETWORK) != 0:
        raise NoHosts(f"no network namespaces can be made here ({os.strerror(ctypes.get_errno())}); root may, "
                      "and who runs it under `unshare -Urn`")
    return network()


class Hosts:
    def __init__(self, n_far=1):
        if not MODULE.exists():
            raise NoHosts("built without UCX (libucx-dev)")
        if shutil.which("ip") is None:
            raise NoHosts("there is no ip; Debian's package is iproute2")
        home = network()
        self.networks = [home]
        self.fars = range(1, 1 + n_far)
        try:
            for _ in range(n_far + 1):  # the far ones, and the near one, where it stays
                self.networks.append(new_network())
            self._wire()
        except Exception:
            self.close()
            raise

    def _wire(self):
        """The near end is "near", every other one "far"."""
        switched = len(self.fars) > 1
        if switched:
            self.ip("link", "add", "near", "type", "bridge")
        for node in self.fars:
            end = f"port{node}" if switched else "near"
            far = f"/proc/self/fd/{self.networks[node]}"
            self.ip("link", "add", end, "type", "veth", "peer", "name", "far", "netns", far)
            if switched:
                self.ip("link", "set", end, "master", "near", "up")
        for node in (0, *self.fars):
            device = "far" if node else "near"
            with self.on_far(node) if node else contextlib.nullcontext():
                self.ip("link", "set", "lo", "up")
                self.ip("address", "add", f"{address(node)}/24", "dev", device)
                self.ip("link", "set", device, "up")
        for node in (0, *self.fars):
            self._await(node)
        for node in self.fars:
            self._try(node)
        done = subprocess.run([*ON_HOST, "test", "-e", "/sys/class/net/near"], capture_output=True, text=True)
        if done.returncode != 0:
            raise NoHosts(f"/sys of a network namespace cannot be mounted here: {done.stderr.strip()}")

    def _await(self, node):
        """The kernel tells somewhat later that a cable is in, and UCX takes no interface before."""
        device = "far" if node else "near"
        with self.on_far(node) if node else contextlib.nullcontext():
            try:
                until(lambda: "state UP" in self.ip("-o", "link", "show", device))
            except AssertionError as late:
                raise NoHosts(f"the cable's end {device} does not come up here") from late

    def _try(self, node):
        """Whether anything goes over it."""
        with socket.create_server((NEAR, 0)) as here, self.on_far(node):
            try:
                socket.create_connection(here.getsockname(), 60).close()
            except OSError as why:
                raise NoHosts(f"no connection goes over a veth pair here: {why}") from why

    def ip(self, *what):
        done = subprocess.run(["ip", *what], capture_output=True, text=True, pass_fds=self.networks)
        if done.returncode != 0:
            raise NoHosts(f"`ip {' '.join(what)}` is not possible here: {done.stderr.strip()}")
        return done.stdout

    @contextlib.contextmanager
    def on_far(self, node=1):
        enter(self.networks[node])
        try:
            yield
        finally:
            enter(self.networks[-1])

    def cut(self):
        with self.on_far():
            self.ip("link", "set", "far", "down")

    def mend(self):
        with self.on_far():
            self.ip("link", "set", "far", "up")

    def n_byte(self):
        """What has gone over the cable, both ways."""
        for line in pathlib.Path("/proc/thread-self/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == "near":
                fields = counts.split()
                return int(fields[0]) + int(fields[8])
        raise AssertionError("the cable is not there")

    def close(self):
        if len(self.networks) > 1:  # who may make none may enter none
            enter(self.networks[0])
        for fd in self.networks:
            os.close(fd)


def words(node, n_node=2):
    """What a node is told besides its model and what all have alike."""
    return ("--nodes", str(n_node), "--node-rank", str(node), "--join", f"{NEAR}:8090", "--join-device",
            "far" if node else "near")


class Agent:
    def __init__(self, hosts, name, *args, node=1):
        self.log_path = LOGS / f"{name}.log"
        LOGS.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "wb") as log, hosts.on_far(node):
            self.process = subprocess.Popen([*ON_HOST, PROGRAM, "serve", *args, *words(node, 1 + len(hosts.fars))],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **SECRET})

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


@contextlib.contextmanager
def running(it):
    """A server or an agent, which is gone behind it however the test ends."""
    try:
        yield it
    finally:
        it.process.kill()
        it.process.wait()


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)
    return found


def gone(pids):
    return not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def word_of(pid):
    """What a process of the program is: "rank" or "bridge"."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1].decode()
    except (OSError, IndexError):
        return None  # it ended meanwhile, or has not begun
