"""Cancelled calls and lost connections, at moments that a real server rarely has."""

import asyncio
import json
import os
import signal
import threading
import unittest

from dormouse import AsyncClient, AsyncSandbox, Client, ConflictError, DormouseError, Sandbox, ServerUnreachableError
from dormouse._sync.fan_out import map_over_forks
from scripted_server import SANDBOX, ScriptedServer, answer

MADE = answer(json.dumps(SANDBOX), "201 Created")
STARTED = answer(json.dumps({"processId": "pr-2222222222222222", "pid": 5}), "201 Created", "connection: close")
NOTHING = answer("", "204 No Content", "connection: close")


def cut(head, body):
    """An answer whose connection ends before its body."""

    def step(connection):
        connection.sendall(head + body)

    return step


def file_head(status, tag, length):
    lines = [f"HTTP/1.1 {status}", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"]
    lines += [f"ETag: {tag}"] + ([] if length is None else [f"Content-Length: {length}"])
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Files(unittest.TestCase):
    def read(self, *steps):
        with ScriptedServer(MADE, *steps) as server:
            self.server = server
            sandbox = Sandbox(client=Client(server.url, "dm_key"))
            return sandbox.files.read_bytes("/a")

    def test_the_same_file_is_continued(self):
        first = cut(file_head("200 OK", 'W/"1-a"', 10), b"01234")
        content = self.read(first, file_head("206 Partial Content", 'W/"1-a"', 5) + b"56789")
        self.assertEqual(content, b"0123456789")
        self.assertIn("\r\nrange: bytes=5-\r\n", self.server.requests[-1][0])

    def test_another_file_of_the_same_second_is_not_continued(self):
        first = cut(file_head("200 OK", 'W/"1-a"', 10), b"01234")
        with self.assertRaises(ConflictError):
            self.read(first, file_head("206 Partial Content", 'W/"2-a"', 5) + b"other")

    def test_a_shorter_file_is_not_continued(self):
        first = cut(file_head("200 OK", 'W/"1-a"', 10), b"01234")
        refused = json.dumps({"error": {"code": "range_not_satisfiable", "message": "it has 3 bytes"}})
        with self.assertRaises(ConflictError):
            self.read(first, answer(refused, "416 Range Not Satisfiable"))

    def test_a_file_without_a_length_is_not_continued(self):
        first = cut(
            b"HTTP/1.1 200 OK\r\nETag: W/\"1-0\"\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\n01234\r\n"
        )
        with self.assertRaises(DormouseError) as raised:
            self.read(first, file_head("206 Partial Content", 'W/"1-0"', 5) + b"56789")
        self.assertEqual(raised.exception.code, "server_unreachable")


class Commands(unittest.TestCase):
    def killed(self, server):
        path = "/processes/pr-2222222222222222/signal"
        return [json.loads(body)["signal"] for head, body in server.requests if path in head]

    def test_cancelled_while_it_starts(self):
        asked, may_answer = threading.Event(), threading.Event()

        def start(connection):
            asked.set()
            may_answer.wait(10)
            connection.sendall(STARTED)

        async def main(server):
            async with AsyncClient(server.url, "dm_key") as client:
                sandbox = await AsyncSandbox(client=client)
                running = asyncio.ensure_future(sandbox.commands.run("sleep 600"))
                await asyncio.get_running_loop().run_in_executor(None, asked.wait)
                running.cancel()
                await asyncio.sleep(0.1)
                may_answer.set()
                with self.assertRaises(asyncio.CancelledError):
                    await running

        with ScriptedServer(MADE, start, NOTHING) as server:
            asyncio.run(main(server))
            self.assertEqual(self.killed(server), ["SIGKILL"])

    def test_ctrl_c_while_it_starts(self):
        def start(connection):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.2)
            connection.sendall(STARTED)

        with ScriptedServer(MADE, start, NOTHING) as server:
            sandbox = Sandbox(client=Client(server.url, "dm_key"))
            with self.assertRaises(KeyboardInterrupt):
                sandbox.commands.run("sleep 600")
            self.assertEqual(self.killed(server), ["SIGKILL"])


