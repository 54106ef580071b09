# SPDX-License-Identifier: Apache-2.0
"""Prompts that are kept over a restart: an agent's conversation goes on after a restart and after a kill with nothing
computed again and the bits of one that was never stopped; where pages are kept by default, and how they are not; a disk
that is full, and one that others fill. Counted by usage and /metrics, never by time."""
import json
import os
import re
import shutil
import stat
import subprocess
import time
import urllib.request

import pytest

from keeping import PAGE, PROMPT, ask, conversation, draw, model_fixture, serve

model = model_fixture


def pages(server, kind):
    """So many pages and states were written or read since the start."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return float(re.search(rf'^whimbrel:disk_pages_total\{{kind="{kind}"\}} (\S+)$', text, re.M).group(1))


def wait_for(what, seconds=60):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def settled(server):
    """Nothing new is written any more: the server has had time for it."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 2:
        now = pages(server, "written")
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def wanted(model):
    """The same conversation, with nothing kept and never stopped."""
    first, result = conversation()
    server = serve("plain", model, "--no-kv-dir")
    try:
        one, cached = ask(server, first)
        assert cached == 0
        two, _ = ask(server, first + one[0] + result)
    finally:
        assert server.stop() == 0
    return one, two


@pytest.mark.parametrize("way", ["ended", "killed"])
def test_a_conversation_goes_on_after_a_restart(model, wanted, way, tmp_path):
    first, result = conversation()
    args = ("--kv-dir", str(tmp_path / "kv"))
    server = serve(f"{way}-one", model, *args)
    one, cached = ask(server, first)
    assert cached == 0 and one == wanted[0]
    if way == "killed":
        wait_for(lambda: pages(server, "written") >= PROMPT // PAGE)
        settled(server)
        server.process.kill()
        server.process.wait()
        server.http.close()
    else:
        assert server.stop() == 0
    server = serve(f"{way}-two", model, *args)
    try:
        two, cached = ask(server, first + one[0] + result)
        assert two == wanted[1]
        assert cached >= PROMPT - PAGE, cached
        again, cached = ask(server, first)
        assert again == wanted[0] and cached >= PROMPT - PAGE
        assert pages(server, "read") >= PROMPT // PAGE - 1
        assert "level=error" not in server.log()
    finally:
        assert server.stop() == 0
    assert f"cached={cached}" in server.log()


def test_a_kill_while_pages_are_written(model, wanted, tmp_path):
    """At any moment: answers are right, and what was written whole is used."""
    first, _ = conversation()
    folder = tmp_path / "kv"
    for turn in range(3):
        server = serve(f"torn-{turn}", model, "--kv-dir", str(folder))
        answer, _ = ask(server, first)
        assert answer == wanted[0]
        if turn < 2:
            wait_for(lambda: pages(server, "written") > 0 or turn > 0)
            server.process.kill()
            server.process.wait()
            server.http.close()
    assert server.stop() == 0


def place_of(folder, tail):
    """The file of the tensor whose name ends so, and where it lies there."""
    for file in folder.glob("*.safetensors"):
        data = file.read_bytes()
        front = 8 + int.from_bytes(data[:8], "little")
        for name, tensor in json.loads(data[8:front]).items():
            if name.endswith(tail):
                return file, *(front + at for at in tensor["data_offsets"])
    raise AssertionError(f"no tensor ends in {tail}")


def test_weights_that_were_edited_in_place_find_no_old_pages(model, tmp_path):
    """Some rows are changed where no sample of the file lies, and the file gets its time back."""
    path = tmp_path / "model"
    shutil.copytree(model, path)
    args = ("--kv-dir", str(tmp_path / "kv"))
    server = serve("before-edit", path, *args, ctx=512)
    first, cached = ask(server, draw(4, 200))
    assert cached == 0 and server.stop() == 0
    weights, begin, end = place_of(path, "0.mlp.down_proj.weight")
    assert end - begin > 4096
    times = weights.stat()
    with weights.open("r+b") as f:
        f.seek(begin + (end - begin) // 4)
        f.write(bytes(64))
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    server = serve("after-edit", path, *args, ctx=512)
    second, cached = ask(server, draw(4, 200))
    assert server.stop() == 0
    assert cached == 0 and second != first


# --- the default -----------------------------------------------------------------------------------------------------

@pytest.fixture
def unsaid(monkeypatch):
    monkeypatch.delenv("WHIMBREL_KV_DIR", raising=False)


def test_it_is_on_by_default(model, unsaid, tmp_path):
    env = {"WHIMBREL_CACHE": str(tmp_path / "cache")}
    server = serve("default", model, ctx=512, env=env)
    ask(server, draw(3, 200))
    assert server.stop() == 0
    folder = tmp_path / "cache" / "kv"
    text = server.log()
    assert re.search(rf"  kept .*{re.escape(str(folder))}: .*at most", text) and "--no-kv-dir keeps none" in text
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert any(p.name.startswith("pages-") for p in files)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in files)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o700 for p in [folder, *folder.iterdir()])
    server = serve("default-again", model, ctx=512, env=env)
    _, cached = ask(server, draw(3, 200))
    assert cached == 192
    second = serve("default-second", model, ctx=512, env=env)  # the same model, at the same time
    assert ask(second, draw(3, 200))[1] == 0
    assert second.stop() == 0
    assert second.log().count("event=kv_dir unused=") == 1 and "in use" in second.log()
    assert server.stop() == 0


