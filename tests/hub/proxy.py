# SPDX-License-Identifier: Apache-2.0
"""A proxy on loopback: hands on plain requests and makes tunnels (CONNECT). `seen` has the first line of each request."""
import select
import socket
import socketserver
import threading
import urllib.parse


class Proxy(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __exit__(self, *args):
        self.shutdown()
        super().__exit__(*args)


class Handler(socketserver.StreamRequestHandler):
    rbufsize = 0  # nothing is read ahead: what follows the head belongs to the other side

    def handle(self):
        head = [line for line in iter(self.rfile.readline, b"\r\n") if line]
        self.server.seen.append(head[0].decode("latin-1").rstrip())
        method, target, version = head[0].split()
        if method == b"CONNECT":
            host, _, port = target.rpartition(b":")
            with socket.create_connection((host.decode(), int(port))) as there:
                self.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self.relay(there)
            return
        url = urllib.parse.urlsplit(target.decode())
        with socket.create_connection((url.hostname, url.port)) as there:
            path = url.path + ("?" + url.query if url.query else "")
            kept = [line for line in head[1:] if not line.lower().startswith((b"proxy-", b"connection:"))]
            there.sendall(b"%s %s %s\r\n%sConnection: close\r\n\r\n" % (method, path.encode(), version, b"".join(kept)))
            self.relay(there)

    def relay(self, there):
        """Bytes both ways until one side ends."""
        other = {self.connection: there, there: self.connection}
        try:
            while True:
                for side in select.select(list(other), [], [])[0]:
                    data = side.recv(1 << 16)
                    if not data:
                        return
                    other[side].sendall(data)
        except OSError:
            pass
