"""A program as people deploy it: counts requests in memory, keeps sessions and files, ends when asked to."""
import http.server
import json
import os
import sys
import threading
import time
import uuid

count = 0
# Another start of the program has another one.
started = uuid.uuid4().hex
lock = threading.Lock()
sessions = set()
healthy = True
# A program may listen before it can answer.
warm_at = time.monotonic() + float(os.environ.get("WARM_AFTER", 0))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global count, healthy
        if self.path == "/end":
            print("told to end", flush=True)
            os._exit(3)
        if self.path == "/sick":
            healthy = False
        if self.path == "/slow":
            time.sleep(1)
        with lock:
            count += 1
            seen = count
            if self.path == "/keep":
                with open("/data/kept", "a") as kept:
                    print(os.uname().nodename, seen, file=kept)
        print(f"request {seen} for {self.path}", flush=True)
        told = {"count": seen, "version": VERSION, "started": started, "pid": os.getpid(), "host": os.uname().nodename}
        is_well = healthy and time.monotonic() >= warm_at
        self.answer(503 if self.path == "/healthz" and not is_well else 200, told)

    def do_POST(self):
        """Begins a session, or continues one that this process knows."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        given = self.headers.get("mcp-session-id")
        if given is not None:
            self.answer(200 if given in sessions else 404, {"host": os.uname().nodename})
            return
        session = uuid.uuid4().hex
        sessions.add(session)
        self.answer(200, {"host": os.uname().nodename}, {"mcp-session-id": session})

    def answer(self, status, told, headers=None):
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


VERSION = os.environ.get("VERSION", "none")
print(f"version {VERSION} listens on {os.environ['PORT']}", flush=True)
print("a word to stderr", file=sys.stderr, flush=True)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
