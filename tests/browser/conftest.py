# SPDX-License-Identifier: Apache-2.0
"""One Chromium and one real server for all tests; storage, scripted answers and tabs of its own for each."""
import pathlib
import sys

import pytest

import cdp
import fake as scripted
from chatpage import ChatPage

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "server"))
from rawhttp import Server  # noqa: E402  (it lies in the folder that was just added)

LOGS = ROOT / "build" / "test-logs" / "browser"


@pytest.fixture(scope="session")
def browser():
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / "chromium.log", "wb") as log:
        b = cdp.Chromium(log)
        yield b
        b.close()


@pytest.fixture(scope="session")
def real():
    """`whimbrel serve` with the default model."""
    server = Server("--ctx", 2048, "--kv-mem", "96M", "--allow-host", "lan.test")
    server.url = f"http://127.0.0.1:{server.port}"
    yield server
    assert server.stop() == 0, "the server does not end well"
    assert "level=error" not in server.log(), "the server logged errors"


@pytest.fixture(scope="session")
def fake_server(real):
    server = scripted.Fake(real.port)
    yield server
    server.close()


@pytest.fixture
def fake(fake_server):
    fake_server.reset()
    return fake_server


@pytest.fixture(scope="session")
def only_profile(browser):
    return browser.profile()


@pytest.fixture
def profile(only_profile):
    """Storage that is empty. Whatever the test's tabs logged as an error, or asked of other hosts, fails the test."""
    yield only_profile
    problems = [problem for page in only_profile.pages for problem in page.problems()]
    only_profile.clear()
    assert not problems, "\n".join(problems[:8])


@pytest.fixture
def chat(profile, fake):
    """The chat page, opened."""
    return ChatPage(profile, fake.url)
