import unittest
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from dormouse import DormouseError, Sandbox

SERVE = """
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *_): pass
def serve(): http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
threading.Timer(0.5, serve).start()
"""


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


class PortsTest(unittest.TestCase):
    def test_wait_links_and_access(self):
        with Sandbox() as s:
            with self.assertRaises(DormouseError) as raised:
                s.wait_for_port(8000, timeout=0.01)
            self.assertEqual(raised.exception.code, "port_closed")
            s.run_code(SERVE)
            port = s.wait_for_port(8000)
            self.assertEqual((port.port, port.is_listening, port.access), (8000, True, "private"))
            self.assertEqual(s.ports.list(), [port])
            link = s.ports.link(8000, expires_in=60)
            # By path: not every machine resolves names below localhost.
            base = f"{s.client.url}/v1/sandboxes/{s.id}/ports/8000/"
            with urllib.request.urlopen(f"{base}?{urlsplit(link.url).query}") as answer:
                self.assertEqual(answer.read(), b"hello")
            self.assertEqual(status_of(base), 401)
            self.assertEqual(s.ports.set_access(8000, "public").access, "public")
            self.assertEqual(status_of(base), 200)
            self.assertEqual(s.ports.set_access(8000, "private").access, "private")
            self.assertEqual(status_of(base), 401)
            self.assertFalse(s.ports.get(8001).is_listening)
