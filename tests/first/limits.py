#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small, old and strict machines: control groups, refused calls, large pages, CPUs without newer instructions, other
locales. Nothing crashes, and the tokens are the same."""
import glob
import json
import os
import platform
import re
import sys

from first import (LIMIT, MODEL, PROGRAM, QUESTION, ROOT, SMALL, Box, Started, environment, have_root, main, post, run, try_run)

TINY = ROOT + "/tests/data/golden/llama-f32"
GGUF = ROOT + "/tests/data/golden/qwen3-mixed-gguf"
HARD_TEXT = "It's 3.14\u00b2 km to Z\u00fcrich\u2026  \n\n\t\u4f60\u597d, \U0001f426 don't   stop!!! 1234567"


def skip_without_model(r, name):
    if not os.path.exists(MODEL):
        r.skip(name, "the default model is not there; make model")
        return True
    return False


def port_of(server):
    return int(re.search(r"ready: http://127\.0\.0\.1:(\d+)", server.text()).group(1))


def answers(port):
    ids = post(port, "/tokenize", {"prompt": HARD_TEXT}).json()["tokens"]
    return ids, post(port, "/v1/completions", QUESTION).json()["choices"][0]["text"]


# --- refused calls ------------------------------------------------------------------------------------------

def refused(r):
    if skip_without_model(r, "refused"):
        return
    serve = [PROGRAM, "serve", MODEL, "--port", "0", *SMALL]
    wrap = [sys.executable, ROOT + "/tests/first/refuse.py", "jit,affinity,huge"]
    if not try_run([*wrap, "true"]):
        r.skip("refused", "there is no seccomp here")
        return
    seen = []
    for command in (serve, wrap + serve):
        with Started(command) as s:
            r.check("ready", s.wait_text("  stop      Ctrl-C"), s.text())
            seen.append((answers(port_of(s)), s.text()))
    r.equal("the same tokens and text", seen[1][0], seen[0][0])
    for event, word in (("refused", "sched_setaffinity madvise"), ("jit", "PCRE2")):
        lines = [x for x in seen[1][1].splitlines() if f" event={event} " in x]
        r.check(f"one line about {event}", len(lines) == 1 and word in lines[0], lines)
        r.check(f"none without the refusal: {event}", f" event={event} " not in seen[0][1], seen[0][1])


# --- control groups -----------------------------------------------------------------------------------------

class Group:
    """A control group of either version with limits; `ok` is false where none can be made."""

    def __init__(self, **limits):
        self.paths, self.ok = [], True
        for name, value in limits.items():
            controller, _, field = name.partition("_")
            v1 = f"/sys/fs/cgroup/{controller}"
            top = v1 if os.path.isdir(v1) else "/sys/fs/cgroup"
            path = f"{top}/whimbrel-first-{os.getpid()}"
            field = {"memory_limit": ["memory.limit_in_bytes", "memory.max"],
                     "cpu_quota": ["cpu.cfs_quota_us", "cpu.max"]}[f"{controller}_{field}"][top != v1]
            try:
                os.makedirs(path, exist_ok=True)
                if path not in self.paths:
                    self.paths.append(path)
                with open(f"{path}/{field}", "w", encoding="ascii") as f:
                    f.write(str(value))
            except OSError:
                self.ok = False

    def command(self, command):
        enter = "".join(f"echo $$ >'{x}/cgroup.procs' && " for x in self.paths)
        return ["sh", "-c", enter + 'exec "$@"', "x", *map(str, command)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in self.paths:
            try:
                os.rmdir(path)
            except OSError:
                pass


def one_gigabyte(r):
    if skip_without_model(r, "one gigabyte"):
        return
    with Group(memory_limit=1 << 30, cpu_quota=100000) as group:
        if not group.ok:
            r.skip("one gigabyte", "no control group can be made here")
            return
        with Started(group.command([PROGRAM, "serve", MODEL, "--port", "0"])) as s:
            r.check("the default model serves", s.wait_text("  stop      Ctrl-C", LIMIT * 2), s.text())
            r.check("one thread", "1 thread, level" in s.text(), s.text())
            left = re.search(r"of ([0-9.]+) MiB available", s.text())
            r.check("the group's memory", left and float(left.group(1)) <= 1024, s.text())
            r.equal("an answer", len(answers(port_of(s))[0]) > 10, True)
        code, text = run(group.command([ROOT + "/tools/jobs"]))
        r.equal("compilers at once", (code, text.strip()), (0, "1"))


def too_small(r):
    if skip_without_model(r, "too small"):
        return
    with Group(memory_limit=228 << 20) as group:
        if not group.ok:
            r.skip("too small", "no control group can be made here")
            return
        code, text = run(group.command([PROGRAM, "serve", MODEL, "--port", "0"]))
        r.equal("status", code, 1)
        sizes = re.findall(r"[0-9.]+ MiB", text.splitlines()[-1])
        r.check("both numbers and a flag", len(sizes) >= 2 and "--ctx" in text, text)


def jobs(r):
    """tools/jobs on made-up systems."""
    cases = [({"proc/meminfo": "MemAvailable: 900000 kB\n"}, 3), ({"proc/meminfo": "MemAvailable: 100 kB\n"}, 1),
             ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 2),
             ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n",
               "sys/fs/cgroup/memory.max": "700000000\n", "sys/fs/cgroup/memory.current": "300000000\n",
               "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 250000000\n"}, 2),
             ({"proc/self/cgroup": "4:memory:/b\n2:cpu,cpuacct:/b\n",
               "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "9223372036854771712\n",
               "sys/fs/cgroup/memory/b/memory.usage_in_bytes": "5\n",
               "sys/fs/cgroup/cpu/b/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/b/cpu.cfs_period_us": "100000\n"}, 8),
             ({"proc/self/cgroup": "4:memory:/b\n", "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "400000000\n",
               "sys/fs/cgroup/memory/b/memory.usage_in_bytes": "50000000\n"}, 1)]
    with Box() as box:
        bin_path = box.folder("bin")
        with open(bin_path + "/nproc", "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho 8\n")
        os.chmod(bin_path + "/nproc", 0o755)
        for i, (files, want) in enumerate(cases):
            for name, text in {"proc/meminfo": "MemAvailable: 64000000 kB\n", **files}.items():
                path = f"{box.path}/{i}/{name}"
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="ascii") as f:
                    f.write(text)
            code, text = run([ROOT + "/tools/jobs", f"{box.path}/{i}"],
                             environment(PATH=f"{bin_path}:{environment()['PATH']}"))
            r.equal(f"jobs, case {i}", (code, text.strip()), (0, str(want)))


# --- old and odd CPUs ---------------------------------------------------------------------------------------

def no_sys(r):
    """A container or chroot without /sys."""
    if not have_root() or not try_run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/sys"]):
        r.skip("no /sys", "needs root and namespaces")
        return
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /sys && exec "$@"', "x"]
    r.equal("no /sys: the same tokens, and not a word more", run_tiny(TINY, *hide), run_tiny(TINY))


def run_tiny(model, *before, program=PROGRAM):
    return run([*before, program, "run", model, "--ids", "5 17 42 9", "-n", "6", "-q", "--ctx", "64"], limit=LIMIT * 2)


def native_qemu():
    return f"qemu-{platform.machine()}"


def large_pages(r):
    qemu = native_qemu()
    for size in (16384, 65536):
        if not try_run([qemu, "-p", str(size), "/bin/true"]):
            r.skip(f"pages of {size}", f"no {qemu} that has them")
            continue
        code, text = run([qemu, "-p", size, "/usr/bin/getconf", "PAGESIZE"])
        if text.strip() != str(size):
            r.skip(f"pages of {size}", f"{qemu} does not tell them: {text.strip()}")
            continue
        r.equal(f"pages of {size}: the same tokens", run_tiny(TINY, qemu, "-p", size), run_tiny(TINY))


def old_cpus(r):
    """The lowest levels, on models of CPUs that have nothing else, for each program that is built."""
    for arch, cpu, level in (("x86_64", "qemu64", "sse2"), ("aarch64", "cortex-a72", "neon")):
        programs = [x for x in (f"{ROOT}/build/{arch}{kind}/whimbrel" for kind in ("", "-test", "-emulated"))
                    if os.path.exists(x)]
        if not programs or not try_run([f"qemu-{arch}", "-version"]):
            r.skip(f"{cpu}", f"no {arch} program is built, or no qemu-{arch}")
            continue
        for model in (TINY, glob.glob(GGUF + "/*.gguf")[0]):
            name = f"{cpu}, {os.path.basename(model)}"
            code, text = run_tiny(model, f"qemu-{arch}", "-cpu", cpu, program=programs[0])
            r.equal(f"{name}: the same tokens", (code, text), run_tiny(model))
        code, text = run([f"qemu-{arch}", "-cpu", cpu, programs[0], "doctor", "--seconds", "0.01"], limit=LIMIT * 2)
        r.check(f"{cpu}: said", code == 0 and f"level {level} (the lowest: slow" in text, text[:600])


# --- locales ------------------------------------------------------------------------------------------------

def locales(r):
    if skip_without_model(r, "locales"):
        return
    command = [PROGRAM, "run", MODEL, "--raw", "-p", "Gr\u00fc\u00dfe aus Z\u00fcrich: 1,5 + 2.5 =", "-n", "8", "--temp", "0",
               "--json", "-q", "--logprobs", "1"]
    with Box() as box:
        if try_run(["localedef", "-i", "de_DE", "-f", "UTF-8", box.path + "/de_DE.UTF-8"]):
            german = environment(LOCPATH=box.path, LC_ALL="de_DE.UTF-8")
        else:
            german = environment(LC_ALL="de_DE.UTF-8")
        seen = [run(command, env) for env in (environment(LC_ALL="C.UTF-8"), environment(LC_ALL="C"), german,
                                              environment(LC_ALL="xx_YY.nonsense"))]
    for name, (code, text) in zip(("C.UTF-8", "C", "de_DE.UTF-8", "nonsense"), seen):
        answer = json.loads(text) if code == 0 else {}
        answer = {k: v for k, v in answer.items() if k in ("text", "prompt", "logprobs", "tokens", "steps")}
        first = {k: json.loads(seen[0][1])[k] for k in answer}
        r.check(f"{name}: the same text and figures", code == 0 and answer and answer == first, text)


if __name__ == "__main__":
    sys.exit(main([refused, one_gigabyte, too_small, jobs, no_sys, large_pages, old_cpus, locales]))
