#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis over /openapi.json: the document says what the server takes and answers, and no request ends in a 5xx.

tests/server/described.sh [EXAMPLES [SEED]] runs all of it, twice: without a key, and with one that must be asked for.
This file is also the hook that schemathesis loads: JSON Schema cannot say that an id is one of the vocabulary, that a
name is one of the tools or that a text is a schema which we support, so that such values are replaced by good ones in
requests that are to be accepted. Prompts are short and few tokens are asked for where the model works."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sesame-0123456789"
VOCABULARY = 49152
NO_TOKENS = "/infill"  # the default model has none for it, so that every request is refused
FEW = 2
GENERATING = ("/completions", "/responses", "/messages", "/completion", "/api/chat", "/api/generate")
FORMS = ("regex", "choice", "response_format", "text", "format", "output_config", "output_format", "tool_choice")
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict", "n", "n_cmpl")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


# --- the hook ---------------------------------------------------------------------------------------


def is_number(value):
    return type(value) in (int, float)


def ask_for_few(path, body):
    options = body.get("options")
    for at in (body, options if isinstance(options, dict) else {}):
        for key in LIMITS:
            if is_number(at.get(key)) and (at[key] > FEW or at[key] < 0):
                at[key] = FEW
    if path.startswith("/api/"):
        if options is None and path.endswith(GENERATING):
            body["options"] = {"num_predict": FEW}
        elif isinstance(options, dict):
            options.setdefault("num_predict", FEW)
        return
    limit = {"/responses": "max_output_tokens", "/completion": "n_predict"}.get(path[path.rfind("/"):], "max_tokens")
    if body.get(limit) is None and path.endswith(GENERATING[:2] + GENERATING[3:4]):
        body[limit] = FEW


def known_id(value):
    if isinstance(value, list):
        return [known_id(v) for v in value]
    return int(value) % VOCABULARY if is_number(value) else value


def with_good_schemas(value):
    if isinstance(value, list):
        return [with_good_schemas(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: SCHEMA if k in ("schema", "parameters", "input_schema") and isinstance(v, dict) else with_good_schemas(v)
            for k, v in value.items()}


def name_tools(choice, name):
    """Every name inside becomes one that the model's tokens can write."""
    if isinstance(choice, list):
        return [name_tools(c, name) for c in choice]
    if not isinstance(choice, dict):
        return choice
    return {k: name if k == "name" else name_tools(v, name) for k, v in choice.items()}


def shorten(value):
    """Without most of what the model would read: keys that are not ours, long texts and lists."""
    if isinstance(value, dict):
        return {k: shorten(v) for k, v in value.items() if re.fullmatch("[a-z_]+|[0-9]+", k)}
    return value[:16] if isinstance(value, str) else [shorten(v) for v in value[:2]] if isinstance(value, list) else value


def make_tokens_known(body):
    for key in ("tokens", "stop_token_ids", "allowed_token_ids"):
        if key in body:
            body[key] = known_id(body[key])
    bias = body.get("logit_bias")
    if isinstance(bias, list):  # llama.cpp's pairs
        body["logit_bias"] = [[known_id(7), -1.5], ["bird", False]][:len(bias)]
    elif bias:
        body["logit_bias"] = {str(known_id(int(k))) if k.isdigit() else "a": v for k, v in bias.items()}


def make_possible(body):
    for key in ("tools", "response_format", "text", "output_config", "output_format"):
        if key in body:
            body[key] = with_good_schemas(body[key])
    form = body.get("response_format") or {}
    if form.get("type") in ("json", "json_object") and "value" in form:
        form["value"] = SCHEMA
    elif form.get("type") == "regex":
        form["value"] = "[a-z]{1,4}"
    body["tools"] = name_tools(body.get("tools"), "tool")
    has_tool = any(t.get("type") in (None, "function", "custom") for t in body["tools"] or [])
    body["tool_choice"] = name_tools(body.get("tool_choice"), "tool") if has_tool else None
    for at in (body, body.get("options") or {}):
        make_tokens_known(at)
    if isinstance(body.get("prompt"), list):
        body["prompt"] = known_id(body["prompt"][:4])
    if isinstance(body.get("format"), dict):
        body["format"] = SCHEMA
    for at in (body, body.get("options") or {}):
        if at.get("regex") is not None:
            at["regex"] = "[a-z]{1,4}"
        if at.get("choice") is not None:
            at["choice"] = ["yes", "no"]
        if any(body.get(form) or at.get(form) for form in FORMS):
            at.pop("allowed_token_ids", None)  # ids at random cannot write what the answer is held to
    if body.get("best_of") is not None:
        body["best_of"] = body.get("n") or 1
    if not body.get("stream"):
        body.pop("stream_options", None)
    if "suffix" in body:
        body["suffix"] = ""  # the default model has no tokens for it


def before_call(context, case, kwargs):
    from schemathesis import GenerationMode
    if isinstance(case.body, dict):
        ask_for_few(case.path, case.body)
        if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
            make_possible(case.body)
            if case.path.endswith(GENERATING):
                case.body = shorten(case.body)


if os.environ.get("SCHEMATHESIS_HOOKS") == "described":
    import schemathesis
    schemathesis.hook(before_call)


# --- the run ----------------------------------------------------------------------------------------


def expand(description):
    """The OpenAPI document of a description in short form, a file; fails with what the tool complains about."""
    done = subprocess.run(["awk", "-f", str(HERE.parents[1] / "tools/openapi.awk"), str(description)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return json.loads(done.stdout)


def document():
    return expand(HERE.parents[1] / "src/server/openapi.txt")


def as_generated():
    """The document without a few fields of conversations, which other routes have, too: the generator gives up where
    fields times alternatives are too many."""
    tested = document()
    for field in [name for name in tested["components"]["schemas"]["ChatRequest"]["properties"]
                  if name.startswith(("dry_", "xtc_", "bad_words", "allowed_token", "trunc", "return_tokens_as"))]:
        del tested["components"]["schemas"]["ChatRequest"]["properties"][field]
    return tested


def run(url, examples, seed, phases="coverage,fuzzing", key=None):
    """schemathesis against a server; its exit status and what it printed."""
    tested = as_generated()
    if key is not None:
        tested["security"].remove({})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "openapi.json"
        path.write_text(json.dumps(tested))
        command = [sys.executable, "-m", "schemathesis.cli", "run", str(path), "--url", url, "--checks", "all",
                   "--phases", phases, "--max-examples", str(examples), "--seed", str(seed), "--no-shrink",
                   "--continue-on-failure", "--exclude-path", NO_TOKENS, "--request-timeout", "120", "--max-response-time", "120", "--no-color"]
        if key is not None:
            command += ["--header", f"Authorization: Bearer {key}"]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env={**os.environ, "SCHEMATHESIS_HOOKS": "described",
                                                             "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout


def main():
    from serving import Server
    examples, seed = (sys.argv[1:] + ["25", "1"][len(sys.argv) - 1:])[:2]
    failed = 0
    for key in (None, KEY):
        server = Server("described", "--max-seqs", "4", *(["--api-key", key] if key else []))
        status, text = run(server.url, examples if key is None else "5", seed, key=key,
                           phases="coverage,fuzzing" if key is None else "fuzzing")
        print(text)
        failed += status != 0
        failed += server.stop() != 0 or "level=error" in server.log()
    print(f"RESULT passed={2 - min(failed, 2)} failed={failed} skipped=0")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
