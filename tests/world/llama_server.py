#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of llama.cpp's server against whimbrel, and print a table.

usage: llama_server.py FOLDER WHIMBREL MODEL.gguf [FILE...]

FOLDER is tools/server/tests of llama.cpp, with models/templates where it has them; MODEL stands for every model that
a test asks for: stories260K with a context of at least 8192 is what most of them mean. FILE is test_completion.py and
the like; without any, all that apply. Tests that are marked as slow ask for models of their own and are left out. The
Python that runs this has pytest, pytest-timeout and what their requirements.txt lists; PORT is the first port to use. Nothing is fetched.
Fails where a failure has no reason here."""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

# Of whole files: what they ask for is not there.
NOT_THERE = {
    "test_compat_gcp.py": "routes of Google's platform",
    "test_embedding.py": "embeddings",
    "test_kv_keep_only_active.py": "options of its cache",
    "test_lora.py": "adapters",
    "test_mcp_servers.py": "tools that the server runs",
    "test_proxy.py": "a proxy for its page",
    "test_rerank.py": "ranking",
    "test_router.py": "many models",
    "test_sleep.py": "unloading of an idle model",
    "test_slot_save.py": "prompts saved by request",
    "test_speculative.py": "a draft model that is fetched",
    "test_stream.py": "streams that are joined again",
    "test_tools_builtin.py": "tools that the server runs",
    "test_vision_api.py": "pictures",
}

# Of single tests: the name, what the failure says, and why that says nothing about whimbrel. Another failure of the same
# test counts.
NOT_MEANT = [
    (r"test_chat_completion\[|test_(chat_)?completion_with_openai_library", r"startswith|'fp_",
     "its version as system_fingerprint"),
    (r"test_completion\[|stream_with_openai_library|responses_with_openai_library|load_split_model", r"match_regex",
     "the words that its own random numbers choose"),
    (r"stream_vs_non_stream", r"assert '.*' == '", "a seed for the whole server"),
    (r"test_completion_stream\[", r"assert \d+ == 42", "a seed for the whole server"),
    (r"chat_completion_stream\[|timings_per_token|logprobs_stream", r"assert '' is None",
     "a first event whose content is null, not empty"),
    (r"without_tool_call_fast.*STREAMED", r"non empty content delta", "a first event whose content is null, not empty"),
    (r"server_props", r"'\.gguf' in", "the path of the model's file"),
    (r"server_slots|metrics_disabled|no_ui", r"200 == (501|404)", "routes that are turned off"),
    (r"aliases_and_tags", r"'aliases'", "several names of a model"),
    (r"test_completion_unified", r"assert 64 == \d+", "more tokens than the server's limit"),
    (r"post_sampling|post_backend_sampling", r"400 == 200", "probabilities behind the sampling steps"),
    (r"test_infill_with", r"400 == 200", "marks of a gap, which this model has not"),
    (r"assistant_prefill|continue_final_message|verbose_debug|test_chat_template$", r"__verbose",
     "the prompt inside the answer"),
    (r"apply_chat_template", r"START_OF_TURN_TOKEN", "templates by name"),
    (r"cached_tokens", r"assert \d+ == 77", "a first token that the template does not print"),
    (r"prompt_processed_and_cached", r"assert 0 > 0", "prompts of a few tokens that are cached"),
    (r"context_size_exceeded", r"exceed_context_size_error", "other types of errors than OpenAI's"),
    (r"incorrect_api_key", r"authentication_error", "other types of errors than OpenAI's"),
    (r"return_progress", r"assert \d+ == \d+", "how a prompt is cut into steps"),
    (r"token_count", r"404 == 200", "/chat/completions/input_tokens"),
    (r"invalid_chat_completion_req\[messages7\]", r"200 == 400", "two answers in a row, which are taken here"),
    (r"correct_api_key", r"'content' in", "/completions as its own form, which is OpenAI's here"),
    (r"static_assets", r"got 404", "its page"),
    (r"cors_", r"(403|204|404) == 200", "its rules for pages of other origins"),
    (r"local_media|with_image|vision", r"400 == 200|[24]00 == 500|ConnectionError", "pictures"),
    (r"prometheus_format|predicted_total", r"Process-Start-Time-Unix", "a header of its metrics with the time of its start"),
    (r"progress|telemetry", r"'timings'|assert False", "times and progress in every piece"),
    (r"embedding", r"404 == 200", "embeddings"),
    (r"empty_messages", r"400 == 200", "an empty list of messages, which is a 400 here as at Anthropic"),
    (r"ctx_shift", r"False is True|504 == 248|200 != 200", "a context that moves on, or that is cut up for its slots"),
    (r"test_reasoning\[.*-(on|auto)-", r"Expected prompt to end with", "reasoning that is on by default"),
    (r"test_date_inside_prompt", r"today's date|400 == 200", "variables that it gives to templates"),
]


def reason_for(name, why):
    return next((reason for test, said, reason in NOT_MEANT if re.search(test, name) and re.search(said, why)), None)


def outcomes(folder, program, model, files):
    """(file, name, passed or failed or skipped, why)"""
    here = os.path.dirname(os.path.abspath(__file__))
    env = {**os.environ, "WHIMBREL": os.path.abspath(program), "MODEL": os.path.abspath(model),
           "LLAMA_SERVER_BIN_PATH": os.path.join(here, "as-llama-server")}
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "not slow", "--timeout", "120", "-p", "no:cacheprovider", "--tb=line",
                        "--junitxml", report.name, *(os.path.join("unit", name) for name in files)],
                       cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for case in ET.parse(report.name).iter("testcase"):
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            what = "failed" if bad is not None else "skipped" if case.find("skipped") is not None else "passed"
            why = (bad.get("message") or "") if bad is not None else ""
            yield case.get("classname").split(".")[-1] + ".py", case.get("name"), what, why


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder, program, model, *files = sys.argv[1:]
    everything = sorted(name for name in os.listdir(os.path.join(folder, "unit")) if re.match(r"test_.*\.py$", name))
    files = files or [name for name in everything if name not in NOT_THERE]
    table, reasons, failures = {name: {} for name in files}, {}, []
    for file, name, what, why in outcomes(folder, program, model, files):
        reason = reason_for(name, why)
        if what == "failed" and reason is not None:
            what = "does not apply"
            reasons.setdefault(reason, []).append(name.split("[")[0])
        elif what == "failed":
            failures.append((file, name, why))
        table.setdefault(file, {})[what] = table.setdefault(file, {}).get(what, 0) + 1
    kinds = ("passed", "failed", "does not apply", "skipped")
    print("| file | " + " | ".join(kinds) + " |\n|" + " --- |" * 5)
    for file, counts in table.items():
        print(f"| `{file}` | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + " |")
    for reason, names in reasons.items():
        print(f"does not apply: {reason}: " + ", ".join(sorted(set(names))))
    for name in everything:
        if name in NOT_THERE and name not in files:
            print(f"not run: {name}: {NOT_THERE[name]}")
    for file, name, why in failures:
        print(f"failed\t{file}\t{name}\t{' '.join(why.split())[:300]}", file=sys.stderr)
    sys.exit(1 if failures or not any(table.values()) else 0)


if __name__ == "__main__":
    main()
