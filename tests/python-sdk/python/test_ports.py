import unittest
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

from dormouse import DormouseError, InvalidArgumentError, Sandbox

SERVE = """
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *_): pass
def serve(): http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
threading.Timer(0.5, serve).start()
"""

REDIRECT = """
import http.server, threading, urllib.parse
class Redirect(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        to = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("to")
        body = f"{self.command} {self.path}".encode()
        self.send_response(int(self.path[1:4]) if to else 200)
        if to: self.send_header("location", to[0])
        self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_): pass
threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Redirect).serve_forever).start()
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
            with urllib.request.urlopen(link.path_url) as answer:
                self.assertEqual(answer.read(), b"hello")
            self.assertEqual(status_of(port.path_url), 401)
            fetched = s.ports.fetch(8000, "/any?x=1")
            self.assertEqual((fetched.status, fetched.ok, fetched.text), (200, True, "hello"))
            self.assertEqual(s.ports.fetch(8000, "any", method="POST", body="x").status, 501)
            for wrong, code in [((8001,), "port_closed"), ((8000, "/"), "invalid_argument")]:
                headers = {"Authorization": "x"} if code == "invalid_argument" else {}
                with self.assertRaises(DormouseError) as refused:
                    s.ports.fetch(*wrong, headers=headers)
                self.assertEqual(refused.exception.code, code)
            for path in ("/../../..", "..", "/%2e%2e/", "/a/../../x", "/..\\.."):
                with self.assertRaises(InvalidArgumentError):
                    s.ports.fetch(8000, path)
            self.assertEqual(s.ports.fetch(8000, "/a/../b").text, "hello")
            self.assertEqual(s.ports.set_access(8000, "public").access, "public")
            self.assertEqual(status_of(base), 200)
            self.assertEqual(s.ports.set_access(8000, "private").access, "private")
            self.assertEqual(status_of(base), 401)
            self.assertFalse(s.ports.get(8001).is_listening)

    def test_redirects_are_followed_within_the_port_only(self):
        with Sandbox() as s:
            s.run_code(REDIRECT)
            s.wait_for_port(8000)

            def fetched(status, to, method="GET"):
                return s.ports.fetch(8000, f"/{status}/a?to={quote(to, safe='')}", method=method)

            self.assertEqual(fetched(302, "/b").text, "GET /b")
            self.assertEqual(fetched(302, "c?x=1").text, "GET /302/c?x=1")
            self.assertEqual(fetched(303, "../d", "POST").text, "GET /d")
            self.assertEqual(fetched(307, "http://localhost:8000/e", "POST").text, "POST /e")
            # The key of the client would put the sandbox to sleep.
            standby, host = f"/v1/sandboxes/{s.id}/standby", urlsplit(s.client.url).netloc
            for out in (s.client.url + standby, "/.." * 11 + standby, f"//{host}{standby}"):
                self.assertEqual(fetched(307, out, "POST").status, 307)
            self.assertEqual(s.info().state, "running")
