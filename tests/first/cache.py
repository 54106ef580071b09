#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cache folder: which one is taken, and what is said when there is none. The program and tools/cache-dir agree."""
import re
import shutil
import sys

from first import FILE, NOBODY, ROOT, Box, as_nobody, environment, have_root, main, run


def where(box, env, nobody):
    """The folder that each of the two takes, or None; and what they say."""
    wrap = as_nobody if nobody else list
    env = {"PATH": environment()["PATH"], **env}
    _, text = run(wrap([box.program, "run", "--ids", "1"]), env, cwd="/")
    found = re.search(r"is not at (.*)/" + re.escape(FILE), text)
    code, said = run(wrap(["bash", box.path + "/cache-dir"]), env, cwd="/")
    return found and found.group(1), said.strip() if code == 0 else None, text, said


def same(r, box, name, env, want, nobody=False):
    program, script, text, said = where(box, env, nobody)
    r.equal(f"{name}: program", program, want)
    r.equal(f"{name}: script", script, want)
    return text, said


def refused(r, box, name, env, words, nobody=False):
    for text in same(r, box, name, env, None, nobody):
        for word in words:
            r.check(f"{name}: says {word}", word in text, text)


def folders(r):
    with Box() as box:
        shutil.copy(ROOT + "/tools/cache-dir", box.path)
        home, xdg, own = box.folder("home"), box.folder("xdg"), box.folder("own")
        both = {"HOME": home, "XDG_CACHE_HOME": xdg}
        same(r, box, "HOME", {"HOME": home}, home + "/.cache/whimbrel")
        same(r, box, "slashes at the end", {"HOME": home + "//"}, home + "/.cache/whimbrel")
        same(r, box, "XDG_CACHE_HOME", both, xdg + "/whimbrel")
        same(r, box, "relative XDG_CACHE_HOME", {**both, "XDG_CACHE_HOME": "x"}, home + "/.cache/whimbrel")
        same(r, box, "CACHE_DIRECTORY", {**both, "CACHE_DIRECTORY": own}, own)
        same(r, box, "several of them", {"CACHE_DIRECTORY": f"{own}:{xdg}"}, own)
        same(r, box, "WHIMBREL_CACHE", {**both, "CACHE_DIRECTORY": own, "WHIMBREL_CACHE": own + "/new"}, own + "/new")
        same(r, box, "an empty WHIMBREL_CACHE", {**both, "WHIMBREL_CACHE": ""}, xdg + "/whimbrel")
        refused(r, box, "nothing is set", {}, ["WHIMBREL_CACHE", "XDG_CACHE_HOME", "HOME"])
        shared = box.folder("shared", 0o777)
        refused(r, box, "everybody can write it", {"WHIMBREL_CACHE": shared}, [shared, "everybody"])
        refused(r, box, "everybody can write around it", {"WHIMBREL_CACHE": shared + "/mine"}, [shared, "everybody"])
        same(r, box, "the next one then", {**both, "CACHE_DIRECTORY": shared}, xdg + "/whimbrel")
        refused(r, box, "a file", {"WHIMBREL_CACHE": box.program}, ["not a folder"])
        with open(box.folder("home/.cache/whimbrel") + "/" + FILE, "wb"):
            pass
        code, said = run(["bash", box.path + "/cache-dir", FILE], {**both, "PATH": environment()["PATH"]})
        r.equal("one that has the file goes first", (code, said.strip()), (0, home + "/.cache/whimbrel"))
        _, text = run([box.program, "inspect"], both)
        r.check("for the program too", home + "/.cache" in text, text)


def other_users(r):
    if not have_root():
        r.skip("other users", "needs root")
        return
    with Box() as box:
        shutil.copy(ROOT + "/tools/cache-dir", box.path)
        home, foreign = box.folder("home", owner=NOBODY), box.folder("foreign", owner=1000)
        same(r, box, "a home of one's own", {"HOME": home}, home + "/.cache/whimbrel", nobody=True)
        refused(r, box, "a home that cannot be written", {"HOME": box.folder("closed", 0o555)}, ["belongs to root"],
                nobody=True)
        refused(r, box, "another user's", {"WHIMBREL_CACHE": foreign}, ["another user"], nobody=True)
        box.folder("home/.cache", owner=NOBODY)
        box.folder("home/.cache/whimbrel")
        refused(r, box, "root's, since a sudo", {"HOME": home},
                [f"sudo chown -R {NOBODY} {home}/.cache/whimbrel"], nobody=True)


if __name__ == "__main__":
    sys.exit(main([folders, other_users]))
