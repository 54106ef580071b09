#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of fuzz_warm: each form that `whimbrel warm` takes, and what is none."""
import json
import pathlib

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "corpus" / "warm"
TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi \u00e9"}]
BODY = {"model": "m", "messages": TURNS, "n": 2, "stream": True, "max_completion_tokens": 9, "tools": [{"type": "function"}]}
SEEDS = {
    "body": BODY,
    "completion": {"prompt": "Once", "logprobs": 3, "echo": True, "best_of": 2},
    "ids": {"prompt": [1, 2, 3]},
    "messages": TURNS,
    "list": ["one", BODY, TURNS, {"prompt": "two"}],
    "prompts": {"prompts": ["one", BODY, {"body": BODY, "url": "/v1/chat/completions"}]},
    "no_list": {"prompts": "one"},
    "empty": [],
    "number": [1],
    "no_prompt": [{"input": "x"}],
    "other_dialect": {"system": "x", "messages": TURNS},
    "text": "just a text",
    "deep": [[[[[[]]]]]],
}
OUT.mkdir(parents=True, exist_ok=True)
for name, value in SEEDS.items():
    (OUT / name).write_text(json.dumps(value))
(OUT / "lines").write_text("L" + json.dumps(BODY) + "\n\n" + json.dumps({"body": BODY}) + "\n[1]\n")
(OUT / "lines_cut").write_text("L" + json.dumps(BODY) + "\n{\"prompt\":")
(OUT / "not_json").write_text("{")
(OUT / "large_number").write_text('{"prompt":"a","seed":123456789012345678901234567890,"x":NaN}')
