# SPDX-License-Identifier: Apache-2.0
"""One server for most tests; the official clients in strict mode, all through the wire checker."""
import anthropic
import httpx2
import openai
import pytest

import wire
from serving import Server

KEY = "sesame-0123456789"
SMALL_CTX = 512


@pytest.fixture(scope="session")
def server():
    s = Server("main")
    yield s
    assert s.stop() == 0, "the server does not end well"
    assert "event=answer_failed" not in s.log() and "level=error" not in s.log(), "the server logged errors"


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A server with everything tight: context, sequences, queue, keys, model names."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY}\nanother-key\n")
    s = Server("small", "--ctx", str(SMALL_CTX), "--max-seqs", "1", "--max-waiting", "1", "--api-key-file", str(keys),
               "--served-model-name", "org/tiny", "--strict-model", "--max-body", "1M")
    yield s
    assert s.stop() == 0, "the server does not end well"
    assert KEY not in s.log(), "a key in the log"


@pytest.fixture(scope="session")
def oai(server):
    return openai_client(server)


@pytest.fixture(scope="session")
def ant(server):
    return anthropic_client(server)


def openai_client(server, key="none", strict=True):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=300,
                         http_client=httpx2.Client(transport=wire.CheckedTransport()),
                         _strict_response_validation=strict)


def anthropic_client(server, key="none"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, timeout=300,
                               http_client=httpx2.Client(transport=wire.CheckedTransport()),
                               _strict_response_validation=True)


@pytest.fixture(autouse=True)
def wire_is_clean():
    wire.violations.clear()
    yield
    assert not wire.violations, "\n".join(f"{line}\n    {what}" for line, what in wire.violations[:3])
