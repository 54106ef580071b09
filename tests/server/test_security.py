# SPDX-License-Identifier: Apache-2.0
"""The table in docs/security.md names a test for each promise: each is there."""
import re

from serving import ROOT


def rows():
    text = (ROOT / "docs" / "security.md").read_text()
    table = text.split("## A test for each promise")[1].split("\n## ")[0]
    return [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_every_promise_has_its_tests():
    assert len(rows()) > 20
    for promise, where in rows():
        parts = re.split(r"`(tests/[^`]+)`", where)
        assert len(parts) > 1, promise
        for path, names in zip(parts[1::2], parts[2::2]):
            assert (ROOT / path).is_file(), f"{promise}: there is no {path}"
            source = (ROOT / path).read_text()
            for name in re.findall(r"\w+", names):
                assert re.search(rf"(?:def|void|bool) {name}\(", source), f"{promise}: {path} has no {name}"
