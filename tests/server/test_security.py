# SPDX-License-Identifier: Apache-2.0
"""The table in docs/security.md names a test for each promise: each is there, and `make test` runs it."""
import re

from serving import ROOT


def rows():
    text = (ROOT / "docs" / "security.md").read_text()
    table = text.split("## A test for each promise")[1].split("\n## ")[0]
    return [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]


def is_run(path):
    """Whether the runner takes the file: by its name, or by the rule for its folder."""
    if path.suffix == ".c":
        name = path.stem.removeprefix("fuzz_")  # fuzz targets run their corpus, where they have one
        folder = path.relative_to(ROOT / "tests").parts[0]
        return {"unit": path.stem.endswith("_test"), "sim": True,
                "fuzz": any((ROOT / "tests/data/corpus").glob(f"{name}/*"))}[folder]
    return path.name.startswith("test_") or f"{path.relative_to(ROOT)}" in (ROOT / "tests/run-tests").read_text()


def test_every_promise_has_its_tests():
    assert len(rows()) > 20
    for promise, where in rows():
        parts = re.split(r"`(tests/[^`]+)`", where)
        assert len(parts) > 1, promise
        for path, names in zip(parts[1::2], parts[2::2]):
            assert (ROOT / path).is_file(), f"{promise}: there is no {path}"
            assert is_run(ROOT / path), f"{promise}: nobody runs {path}"
            source = (ROOT / path).read_text()
            for name in re.findall(r"\w+", names):
                assert re.search(rf"(?:def|void|bool) {name}\(", source), f"{promise}: {path} has no {name}"
                is_found = path.endswith(".py") and name.startswith("test_")  # the runner looks for those
                uses = len(re.findall(rf"\b{name}\b", source)) - 1
                assert is_found or uses > 0, f"{promise}: {path} does not call {name}"
