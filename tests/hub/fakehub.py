# SPDX-License-Identifier: Apache-2.0
"""A hub on loopback that speaks as much of Hugging Face's API as a download needs, and misbehaves on request.

A Hub has two servers, the hub itself and the "CDN" that it sends large files to (another port: another origin).
Hooks, each a function that may be replaced:
  hub.on_api(handler, repo) and hub.on_file(handler, repo, name, start, end): send an answer of their own and
  return True, or return None for the usual one. The file hook sees what is about to be sent."""
import functools
import hashlib
import json
import re
import ssl
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGE = (".safetensors", ".gguf", ".bin")


@functools.lru_cache(maxsize=4096)
def sha256(data):
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=4096)
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self, name, files, refs=("main",)):
        self.name = name
        self.files = files
        self.commit = hashlib.sha1(repr((name, sorted(files))).encode()).hexdigest()
        self.refs = set(refs)
        self.has_blobs = True  # the listing tells sizes and checksums
        self.sizes = {}  # lies about sizes

    def etag(self, name):
        data = self.files[name]
        return sha256(data) if name.endswith(LARGE) else git_sha1(data)

    def listing(self):
        siblings = []
        for name, data in self.files.items():
            entry = {"rfilename": name}
            if self.has_blobs:
                size = self.sizes.get(name, len(data))
                entry |= {"size": size, "blobId": git_sha1(data)}
                if name.endswith(LARGE):
                    entry["lfs"] = {"sha256": sha256(data), "size": size, "pointerSize": 134}
            siblings.append(entry)
        return {"id": self.name, "sha": self.commit, "private": False, "gated": False, "siblings": siblings,
                "config": {"architectures": ["X"]}, "cardData": {"tags": ["a", {"b": [1, 2]}]}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def drop(self):
        """End the connection without a word."""
        self.close_connection = True
        return True

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server.hub, urllib.parse.urlsplit(self.path)
        with hub.lock:
            hub.log.append((self.server.role, self.command, self.path, dict(self.headers)))
        try:
            api = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", path.path)
            file = re.fullmatch(r"/([^/]+/[^/]+)/(resolve|cdn)/([^/]+)/(.+)", path.path)
            if api:
                self.api(hub, api[1], urllib.parse.unquote(api[2]))
            elif file and file[2] == "cdn" and self.server.role == "cdn":
                self.content(hub, hub.repos[file[1]], urllib.parse.unquote(file[4]))
            elif file and file[2] == "resolve" and self.server.role == "hub":
                self.resolve(hub, file[1], file[3], urllib.parse.unquote(file[4]))
            else:
                self.answer(404)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def api(self, hub, name, revision):
        repo = hub.repos.get(name)
        if hub.on_api(self, repo):
            return
        if repo is None:
            self.answer(401, b'{"error":"Invalid username or password."}', {"X-Error-Message": "Invalid username or password."})
        elif revision not in repo.refs and revision != repo.commit:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            self.answer(200, json.dumps(repo.listing()).encode(), {"Content-Type": "application/json"})

    def resolve(self, hub, name, commit, file):
        repo = hub.repos.get(name)
        if repo is None or file not in repo.files or commit != repo.commit:
            self.answer(404, headers={"X-Error-Code": "EntryNotFound"})
            return
        if file.endswith(LARGE):
            place = f"{hub.cdn_url}/{name}/cdn/x/{urllib.parse.quote(file)}?sign=1"
            self.answer(302, headers={"Location": hub.redirect(place), "X-Repo-Commit": repo.commit,
                                      "X-Linked-Etag": f'"{repo.etag(file)}"', "X-Linked-Size": str(len(repo.files[file])),
                                      "ETag": '"pointer"'})
        else:
            self.content(hub, repo, file)

    def content(self, hub, repo, file):
        data = repo.files[file]
        start, end, status, headers = 0, len(data), 200, {"ETag": f'W/"{repo.etag(file)}"', "X-Repo-Commit": repo.commit}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and hub.ranges:
            start, end, status = int(asked[1]), min(int(asked[2] or len(data) - 1) + 1, len(data)), 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        if hub.on_file(self, repo, file, start, end):
            return
        with hub.lock:
            hub.sent += end - start
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(memoryview(data)[start:end])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients that go away are what some tests are about


class Hub:
    def __init__(self, *repos, cert=None):
        self.repos = {r.name: r for r in repos}
        self.lock = threading.Lock()
        self.log = []
        self.sent = 0  # bytes of files
        self.ranges = True
        self.on_api = lambda handler, repo: None
        self.on_file = lambda handler, repo, name, start, end: None
        self.redirect = lambda place: place
        self.servers = []
        for role in ("hub", "cdn"):
            server = Server(("127.0.0.1", 0), Handler)
            server.hub, server.role = self, role
            if cert:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*cert)
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            self.servers.append(server)
        scheme = "https" if cert else "http"
        self.url, self.cdn_url = (f"{scheme}://127.0.0.1:{s.server_address[1]}" for s in self.servers)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def requests(self, role=None):
        with self.lock:
            return [entry for entry in self.log if role in (None, entry[0])]
