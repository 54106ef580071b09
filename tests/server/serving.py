# SPDX-License-Identifier: Apache-2.0
"""A server for the tests: started on a free port, its log kept, and read for what only the log tells."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import httpx2

import wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("WHIMBREL", str(ROOT / "build" / os.uname().machine / "whimbrel"))
LOGS = ROOT / "build" / "test-logs" / "server"
START_LIMIT_S = 60


def write_tokenizer(folder, n_vocab):
    """For a tiny model, which has none: one printable character for each id, "!" for 0 and so on."""
    vocab = {chr(33 + i): i for i in range(n_vocab)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level,
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "unk_token": None, "fuse_unk": False, "vocab": vocab, "merges": []}}))


class Server:
    def __init__(self, name, *args, env=None, before=()):
        """`before` are the words of a command that runs another one in its own place."""
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log_path = LOGS / f"{name}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*before, PROGRAM, "serve", "--port", "0", "--log-level", "debug", *args],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **(env or {})})
        match = self.wait_log(r"event=ready model=(\S+) port=(\d+)", START_LIMIT_S)
        self.model, self.port = match.group(1), int(match.group(2))
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx2.Client(base_url=self.url, transport=wire.CheckedTransport(), timeout=300)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, pattern, seconds=60):
        """The first match of a pattern in the log, waited for."""
        until = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.log())
            if match:
                return match
            assert self.process.poll() is None, f"the server has ended: {self.log()[-2000:]}"
            assert time.monotonic() < until, f"not in the log after {seconds} s: {pattern}; {self.log()[-1500:]}"
            time.sleep(0.02)

    def request_line(self, request_id):
        """The log line of a finished request, as a dictionary."""
        line = self.wait_log(rf"event=request id={re.escape(request_id)} .*").group(0)
        return {k: v.strip('"') for k, v in re.findall(r'(\w+)=("[^"]*"|\S+)', line)}

    def post(self, path, body, **how):
        if isinstance(body, (bytes, str)):
            return self.http.post(path, content=body, **how)
        return self.http.post(path, json=body, **how)

    def stop(self):
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode
