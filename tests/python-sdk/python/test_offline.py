"""Tests without a real server."""

import base64
import hashlib
import json
import os
import pickle
import socket
import struct
import tempfile
import threading
import time
import unittest
from unittest import mock

from dormouse import AuthenticationError, Client, DormouseError, InvalidArgumentError, LimitError, Sandbox
from dormouse import ServerUnreachableError
from dormouse._address import find_address
from dormouse._errors import unreachable
from dormouse._paths import path_part
from dormouse._sync.websocket import WebSocket
from dormouse._version import VERSION
from scripted_server import SANDBOX, ScriptedServer, answer

HEALTHY = json.dumps({"status": "ok", "version": "1"})
ERROR = json.dumps({"error": {"code": "rate_limited", "message": "slowly", "hint": "wait", "requestId": "r-1"}})


def read_frame(connection):
    """The opcode and the payload of a masked frame."""
    reader = connection.makefile("rb", buffering=0)

    def take(count):
        data = b""
        while len(data) < count:
            data += reader.read(count - len(data))
        return data

    first, second = take(2)
    assert first & 0x80 and second & 0x80
    length = second & 0x7F
    if length > 125:
        length = int.from_bytes(take(2 if length == 126 else 8), "big")
    mask = take(4)
    return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(take(length)))


def client_of(server):
    return Client(server.url, "dm_key")


class Address(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.enterContext_(mock.patch.dict(os.environ, {"DORMOUSE_DATA": self.dir.name}))
        for name in ("DORMOUSE_URL", "DORMOUSE_API_KEY"):
            os.environ.pop(name, None)

    def enterContext_(self, manager):
        manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)

    def write_file(self, text):
        with open(os.path.join(self.dir.name, "client.json"), "w") as file:
            file.write(text)

    def test_arguments_then_environment_then_file(self):
        with self.assertRaises(AuthenticationError) as raised:
            find_address()
        self.assertIn("DORMOUSE_API_KEY", raised.exception.hint)
        self.write_file('{"url": "http://127.0.0.1:5", "key": "of-file"}')
        found = find_address()
        self.assertEqual((found.port, found.api_key, found.is_from_file), (5, "of-file", True))
        os.environ["DORMOUSE_URL"] = "https://example.test/prefix/"
        # The key of the local server is only for that server.
        with self.assertRaises(AuthenticationError):
            find_address()
        os.environ["DORMOUSE_API_KEY"] = "of-environment"
        found = find_address()
        self.assertEqual((found.host, found.port, found.is_tls, found.prefix), ("example.test", 443, True, "/prefix"))
        self.assertEqual(find_address("http://[::1]:7", "given").api_key, "given")
        self.assertEqual(find_address("http://[::1]:7", "given").host, "::1")

    def test_the_data_directory_may_be_given(self):
        self.write_file('{"url": "http://127.0.0.1:5", "key": "of-file"}')
        os.environ["DORMOUSE_DATA"] = "/nowhere"
        self.assertEqual(Client(data_dir=self.dir.name).url, "http://127.0.0.1:5")

    def test_unusable_addresses_raise(self):
        for url in ("nonsense", "ftp://a", "http://", "http://a:port"):
            with self.assertRaises(InvalidArgumentError):
                find_address(url, "key")
        with self.assertRaises(AuthenticationError):
            find_address("http://a", "key\r\nx: y")
        self.write_file("{}")
        with self.assertRaises(DormouseError) as raised:
            find_address()
        self.assertEqual(raised.exception.code, "setup_failed")