class RunOnce(unittest.TestCase):
    START = {"seq": 0, "type": "start", "runId": "run-2", "context": "default"}
    EXIT = {"seq": 1, "type": "exit", "exitCode": 0, "durationMs": 1}

    def run_once(self, *events, steps=()):
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        # Without a length it ends with its connection.
        told = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nconnection: close\r\n\r\n{lines}".encode()
        with ScriptedServer(*steps, told, told) as server, Client(server.url, "dm_key") as client:
            self.server = server
            return client.run_once("1")

    def test_a_run_whose_connection_is_lost_is_not_repeated(self):
        with self.assertRaises(ServerUnreachableError) as raised:
            self.run_once(self.START)
        self.assertIn("may have run", raised.exception.hint)
        self.assertEqual(len(self.server.requests), 1)
        failed = {"type": "failed", "error": {"code": "no_space", "message": "full"}}
        with self.assertRaises(DormouseError) as raised:
            self.run_once(self.START, failed)
        self.assertEqual(raised.exception.code, "no_space")

    def test_a_refused_run_is_repeated(self):
        busy = json.dumps({"error": {"code": "overloaded", "message": "later"}})
        refused = answer(busy, "503 Service Unavailable", "connection: close")
        r = self.run_once(self.START, self.EXIT, steps=[refused])
        self.assertEqual((r.run_id, r.exit_code, len(self.server.requests)), ("run-2", 0, 2))


class Forks(unittest.TestCase):
    """With a fake parent, to control which fork a child comes from."""

    def parent(self, *failing, gate=None):
        calls = []

        class Child:
            def __init__(self):
                self.is_deleted = False

            def update(self, **_):
                pass

            def delete(self):
                self.is_deleted = True

        class Parent:
            children = []

            def fork(self, count):
                calls.append(count)
                if gate is not None:
                    gate()
                if len(calls) in failing:
                    raise DormouseError("internal", "no")
                if count < 1:
                    raise AssertionError("a fork of nothing")
                made = [Child() for _ in range(count)]
                self.children += made
                return made

        return Parent(), calls

    def map(self, parent, count, concurrency, work=lambda child, n: n):
        return map_over_forks(parent, list(range(count)), work, concurrency, "item", 0, {})

    def test_only_callers_that_waited_for_a_failed_fork_fail_with_it(self):
        waiting = threading.Event()
        threading.Timer(0.3, waiting.set).start()
        parent, calls = self.parent(1, gate=lambda: waiting.wait(10))
        outcomes = self.map(parent, 10, 4)
        self.assertIn([each.ok for each in outcomes].count(False), range(1, 5))
        self.assertTrue(all(count >= 1 for count in calls), calls)
        self.assertEqual([each for each in parent.children if not each.is_deleted], [])

    def test_a_fork_under_way_at_ctrl_c_leaves_nothing(self):
        forking, interrupted, done = threading.Event(), threading.Event(), threading.Event()

        def gate():
            if len(calls) == 2:
                forking.set()
                interrupted.wait(10)

        parent, calls = self.parent(gate=gate)

        def work(_child, n):
            if n == 0:
                # No job works in the second fork yet.
                forking.wait(10)
                os.kill(os.getpid(), signal.SIGINT)
                done.wait(10)

        with self.assertRaises(KeyboardInterrupt):
            self.map(parent, 6, 2, work)
        interrupted.set()
        done.set()
        for thread in threading.enumerate():
            if thread.name.startswith("dormouse"):
                thread.join()
        self.assertEqual((calls, len(parent.children)), ([2, 2], 4))
        self.assertEqual([each for each in parent.children if not each.is_deleted], [])