@pytest.mark.parametrize("args, env", [(("--no-kv-dir",), {}), ((), {"WHIMBREL_KV_DIR": ""})])
def test_it_can_be_turned_off(model, unsaid, tmp_path, args, env):
    server = serve("off", model, *args, ctx=512, env={"WHIMBREL_CACHE": str(tmp_path / "cache"), **env})
    ask(server, draw(3, 200))
    assert server.stop() == 0
    assert not (tmp_path / "cache" / "kv").exists()
    assert "  kept " not in server.log() and "event=kv_dir" not in server.log()


def test_a_default_never_refuses_to_start(model, unsaid, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, where a folder would be")
    server = serve("blocked", model, ctx=512, env={"WHIMBREL_CACHE": str(blocked)})
    ask(server, draw(3, 200))
    assert server.stop() == 0
    assert server.log().count("event=kv_dir unused=") == 1 and "  kept " not in server.log()


# --- disks -----------------------------------------------------------------------------------------------------------

def on_disk_of(megabytes, folder):
    """Words before a command that give it a small disk of its own at `folder`."""
    folder.mkdir()
    words = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={megabytes}m none "{folder}" && exec "$@"', "sh"]
    if os.geteuid() != 0 or subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk of its own needs root and mount namespaces")
    return words


def used(server, folder):
    """Bytes and files as the server sees them."""
    top = f"/proc/{server.process.pid}/root{folder}"
    sizes = [os.lstat(os.path.join(d, f)).st_size for d, _, names in os.walk(top) for f in names if f.endswith(".kv")]
    return sum(sizes), sizes


def test_a_full_disk_costs_nothing_but_pages(model, tmp_path):
    disk = tmp_path / "disk"
    server = serve("full", model, "--kv-dir", f"{disk}/kv", "--kv-dir-size", "1G", ctx=4096,
                   before=on_disk_of(1, disk))
    try:
        answers = [ask(server, draw(seed, 2000)) for seed in range(4)]
        wait_for(lambda: "event=kv_dir error=" in server.log())
        assert [ask(server, draw(seed, 2000))[0] for seed in range(4)] == [a for a, _ in answers]
        bytes_, sizes = used(server, disk)
        assert bytes_ > 0 and min(sizes) > 64
    finally:
        assert server.stop() == 0


def test_a_disk_that_others_fill_gets_room_back(model, tmp_path):
    disk = tmp_path / "disk"
    server = serve("shrinks", model, "--kv-dir", f"{disk}/kv", ctx=4096, before=on_disk_of(64, disk))
    try:
        first, _ = ask(server, draw(1, 2000))
        settled(server)
        before, _ = used(server, disk)
        assert 0 < before <= (64 << 20) / 10
        filler = f"/proc/{server.process.pid}/root{disk}/filler"
        with open(filler, "wb") as f:
            f.write(bytes((64 << 20) - before - (before // 2)))
        time.sleep(1.1)  # it looks again at most once in a second
        for seed in range(2, 5):
            ask(server, draw(seed, 2000))
            settled(server)
        after, _ = used(server, disk)
        assert after <= before // 4, (before, after)
        assert ask(server, draw(1, 2000))[0] == first
    finally:
        assert server.stop() == 0
