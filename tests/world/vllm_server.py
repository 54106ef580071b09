#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of vLLM's entrypoints that only speak HTTP against whimbrel, and print a table.

usage: vllm_server.py FOLDER WHIMBREL MODEL.gguf [FILE...]

FOLDER is a checkout of vLLM (its tests folder is enough); MODEL stands for every model that a test asks for, under the
name that it asks for. FILE is completion/test_completion.py and the like, below tests/entrypoints/openai. vLLM and
PyTorch are not needed: a stand-in gives the tests their server, and a mock for whatever else they import. Tests that
ask for no server are of vLLM's classes and are skipped. Answers without a limit end after 600 tokens, since a small model
does not end by itself. The Python that runs this has pytest, pytest-asyncio, pytest-timeout, openai, requests, regex and
jsonschema. LOG names a file for what pytest prints. Nothing is fetched. Fails where a failure has no reason here."""

import importlib.abc
import importlib.machinery
import inspect
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest.mock
import urllib.request
import xml.etree.ElementTree as ET

FILES = ("completion/test_completion.py", "completion/test_prompt_validation.py", "completion/test_token_in_token_out.py",
         "chat_completion/test_batched_chat_completions.py", "chat_completion/test_chat.py",
         "chat_completion/test_chat_completion.py", "chat_completion/test_chat_echo.py",
         "chat_completion/test_chat_logit_bias_validation.py", "chat_completion/test_completion_with_function_calling.py",
         "chat_completion/test_enable_force_include_usage.py", "chat_completion/test_extra_content_fields.py",
         "chat_completion/test_include_reasoning.py", "chat_completion/test_logprob_token_ids.py",
         "chat_completion/test_non_object_body_validation.py", "chat_completion/test_root_path.py",
         "chat_completion/test_thinking_token_budget.py", "models/test_models.py", "responses/test_basic.py",
         "responses/test_errors.py", "responses/test_function_call.py", "responses/test_simple.py",
         "responses/test_stateful.py", "responses/test_streaming_events.py", "responses/test_structured_output.py",
         "test_chunked_prompt.py", "test_return_token_ids.py", "test_return_tokens_as_ids.py", "test_stop_token_ids.py")

# The test, what its failure says, and why that says nothing about whimbrel. Another failure of the same test counts.
NOT_MEANT = [
    (r"", r"MagicMock|Mock object|TypeError: first argument must be|any\(<generator", "what vLLM's tokenizer or its classes would say"),
    (r"lora|test_check_models", r"NotFoundError|IndexError|qwen3_lora_files", "adapters"),
    (r"", r'"(prompt_logprobs|logprob_token_ids|thinking_token_budget|use_beam_search)" is not supported|'
          r"no attribute 'prompt_logprobs'", "fields that are a 400 here, by name"),
    (r"batched_chat", r"no route /v1/chat/completions/batch", "/v1/chat/completions/batch"),
    (r"test_invocations", r"/invocations", "/invocations"),
    (r"root_path", r"no route /llm/v1", "a path in front of all routes"),
    (r"root_path|chat_echo|continue_final_message", r"'length' == 'stop'", "a model that ends by itself"),
    (r"test_responses|responses/", r"'?(response\.)?incomplete'? == '?(response\.)?completed|ResponseIncompleteEvent|"
                                   r"len\(\['response\.created'\]|response\.crea", "a model that ends by itself"),
    (r"single_chat_session|single_completion", r"CompletionUsa", "how many tokens a text has, and details of usage"),
    (r"chat_streaming|completion_streaming", r"assert (None|'')", "a last piece that has text"),
    (r"completion_stream_options|chunked_prompt", r"0 > 0|assert ''", "a first piece that has a token"),
    (r"chunked_prompt", r"Timeout", "a prompt of thousands of tokens in two minutes, on a busy machine"),
    (r"parallel_streaming", r"chunk len is 52", "a first piece that has a token, and a last one that has text"),
    (r"parallel_no_streaming|choice_chat", r"1 > 1|assert '(\w+)' != '\1'", "answers that happen to differ"),
    (r"empty_grammar", r"DID NOT RAISE", "an empty grammar, which is none here"),
    (r"structured|json_object|json_schema", r"JSONDecodeError|Unterminated|Invalid JSON|\{'result'|== 'science fair'",
     "answers of a larger model"),
    (r"complex_message_content|simple_input|instructions|test_chat$|translategemma|function_call|function_tool|tool_use|"
     r"with_streaming", r"assert '|Spanish|0 >= 2|None is not None|NoneType|JSONDecodeError|StopIteration|assert 0|"
                        r"IndexError|list index|assert False|assert None|assert \[\]", "answers of a larger model"),
    (r"reasoning|function_tool_use", r"[Rr]easoning|assert (None|'')|None is not None", "a model that thinks"),
    (r"kv_transfer", r"assert \[|prompt_token_ids", "kv_transfer_params, and prompt_token_ids in a stream"),
    (r"top_logprobs", r'"logprobs" must be true or false', "a text for true"),
    (r"logit_bias", r"must have token ids from 0", "other words in a message, or ids that the model has not"),
    (r"logprob_token_ids", r'"allowed_token_ids" must hold token ids', "ids that the model has not"),
    (r"force_include_usage", r"'NoneType' object has no attribute 'prompt_tokens'", "an option of its server"),
    (r"prompt_validation|empty_prompt|out_of_vocab|background_error", r"Regex pattern did not match",
     "other words in a message"),
    (r"stateful", r"assert '(Mark|John)' in", "answers of a larger model"),
    (r"logprobs", r"message\.output_text\.logprobs", "log-probabilities in /v1/responses, which are a 400 here"),
    (r"background", r'"background" cannot be true', "answers in the background, which are a 400 here"),
    (r"chunked_prompt|stateful|previous|same_prev_id|function_tool|tool_choice_required", r"maximum context length|too long",
     "a longer context than that of the model"),
    (r"emoji", r"'prompt_token_ids' in", "fields that are null, and not left out"),
    (r"return_tokens_as_token_ids", r"At index 0 diff|invalid literal for int", "its own option, and the order of keys"),
    (r"token_ids", r"no attribute 'token_ids'|assert False", "fields that are null, and not left out"),
    (r"cancel_completed|test_store", r"incomplete", "a model that ends by itself"),
]


def reason_for(file, name, why):
    test = f"{file}::{name}"
    return next((reason for which, said, reason in NOT_MEANT if re.search(which, test) and re.search(said, why)), None)


# --- what the tests are given --------------------------------------------------------------------


class Server:
    """vLLM's RemoteOpenAIServer, with whimbrel behind it."""
    DUMMY_API_KEY = "token-abc123"
    OPTIONS = {"--max-model-len": "--ctx", "--api-key": "--api-key", "--chat-template": "--chat-template"}

    def __init__(self, model, vllm_serve_args=(), **_):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.host = "127.0.0.1"
        words = [str(word) for word in vllm_serve_args]
        given = {self.OPTIONS[word]: words[i + 1] for i, word in enumerate(words[:-1]) if word in self.OPTIONS}
        try:
            self.start(model, given)
        except RuntimeError:  # the model that stands in was made for a shorter context
            if given.pop("--ctx", None) is None:
                raise
            self.start(model, given)

    def start(self, model, given):
        args = [word for option in given.items() for word in option]
        self.process = subprocess.Popen(
            [os.environ["WHIMBREL"], "serve", "--no-kv-dir", os.environ["MODEL"], "--host", self.host, "--port",
             str(self.port), "--served-model-name", model, "--strict-model", "--max-tokens", "600", *args])
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url_for("health")).read()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("the server ended") from None
                time.sleep(0.1)
        raise RuntimeError("the server does not answer")

    @property
    def url_root(self):
        return f"http://{self.host}:{self.port}"

    def url_for(self, *parts):
        return "/".join([self.url_root, *parts])

    def get_client(self, **more):
        import openai
        return openai.OpenAI(**{"base_url": self.url_for("v1"), "api_key": self.DUMMY_API_KEY, "max_retries": 0, **more})

    def get_async_client(self, **more):
        import openai
        return openai.AsyncOpenAI(**{"base_url": self.url_for("v1"), "api_key": self.DUMMY_API_KEY, "max_retries": 0,
                                     **more})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Mock(types.ModuleType):
    """A module that has whatever is asked of it; errors are exceptions."""
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Exception,), {}) if name.endswith("Error") else unittest.mock.MagicMock(name=name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    NAMES = ("vllm", "torch", "pybase64", "transformers", "huggingface_hub", "openai_harmony", "mcp")

    def find_spec(self, name, path=None, target=None):
        mocked = name.split(".")[0] in self.NAMES or name == "tests.utils"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if mocked else None

    def create_module(self, spec):
        module = Mock(spec.name)
        if spec.name == "tests.utils":
            module.RemoteOpenAIServer = Server
        return module

    def exec_module(self, module):
        pass


def asks_a_server(item):
    names = getattr(item, "fixturenames", ())
    return any(re.search(r"client|server", name) for name in names) or "RemoteOpenAIServer" in inspect.getsource(item.obj)


def pytest_collection_modifyitems(items):
    import pytest
    for item in items:
        if not asks_a_server(item):
            item.add_marker(pytest.mark.skip(reason="asks for no server"))


if __name__ != "__main__":  # a plugin of pytest
    sys.meta_path.insert(0, Finder())

# --- the run -------------------------------------------------------------------------------------


def outcomes(folder, program, model, files):
    here = os.path.dirname(os.path.abspath(__file__))
    env = {**os.environ, "WHIMBREL": os.path.abspath(program), "MODEL": os.path.abspath(model), "PYTHONPATH": here}
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        subprocess.run([sys.executable, "-m", "pytest", "-p", "vllm_server", "-q", "--timeout", "120", "--tb=short",
                        "-p", "no:cacheprovider", "--confcutdir", "tests/entrypoints", "-c", os.devnull, "--rootdir", ".",
                        "--junitxml", report.name, *(os.path.join("tests/entrypoints/openai", name) for name in files)],
                       cwd=folder, env=env, stdout=open(os.environ.get("LOG", os.devnull), "w"), stderr=subprocess.STDOUT)
        for case in ET.parse(report.name).iter("testcase"):
            bad = case.find("failure") if case.find("failure") is not None else case.find("error")
            what = "failed" if bad is not None else "skipped" if case.find("skipped") is not None else "passed"
            why = (bad.get("message") or "") if bad is not None else ""
            file = re.sub(r"^tests\.entrypoints\.openai\.", "", case.get("classname"))
            file = re.sub(r"/Test\w+$", "", file.replace(".", "/")) + ".py"
            yield file, case.get("name"), what, why


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder, program, model, *files = sys.argv[1:]
    table, reasons, failures = {}, {}, []
    for file, name, what, why in outcomes(folder, program, model, files or FILES):
        reason = reason_for(file, name, why) if what == "failed" else None
        if reason is not None:
            what = "does not apply"
            reasons.setdefault(reason, []).append(name.split("[")[0])
        elif what == "failed":
            failures.append((file, name, why))
        counts = table.setdefault(file, {})
        counts[what] = counts.get(what, 0) + 1
    kinds = ("passed", "failed", "does not apply", "skipped")
    print("| file | passed | failed | does not apply | of its classes |\n|" + " --- |" * 5)
    for file, counts in sorted(table.items()):
        print(f"| `{file}` | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + " |")
    for reason, names in reasons.items():
        print(f"does not apply: {reason}: {len(names)}: " + ", ".join(sorted(set(names))))
    for file, name, why in failures:
        print(f"failed\t{file}\t{name}\t{' '.join(why.split())[:300]}", file=sys.stderr)
    sys.exit(1 if failures or not table else 0)


if __name__ == "__main__":
    main()
