#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Building and installing on machines that lack something: old compilers, missing packages, no rights, odd folders."""
import os
import pty
import shutil
import subprocess
import sys

from first import NOBODY, PROGRAM, ROOT, Box, as_nobody, environment, have_root, main, run

SETUP = ROOT + "/tools/setup"
LEVEL = {"aarch64": ("bf16", "-march=*+bf16*", "neon dotprod i8mm"),
         "x86_64": ("amx", "-mamx*", "sse2 avx2 avx512 avx512vnni avx512bf16")}[os.uname().machine]


def script(box, name, text, folder="."):
    path = os.path.join(box.folder(folder), name)
    with open(path, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def tools_env(**more):
    return environment(CCACHE_DIR=os.environ.get("CCACHE_DIR", ""), **more)


# --- compilers ----------------------------------------------------------------------------------------------

def old_compilers(r):
    top, flag, rest = LEVEL
    with Box() as box:
        cc = script(box, "cc", f'for a; do case $a in {flag}) echo "unknown flag" >&2; exit 1;; esac; done\nexec gcc "$@"\n')
        folder = box.path + "/out"
        levels = f"{folder}/obj/src/backends/cpu/levels.o"
        code, text = run(["make", "-f", "mk/build.mk", f"CC={cc}", f"B={folder}", levels], tools_env())
        r.equal("a level that cannot be made: builds", code, 0)
        r.check("a level that cannot be made: said", f"cannot make the CPU levels {top}: left out" in text, text)
        _, symbols = run(["nm", levels])
        r.check("the others are in", all(f"whim_cpu_kernels_{x}" in symbols for x in rest.split()), symbols)
        r.check("it is not", f"whim_cpu_kernels_{top}\n" not in symbols, symbols)
        _, text = run(["make", "-n", "-f", "mk/build.mk", f"CC={cc}", f"B={folder}", "library"], tools_env())
        r.check("its file is left out", f"kernels_{top}.c" not in text and "levels.c" in text, text[-500:])
        nine = script(box, "nine", 'case "$*" in *-dump*) echo 9.4.0;; *) echo "9 __clang__";; esac\n')
        code, text = run(["make", "-f", "mk/build.mk", f"CC={nine}"], tools_env())
        r.check("gcc 9 is refused by its version", code == 2 and "gcc 9.4.0" in text and "gcc 10" in text, text)
        code, text = run(["make", "-f", "mk/build.mk", "CC=no-such-gcc"], tools_env())
        r.check("no compiler at all", code == 2 and "no-such-gcc" in text and "make setup" in text, text)
        archive = ["make", "-n", "-f", "mk/build.mk", "STATIC=1", "DIST=1", "CUDA=0", f"B={folder}", "program"]
        bare = script(box, "bare", 'exec gcc -nostdinc "$@"\n')
        code, text = run([*archive, f"CC={bare}"], tools_env())
        r.check("no archive without TLS and the hub", code == 2 and "needs OpenSSL and the headers of curl" in text
                and "tools/setup --for-dist" in text, text[-500:])


# --- packages -----------------------------------------------------------------------------------------------

def missing_packages(r):
    """With a compiler that finds no library, everything is missing."""
    with Box() as box:
        command = [SETUP, "--for-use", "--no-model"]
        none = environment(CC="false")
        if have_root():
            shutil.copytree(ROOT + "/tools", box.path + "/tree/tools")
            sudo = script(box, "sudo", f'echo called >>{box.path}/tree/called\n', "bin")
            os.chown(box.folder("tree"), NOBODY, NOBODY)
            env = {**none, "PATH": os.path.dirname(sudo) + ":" + none["PATH"]}
            command[0] = box.path + "/tree/tools/setup"
            code, text = run(as_nobody(command), env)
            called = os.path.exists(box.path + "/tree/called")
        else:
            code, text = run(command, none)
            called = False
        lines = [x for x in text.splitlines() if "apt-get install -y" in x]
        r.equal("no terminal: status", code, 1)
        r.check("no terminal: one line with all of them", len(lines) == 1 and all(
            x in lines[0] for x in ("libc6-dev", "libjansson-dev", "libpcre2-dev", "libhwloc-dev", "libssl-dev")), text)
        r.check("no terminal: sudo is not asked", not called)
        if have_root():
            bare = box.folder("bare")  # all commands but one
            for place in reversed(none["PATH"].split(":")):
                for name in os.listdir(place) if os.path.isdir(place) else ():
                    if name != "dpkg-shlibdeps" and not os.path.lexists(f"{bare}/{name}"):
                        os.symlink(f"{place}/{name}", f"{bare}/{name}")
            code, text = run(as_nobody([command[0], "--for-dist", os.uname().machine]), {**none, "PATH": bare})
            r.check("archives need what makes packages", code == 1 and " dpkg-dev" in text, text)
            said = on_terminal(as_nobody(command), env)
            r.check("a terminal: said before it runs", "running: sudo apt-get" in said and "install -y" in said, said)
            r.check("a terminal: it runs", os.path.exists(box.path + "/tree/called"), said)
            r.check("a terminal: what is missing then", "installed, but not found" in said, said)


def on_terminal(command, env):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    data = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(fd)
    os.waitpid(pid, 0)
    return data.decode("utf-8", "replace")


# --- folders ------------------------------------------------------------------------------------------------

def odd_folder(r):
    """A blank in the path, no .git: what is built stays built, and the program has a version."""
    with Box() as box:
        tree = box.path + "/a b"
        arch = os.uname().machine
        shutil.copytree(ROOT, tree, symlinks=True, ignore=lambda d, names: [
            x for x in names if (d == ROOT and x == ".git") or x.endswith(".new") or (d == ROOT + "/build" and x not in (arch, arch + "-levels", "whimbrel"))])
        code, text = run(["make"], tools_env(), cwd=tree, limit=600)
        r.check("make", code == 0 and "built build/" in text, text[-800:])
        with open(f"{tree}/build/{arch}/gen/commit.inc", encoding="ascii") as f:
            r.check("no commit", '"unknown"' in f.read())
        code, text = run([tree + "/build/whimbrel", "--version"])
        r.check("a version", code == 0 and text.startswith("whimbrel "), text)
        if have_root():
            os.chown(tree, NOBODY, NOBODY)
            code, text = run(as_nobody(["make"]), tools_env(), cwd=tree)
            r.check("root's build", code == 2 and f"sudo chown -R {NOBODY} build" in text, text)


def without_home(r):
    """The test runner itself."""
    env = {"PATH": environment()["PATH"]}
    done = subprocess.run(["tests/run-tests", "nonesuch"], cwd=ROOT, env=env, capture_output=True, check=False)
    r.check("tests/run-tests without HOME", done.returncode == 2 and b"no stage" in done.stderr, done.stderr)


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        print("skip: nothing is built")
        sys.exit(77)
    sys.exit(main([old_compilers, missing_packages, odd_folder, without_home]))
