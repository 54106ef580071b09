# SPDX-License-Identifier: Apache-2.0
"""The chat page's files over HTTP: open without a key, cached by their hash, in both encodings."""
import re


def test_page_needs_no_key(small):
    page = small.http.get("/")
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert "trusted-types dompurify" in page.headers["content-security-policy"]
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    names = re.findall(r'"(assets/[^"]+)"', page.text)
    assert names
    for name in names + ["favicon.ico"]:
        file = small.http.get("/" + name)
        assert file.status_code == 200 and len(file.content) > 0, name
        assert ("immutable" in file.headers["cache-control"]) == name.startswith("assets/"), name
    assert small.http.get("/assets/none.js").status_code == 404
    assert small.http.post("/").status_code in (401, 405)


def test_encodings_and_etags(server):
    plain = server.http.get("/", headers={"accept-encoding": "identity"})
    packed = server.http.get("/", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content and plain.headers["etag"] != packed.headers["etag"]
    again = server.http.get("/", headers={"accept-encoding": "identity", "if-none-match": plain.headers["etag"]})
    assert again.status_code == 304 and again.content == b"" and again.headers["etag"] == plain.headers["etag"]
    head = server.http.head("/", headers={"accept-encoding": "identity"})
    assert head.status_code == 200 and int(head.headers["content-length"]) == len(plain.content)


def test_timings(oai, server):
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "return_timings": True}
    timings = server.post("/v1/chat/completions", body).json()["timings"]
    assert set(timings) == {"queue_ms", "first_token_ms", "decode_ms", "tokens_per_second"}
    assert 0 <= timings["queue_ms"] <= timings["first_token_ms"] and timings["first_token_ms"] > 0
    stream = oai.chat.completions.create(model="x", messages=body["messages"], max_tokens=4, stream=True,
                                         stream_options={"include_usage": True}, extra_body={"return_timings": True})
    chunks = list(stream)
    assert [hasattr(c, "timings") for c in chunks] == [False] * (len(chunks) - 1) + [True]
