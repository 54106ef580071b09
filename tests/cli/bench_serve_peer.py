# SPDX-License-Identifier: Apache-2.0
"""A server for bench_serve.sh that answers as the model's name says, with known delays. It prints its port, and
writes a line of JSON for each request into the file that is its argument."""
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FIRST_S, NEXT_S = 0.06, 0.02
lock = threading.Lock()
state = {"n": 0, "now": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, data):
        self.wfile.write(data)
        self.wfile.flush()

    def document(self, status, obj):
        data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        self.send(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
                  (status, len(data)) + data)

    def do_GET(self):
        self.close_connection = True
        self.document(200, {"object": "list", "data": [{"id": "plain"}, {"id": "other"}]})

    def do_POST(self):
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.counts = True
        with lock:
            state["n"] += 1
            state["now"] += 1
            number = state["n"]
            log.write(json.dumps({"path": self.path, "auth": self.headers["Authorization"], "now": state["now"],
                                  "body": body}) + "\n")
            log.flush()
        try:
            self.answer(body, body["model"], number)
        except ConnectionError:
            pass  # a client that gave up
        finally:
            self.leave()

    def leave(self):
        """Under way no longer: before the client hears of its end, or its next request could be counted beside this one."""
        with lock:
            state["now"] -= self.counts
            self.counts = False

    def answer(self, body, how, number):
        if how == "mixed":
            how = ["plain", "status", "plain", "half"][number % 4]
        if how == "status":
            self.document(503, {"error": {"message": "too busy \x1b[31m<now>", "type": "x"}})
        elif how == "notfound":
            self.document(404, b"nothing here")
        elif how == "json":
            self.document(200, {"choices": [{"text": "a"}]})
        elif how == "garbage":
            self.send(b"220 mail.example ready\r\n")
        elif how == "early":
            self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/ev")
        elif how == "silent":
            time.sleep(3)
        elif how != "reset":
            self.stream(body, how)

    def piece(self, data):
        """Body bytes in the form of this model."""
        if self.how == "raw":
            self.send(data)
        elif self.how == "bytes":
            self.send(b"".join(b"1;x=y\r\n%c\r\n" % c for c in data.replace(b"\n", b"\r\n")))
        else:
            self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, obj):
        text = obj if isinstance(obj, str) else json.dumps(obj, indent=1 if self.how == "bytes" else None)
        self.piece(b"".join(b"data: %s\n" % line.encode() for line in text.split("\n")) + b"\n")

    def token(self, text, finish=None, first=False):
        choice = {"index": 0, "finish_reason": finish}
        if self.chat:
            key = "reasoning_content" if self.how == "thinks" else "content"
            choice["delta"] = {"role": "assistant", "content": ""} if first else {} if finish else {key: text}
        else:
            choice["text"] = text
        self.event({"choices": [choice], "usage": None})

    def stream(self, body, how):
        self.how, self.chat = how, "messages" in body
        n = 3 if how == "short" else body["max_tokens"]
        text = body["messages"][0]["content"] if self.chat else body["prompt"]
        if how == "bytes":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
                  (b"" if how == "raw" else b"Transfer-Encoding: chunked\r\n") + b"\r\n")
        if self.chat or how == "opener":
            self.token("", first=True)
        if how == "bytes":
            self.piece(b": keep-alive\n\nevent: chunk\n\n")
        time.sleep(FIRST_S)
        if how == "half":
            self.token("a")
            return
        if how == "error":
            self.token("a")
            self.event({"error": {"message": "lost the model"}})
            return
        if how == "badjson":
            self.event("{\"choices\": [")
            return
        step = 2 if how == "pairs" else 1
        for i in range(0 if how == "empty" else n // step):
            time.sleep(NEXT_S if i > 0 else 0)
            self.token("" if how == "textless" else " word" * step)
        self.token("", finish="length")
        if how not in ("raw", "bytes"):
            self.leave()
            self.event({"choices": [], "usage": {
                "prompt_tokens": len(text.split()) + 5, "completion_tokens": n,
                "prompt_tokens_details": {"cached_tokens": 3}}})
        if how != "raw":
            self.event("[DONE]")
            self.send(b"0\r\n\r\n")


log = open(sys.argv[1], "a")
ThreadingHTTPServer.request_queue_size = 128
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
