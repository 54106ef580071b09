# SPDX-License-Identifier: Apache-2.0
"""Filling a gap with a model that has the marks for it: /infill, suffix of /api/generate and of /v1/completions. Each is
the answer to the same prompt written out as ids."""
import json
import struct

import ollama
import pytest

from serving import ROOT, Server

MODEL = ROOT / "tests" / "data" / "golden" / "llama-mixed-gguf" / "model.gguf"
HEAD, ALIGNMENT = 24, 64  # bytes before the first key; what the place of the tensors is a multiple of
# Tokens of the tiny model's alphabet, which begins with "!" as 3.
PREFIX, SUFFIX, MIDDLE, PAD, REPO, FILE = (3 + ord(c) - ord("!") for c in "{|}~[]")
KEYS = {"fim_pre": PREFIX, "fim_suf": SUFFIX, "fim_mid": MIDDLE, "fim_pad": PAD, "fim_rep": REPO, "fim_sep": FILE}
ENDS = [PAD, REPO, FILE]
GREEDY = {"temperature": 0, "n_predict": 12}


def with_marks(source):
    """The bytes of a GGUF file with keys for its marks, and one that fills up, so that nothing else moves."""
    def head(name, kind):
        return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind)

    added = b"".join(head(f"tokenizer.ggml.{name}_token_id", 4) + struct.pack("<I", token) for name, token in KEYS.items())
    filler = head("general.description", 8)
    n = -(len(added) + len(filler) + 8) % ALIGNMENT
    added += filler + struct.pack("<Q", n) + b" " * n
    magic, version, n_tensor, n_key = struct.unpack("<4sIQQ", source[:HEAD])
    return struct.pack("<4sIQQ", magic, version, n_tensor, n_key + len(KEYS) + 1) + added + source[HEAD:]


@pytest.fixture(scope="module")
def filler(tmp_path_factory):
    path = tmp_path_factory.mktemp("gap") / "marks.gguf"
    path.write_bytes(with_marks(MODEL.read_bytes()))
    s = Server("gap", str(path))
    yield s
    assert s.stop() == 0


def ids_of(server, text):
    return server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()["tokens"]


def ask(server, path, **body):
    answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def gap(server, before, behind):
    return [PREFIX, *ids_of(server, before), SUFFIX, *ids_of(server, behind), MIDDLE]


def test_infill_is_its_prompt(filler):
    body = {"input_prefix": "def f(x):", "prompt": " return", "input_suffix": "x+1", **GREEDY}
    made = ask(filler, "/infill", **body, return_tokens=True)
    written = [PREFIX, *ids_of(filler, "def f(x):"), *ids_of(filler, " return"), SUFFIX, *ids_of(filler, "x+1"), MIDDLE]
    plain = ask(filler, "/completion", prompt=written, **GREEDY, stop_token_ids=ENDS, return_tokens=True)
    assert made["tokens"] and made["content"] == plain["content"] and made["tokens"] == plain["tokens"]
    assert made["tokens_evaluated"] == len(written) == plain["tokens_evaluated"]
    other = ask(filler, "/infill", **{**body, "input_suffix": "print(y)"}, return_tokens=True)
    assert other["tokens"] != made["tokens"]  # what stands behind counts


def test_infill_streams_the_whole(filler):
    body = {"input_prefix": "def f(x):", "input_suffix": "x+1", **GREEDY}
    whole = ask(filler, "/infill", **body, return_tokens=True)
    with filler.http.stream("POST", "/infill", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        pieces = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True]
    assert whole["content"] and "".join(p["content"] for p in pieces) == whole["content"]
    assert [t for p in pieces for t in p["tokens"]] == whole["tokens"]


def test_files_stand_around_the_gap(filler):
    files = [{"filename": "a.c", "text": "int a;"}, {"filename": "b.c", "text": "int b;"}]
    made = ask(filler, "/infill", input_prefix="a=", input_suffix=";", input_extra=files, **GREEDY, return_tokens=True)
    written = [REPO, *ids_of(filler, "myproject\n")]
    for file in files:
        written += [FILE, *ids_of(filler, file["filename"] + "\n"), *ids_of(filler, file["text"])]
    written += [FILE, *ids_of(filler, "filename\n"), *gap(filler, "a=", ";")]
    plain = ask(filler, "/completion", prompt=written, **GREEDY, stop_token_ids=ENDS, return_tokens=True)
    assert made["tokens_evaluated"] == len(written) and made["tokens"] and made["tokens"] == plain["tokens"]


@pytest.mark.parametrize("end", ENDS)
def test_marks_of_another_file_end_it(filler, end):
    body = {"input_prefix": "a=", "input_suffix": ";", **GREEDY, "logit_bias": [[end, 100]]}
    made = ask(filler, "/infill", **body)
    assert made["content"] == "" and made["stop_type"] == "eos"
    on = ask(filler, "/completion", prompt=gap(filler, "a=", ";"), **GREEDY, logit_bias=[[end, 100]], return_tokens=True)
    assert on["tokens"] == [end] * GREEDY["n_predict"]  # it is the gap that ends there
    asked = {"prompt": "a=", "suffix": ";", "temperature": 0, "max_tokens": 12, "logit_bias": {str(end): 100}}
    made = ask(filler, "/v1/completions", **asked)["choices"][0]
    assert made["text"] == "" and made["finish_reason"] == "stop"


def test_suffix_of_other_routes(filler):
    plain = ask(filler, "/completion", prompt=gap(filler, "def f(x):", "x+1"), **GREEDY)
    body = {"prompt": "def f(x):", "suffix": "x+1", "temperature": 0, "max_tokens": 12}
    made = ask(filler, "/v1/completions", **body)
    assert plain["content"] and made["choices"][0]["text"] == plain["content"]
    client = ollama.Client(host=filler.url)
    options = {"temperature": 0, "num_predict": 12}
    asked = {"model": "any", "prompt": "def f(x):", "suffix": "x+1", "options": options}
    whole = client.generate(**asked)
    assert whole.response == plain["content"] and whole.prompt_eval_count == made["usage"]["prompt_tokens"]
    pieces = list(client.generate(**asked, stream=True))
    assert "".join(p.response for p in pieces) == whole.response and pieces[-1].done


def test_a_model_without_marks_refuses(server):
    with pytest.raises(ollama.ResponseError) as refused:
        ollama.Client(host=server.url).generate(model="any", prompt="a", suffix="b")
    assert refused.value.status_code == 400 and "suffix" in refused.value.error
