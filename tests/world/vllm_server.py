#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the tests of vLLM's entrypoints that only speak HTTP against whimbrel, and print a table.

usage: vllm_server.py FOLDER WHIMBREL MODEL.gguf [FILE...]

FOLDER is a checkout of vLLM (its tests folder is enough); MODEL stands for every model that a test asks for, under the
name that it asks for. FILE is completion/test_completion.py and the like, below tests/entrypoints/openai. vLLM and
PyTorch are not needed: a stand-in gives the tests their server, and a mock for whatever else they import. The Python
that runs this has pytest, pytest-asyncio, pytest-timeout, openai, requests, regex and jsonschema. Nothing is fetched."""

import importlib.abc
import importlib.machinery
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
         "chat_completion/test_chat.py", "chat_completion/test_chat_completion.py", "chat_completion/test_chat_echo.py",
         "chat_completion/test_chat_logit_bias_validation.py", "chat_completion/test_completion_with_function_calling.py",
         "chat_completion/test_enable_force_include_usage.py", "chat_completion/test_extra_content_fields.py",
         "chat_completion/test_include_reasoning.py", "chat_completion/test_non_object_body_validation.py",
         "chat_completion/test_root_path.py", "models/test_models.py", "responses/test_basic.py",
         "responses/test_errors.py", "responses/test_simple.py", "responses/test_stateful.py",
         "responses/test_structured_output.py", "test_chunked_prompt.py", "test_return_token_ids.py",
         "test_return_tokens_as_ids.py", "test_stop_token_ids.py")

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
             str(self.port), "--served-model-name", model, "--strict-model", *args])
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
            why = (bad.get("message") or "").split("\n")[0][:160] if bad is not None else ""
            file = re.sub(r"^tests\.entrypoints\.openai\.", "", case.get("classname")).replace(".", "/") + ".py"
            yield file, case.get("name"), what, why


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder, program, model, *files = sys.argv[1:]
    table, failures = {}, []
    for file, name, what, why in outcomes(folder, program, model, files or FILES):
        counts = table.setdefault(file, {})
        counts[what] = counts.get(what, 0) + 1
        if what == "failed":
            failures.append((file, name, why))
    print("| file | passed | failed | skipped |\n| --- | --- | --- | --- |")
    for file, counts in sorted(table.items()):
        print(f"| `{file}` | {counts.get('passed', 0)} | {counts.get('failed', 0)} | {counts.get('skipped', 0)} |")
    for file, name, why in failures:
        print(f"failed\t{file}\t{name}\t{why}", file=sys.stderr)


if __name__ == "__main__":
    main()
