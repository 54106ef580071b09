# SPDX-License-Identifier: Apache-2.0
"""A server of the OpenAI dialect with fixed answers: chat_server.py LOG [KEY]. Prints its port. Every request's path, key and
body go to LOG, a JSON object in each line. What the last message says chooses the answer; it comes in pieces of three
bytes' worth of characters, each chunk of HTTP cut once more. With TLS_CERT (a PEM file with its key) in the environment it
speaks https; with TLS_CLIENTS=1, too, only to clients that have a certificate."""
import http.server
import json
import os
import ssl
import sys
import time

LOG, KEY = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
SENTENCE = "The curvature of spacetime tells matter how to move, and matter tells spacetime how it has to curve. "
ANSWERS = {
    "wrap": SENTENCE * 3,
    "marks": "# A heading\nsome **bold words** and *slanted ones*, 2 ** 3, `code` here\n- an item that is long enough to need "
             "a second row, which hangs below the first one\n\n```c\nint a = 1; /* a line of code that is much longer than "
             "the terminal is wide, and is not broken between words */\n```\nend",
    "wide": "天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往秋収冬蔵閏余成歳律呂調陽雲騰致雨露結為霜",
    "stop": "word " * 2000,
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self, body):
        with open(LOG, "a") as log:
            log.write(json.dumps({"path": self.path, "key": self.headers.get("Authorization"), "body": body}) + "\n")

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refused(self):
        if KEY and self.headers.get("Authorization") != "Bearer " + KEY:
            self.reply(401, {"error": {"message": "no such key"}})
            return True
        return False

    def do_GET(self):
        self.note(None)
        if not self.refused():
            self.reply(200, {"data": [{"id": "first", "max_model_len": 4096}, {"id": "second"}]})

    def piece(self, text):
        data = text.encode()
        half = len(data) // 2
        self.wfile.write(b"%x\r\n" % len(data) + data[:half])
        self.wfile.flush()
        self.wfile.write(data[half:] + b"\r\n")

    def chunk(self, delta, finish=None, usage=None):
        value = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        if usage:
            value = {"choices": [], "usage": usage}
        self.piece("data: " + json.dumps(value, ensure_ascii=False) + "\n\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.note(body)
        asked = body["messages"][-1]["content"]
        if self.refused():
            return
        if asked == "full":
            self.reply(400, {"error": {"message": "the prompt has 5000 tokens, the context 4096"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        answer = ANSWERS.get(asked, f"{body.get('model')} heard {asked if len(asked) < 1000 else len(asked)}")
        try:
            self.chunk({"role": "assistant", "content": ""})
            if asked == "think":
                self.chunk({"reasoning_content": "hm "})
            for i in range(0, len(answer), 3):
                self.chunk({"content": answer[i:i + 3]})
                if asked == "stop":
                    time.sleep(0.01)
                if asked == "cut" and i > 3:
                    self.close_connection = True
                    return
            self.chunk({}, "length" if asked == "long" else "stop")
            self.chunk(None, usage={"prompt_tokens": 7, "completion_tokens": 5})
            self.piece("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.note("the client left")


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that leaves, or does not trust us."""


server = Server(("127.0.0.1", 0), Handler)
server.daemon_threads = True
if "TLS_CERT" in os.environ:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.environ["TLS_CERT"])
    if "TLS_CLIENTS" in os.environ:
        tls.verify_mode = ssl.CERT_REQUIRED
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
