"""Answers requests only once the file `go` exists. An answer says what was received, and how often it was asked."""

import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

asked = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        asked[self.path] = asked.get(self.path, 0) + 1
        # Before the body is complete: tests wait for the beginning of a request.
        note = f"/root/asked.{threading.get_ident()}"
        with open(note, "w") as file:
            file.write(json.dumps(asked))
        os.replace(note, "/root/asked")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        while not os.path.exists("/root/go"):
            time.sleep(0.02)
        told = {"asked": asked[self.path], "sha256": hashlib.sha256(body).hexdigest()}
        answer = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *_):
        pass


ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
