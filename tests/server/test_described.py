# SPDX-License-Identifier: Apache-2.0
"""A small part of tests/server/described.sh: /openapi.json holds for requests that are made of it."""
import described


def test_document(server):
    assert server.http.get("/openapi.json").json() == described.document()
    status, text = described.run(server.url, examples=4, seed=1, phases="fuzzing")
    assert status == 0, text