class Http(unittest.TestCase):
    def test_forms_of_an_answer(self):
        chunked = (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'6;ext=1\r\n{"stat\r\n9\r\nus":"ok"}\r\n0\r\nTrailer: x\r\n\r\n'
        )
        until_end = b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"status":"ok"}'
        with ScriptedServer(chunked, answer(HEALTHY), until_end, answer("", "204 No Content")) as server:
            client = client_of(server)
            for _ in range(3):
                self.assertEqual(client.health()["status"], "ok")
            self.assertIsNone(client.volumes.delete("a b/../c"))
            self.assertEqual(server.connections, 2)
            head = server.requests[3][0]
            self.assertTrue(head.startswith("DELETE /v1/volumes/a%20b%2F..%2Fc HTTP/1.1\r\n"), head)
            self.assertIn("authorization: Bearer dm_key\r\n", head)
            client.close()

    def test_invalid_answers(self):
        for wrong in (
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        ):
            with ScriptedServer(wrong) as server, self.assertRaises(DormouseError):
                client_of(server).volumes.create("x")

    def test_a_get_is_repeated_a_post_is_not(self):
        with ScriptedServer(b"", b"", answer(HEALTHY)) as server:
            self.assertEqual(client_of(server).health()["status"], "ok")
        with ScriptedServer(b"", answer("{}")) as server, self.assertRaises(ServerUnreachableError):
            client_of(server).volumes.create("x")
        self.assertEqual(len(server.requests), 1)

    def test_a_delete_whose_answer_was_lost_succeeds(self):
        missing = json.dumps({"error": {"code": "not_found", "message": "no"}})
        with ScriptedServer(b"", answer(missing, "404 Not Found")) as server:
            self.assertIsNone(client_of(server).volumes.delete("x"))

    def test_retry_after_also_for_calls_that_are_not_repeatable(self):
        refused = answer(ERROR, "429 Too Many Requests", "Retry-After: 1")
        created = json.dumps({"name": "x", "createdAt": "2026-01-01T00:00:00.000Z", "usedBy": [], "new": 1})
        with ScriptedServer(refused, answer(created, "201 Created")) as server:
            began = time.monotonic()
            self.assertEqual(client_of(server).volumes.create("x").created_at.year, 2026)
            self.assertGreaterEqual(time.monotonic() - began, 0.99)

    def test_an_untrusted_certificate_has_its_own_hint(self):
        self.assertIn("SSL_CERT_FILE", unreachable("https://a", OSError("certificate verify failed")).hint)
        self.assertIn("dormouse up", unreachable("https://a", OSError("connection refused")).hint)

    def test_a_long_retry_after_raises(self):
        refused = answer(ERROR, "429 Too Many Requests", "Retry-After: 3600")
        with ScriptedServer(refused) as server, self.assertRaises(LimitError) as raised:
            client_of(server).health()
        error = raised.exception
        self.assertEqual((error.code, error.hint, error.request_id), ("rate_limited", "wait", "r-1"))
        self.assertEqual((error.status, error.retry_after), (429, 3600))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), copy.code, str(copy)), (LimitError, "rate_limited", str(error)))

    def test_time_outs_also_of_an_answer_that_trickles(self):
        def drops(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(100):
                connection.sendall(b"x")
                time.sleep(0.05)

        def silence(connection):
            connection.recv(1)

        for step in (drops, silence):
            with ScriptedServer(step) as server, Client(server.url, "dm_key", timeout=0.3) as client:
                began = time.monotonic()
                with self.assertRaises(ServerUnreachableError) as raised:
                    client.volumes.create("x")
                self.assertIn("/v1/volumes in time", str(raised.exception))
                self.assertLess(time.monotonic() - began, 3)
        with ScriptedServer(answer(HEALTHY)) as server:
            self.assertEqual(Client(server.url, "dm_key", timeout=None).health()["status"], "ok")
        for wrong in (0, -1, float("nan")):
            with self.assertRaises(InvalidArgumentError):
                Client(timeout=wrong)

    def test_an_error_page_of_a_proxy(self):
        with ScriptedServer(answer("<h1>Bad Gateway</h1>", "502 Bad Gateway")) as server:
            with self.assertRaises(ServerUnreachableError) as raised:
                client_of(server).volumes.create("x")
        self.assertIn("Bad Gateway", str(raised.exception))


class WebSockets(unittest.TestCase):
    def open(self, talk):
        """A WebSocket to a server that answers the handshake and then calls `talk(connection, reader)`."""

        def step(connection):
            key = [line[19:] for line in server.requests[-1][0].split("\r\n") if line.lower().startswith("sec-websocket-key:")]
            guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1((key[0].strip() + guid).encode()).digest()).decode()
            head = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket"]
            talk(connection, "\r\n".join([*head, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode())

        server = ScriptedServer(step)
        self.addCleanup(server.__exit__)
        client = client_of(server)
        opened = WebSocket.open(client.http, "/v1/x", {"after": -1})
        self.addCleanup(opened.abort)
        self.assertTrue(server.requests[0][0].startswith("GET /v1/x?after=-1 HTTP/1.1\r\n"))
        self.assertIn("authorization: Bearer dm_key\r\n", server.requests[0][0])
        return opened

    def test_fragments_pings_and_close(self):
        heard, is_over = [], threading.Event()

        def talk(connection, head):
            # The example of the RFC, with a ping between the pieces; the first frame comes with the handshake.
            connection.sendall(head + bytes.fromhex("010348656c"))
            for byte in bytes.fromhex("8902" + "6869" + "80026c6f" + "880203e8"):
                connection.sendall(bytes([byte]))
            while len(heard) < 2:
                heard.append(read_frame(connection))
            is_over.set()

        opened = self.open(talk)
        self.assertEqual(opened.receive(), (True, b"Hello"))
        self.assertIsNone(opened.receive())
        self.assertTrue(is_over.wait(10))
        self.assertEqual(heard, [(10, b"hi"), (8, b"\x03\xe8")])

    def test_lengths(self):
        lengths = (0, 125, 126, 65535, 65536, 1_000_003)

        def talk(connection, head):
            connection.sendall(head)
            for length in lengths:
                opcode, payload = read_frame(connection)
                connection.sendall(struct.pack("!BBQ", 0x80 | opcode, 127, len(payload)) + payload)

        opened = self.open(talk)
        for length in lengths:
            payload = (bytes(range(256)) * (length // 256 + 1))[:length]
            opened.send_bytes(payload)
            self.assertEqual(opened.receive(), (False, payload))

    def test_invalid_frames(self):
        for wrong in ("c100", "8180" + "00" * 4, "89" + "7e0080" + "00" * 128, "827f7fffffffffffffff", "8001aa"):
            opened = self.open(lambda connection, head: connection.sendall(head + bytes.fromhex(wrong)))
            with self.assertRaises(ServerUnreachableError):
                opened.receive()

    def test_refused_and_invalid_handshakes(self):
        started = json.dumps({"processId": "pr-2222222222222222", "pid": 5})
        info = answer(json.dumps(SANDBOX), "201 Created")

        def fake(connection):
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: wrong\r\n\r\n")

        no = json.dumps({"error": {"code": "conflict", "message": "has no terminal"}})
        with ScriptedServer(info, answer(started), answer(no, "409 Conflict")) as server:
            s = Sandbox(client=client_of(server))
            with self.assertRaises(DormouseError) as raised:
                s.pty.create().read()
            self.assertEqual(raised.exception.code, "conflict")
        with ScriptedServer(info, answer(started), fake) as server:
            s = Sandbox(client=client_of(server))
            # Typing is not repeated.
            with self.assertRaises(ServerUnreachableError):
                s.pty.create().write("x")


class Small(unittest.TestCase):
    def test_quoting_of_path_segments(self):
        self.assertEqual([path_part(text) for text in ("..", "a/b", "ü", 5)], ["%2E%2E", "a%2Fb", "%C3%BC", "5"])

    def test_versions_agree(self):
        project = os.path.join(os.path.dirname(__import__("dormouse").__file__), "..", "pyproject.toml")
        with open(project) as file:
            self.assertIn(f'version = "{VERSION}"', file.read())

    def test_a_server_that_does_not_answer(self):
        listener = socket.create_server(("127.0.0.1", 0))
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with mock.patch("dormouse._sync.http.FIRST_CONTACT_SECONDS", 0.1):
                with self.assertRaises(ServerUnreachableError):
                    Client(url, "key").http.json("GET", "/healthz", timeout=0.2)
        finally:
            listener.close()
