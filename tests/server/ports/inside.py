"""What listens inside a sandbox in the tests of ports: HTTP of several kinds, and an echo over WebSocket (RFC 6455)."""

import base64
import hashlib
import json
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket" and self.path.startswith("/ws"):
            return self.echo()
        path = self.path.split("?")[0]
        if path == "/events":
            return self.events()
        if path.startswith("/big/"):
            return self.big(int(path.split("/")[2]))
        if path == "/redirect":
            return self.answer(302, b"", {"Location": "/there?x=1"})
        if path == "/redirect-absolute":
            return self.answer(302, b"", {"Location": f"http://localhost:{self.server.server_port}/there"})
        if path == "/redirect-away":
            return self.answer(302, b"", {"Location": "https://example.org/"})
        if path == "/cookies":
            cookies = ["a=1; Domain=example.com; Path=/x", "b=2", "dormouse-preview=forged"]
            return self.answer(200, b"", [("Set-Cookie", cookie) for cookie in cookies])
        if path in ("/cut", "/slow"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            time.sleep(60 if path == "/slow" else 0)
            self.close_connection = True
            return None
        if path == "/hang-up":
            self.close_connection = True
            return None
        return self.tell()

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_PROPFIND = lambda self: self.tell()

    def do_POST(self):
        if self.path == "/refuse":
            self.close_connection = True
            return self.answer(413, b"too much", {"Connection": "close"})
        return self.tell()

    def tell(self):
        """What was received, headers as they came."""
        digest, size = self.body()
        told = {
            "method": self.command, "path": self.path, "headers": self.headers.items(),
            "bytes": size, "sha256": digest,
        }  # fmt: skip
        self.answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def body(self):
        digest, size = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            size += len(piece)
        return digest.hexdigest(), size

    def pieces(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            left -= len(piece)
            yield piece

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items() if isinstance(headers, dict) else headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for n in range(5):
            time.sleep(0.2)
            self.wfile.write(b"data: %d\n\n" % n)
            self.wfile.flush()
        self.close_connection = True

    def big(self, mebibytes):
        self.send_response(200)
        self.send_header("Content-Length", str(mebibytes * 1024**2))
        self.end_headers()
        piece = bytes(range(256)) * 4096
        for _ in range(mebibytes):
            self.wfile.write(piece)

    def echo(self):
        accept = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + GUID).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        if self.path == "/ws/headers":
            self.frame(1, json.dumps(self.headers.items()).encode())
        while True:
            first, second = self.rfile.read(2)
            length = second & 0x7F
            if length >= 126:
                length = struct.unpack(*((">H", self.rfile.read(2)) if length == 126 else (">Q", self.rfile.read(8))))[0]
            mask = self.rfile.read(4)
            data = self.rfile.read(length)
            key = (mask * (length // 4 + 1))[:length]
            plain = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
            self.frame(first & 0x0F, plain)
            if first & 0x0F == 8:
                return

    def frame(self, opcode, data):
        size = len(data)
        if size < 126:
            head = bytes([size])
        else:
            head = struct.pack(">BH", 126, size) if size < 65536 else struct.pack(">BQ", 127, size)
        self.wfile.write(bytes([0x80 | opcode]) + head + data)
        self.wfile.flush()

    def log_message(self, *_):
        pass


ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
