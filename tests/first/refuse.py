#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refuse.py jit|affinity|huge[,...] COMMAND...: run a command whose system refuses some calls with EPERM, by seccomp.
jit: memory that is both writable and executable, or becomes executable; affinity: sched_setaffinity; huge: MADV_HUGEPAGE.
"""
import ctypes
import os
import platform
import struct
import sys

NUMBERS = {"aarch64": {"mmap": 222, "mprotect": 226, "madvise": 233, "sched_setaffinity": 122},
           "x86_64": {"mmap": 9, "mprotect": 10, "madvise": 28, "sched_setaffinity": 203}}[platform.machine()]
EPERM_ANSWER, ALLOW = 0x00050001, 0x7fff0000
LOAD, EQUAL, AND, ANSWER = 0x20, 0x15, 0x54, 0x06  # of classic BPF
WRITE_EXEC, EXEC, MADV_HUGEPAGE = 6, 4, 14
# call, argument to look at, its bits, their value
RULES = {"jit": [("mmap", 2, WRITE_EXEC, WRITE_EXEC), ("mprotect", 2, EXEC, EXEC)],
         "affinity": [("sched_setaffinity", 0, 0, 0)],
         "huge": [("madvise", 2, 0xff, MADV_HUGEPAGE)]}


def program(names):
    code = []
    for name in names:
        for call, argument, mask, value in RULES[name]:
            code += [(LOAD, 0, 0, 0), (EQUAL, 0, 4, NUMBERS[call]), (LOAD, 0, 0, 16 + 8 * argument),
                     (AND, 0, 0, mask), (EQUAL, 0, 1, value), (ANSWER, 0, 0, EPERM_ANSWER)]
    code.append((ANSWER, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *x) for x in code), len(code)


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    text, n = program(sys.argv[1].split(","))
    buffer = ctypes.create_string_buffer(text, len(text))
    header = struct.pack("<HxxxxxxQ", n, ctypes.addressof(buffer))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, header, 0, 0) != 0:  # no new privileges; the filter
        print("refuse: no seccomp here", file=sys.stderr)
        sys.exit(77)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
