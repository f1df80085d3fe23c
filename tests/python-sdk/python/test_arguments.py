"""Invalid arguments raise before anything is sent, with errors that name the argument."""

import asyncio
import unittest

from dormouse import AsyncSandbox, Client, Expires, InvalidArgumentError, Result, Sandbox, SandboxInfo
from dormouse._arguments import parse_size
from dormouse._create_body import limits_body
from dormouse._json import decode
from scripted_server import SANDBOX

# Where nothing listens: a request raises another error.
NOWHERE = {"url": "http://127.0.0.1:9", "api_key": "key"}


class Arguments(unittest.TestCase):
    def setUp(self):
        self.client = Client(**NOWHERE)
        self.s = Sandbox._of(self.client, decode(SandboxInfo, SANDBOX))

    def refused(self, name, call, *values):
        for value in values:
            with self.subTest(name=name, value=value), self.assertRaises(InvalidArgumentError) as raised:
                call(value)
            self.assertIn(f"{name}: ", str(raised.exception))
            self.assertEqual(raised.exception.details["field"], name)
            yield raised.exception

    def assert_refused(self, name, call, *values):
        self.assertEqual(len(list(self.refused(name, call, *values))), len(values))

    def test_durations(self):
        wrong = (-1, -0.001, float("nan"), float("inf"), "15", True)
        for error in self.refused("idle_timeout", lambda each: Sandbox(idle_timeout=each, **NOWHERE), *wrong):
            self.assertIn("0 means", error.hint)
        self.assert_refused("idle_timeout", lambda each: AsyncSandbox(idle_timeout=each, **NOWHERE), *wrong)
        self.assert_refused("idle_timeout", lambda each: self.s.update(idle_timeout=each), *wrong)
        self.assert_refused("store_after", lambda each: Sandbox(store_after=each, **NOWHERE), *wrong)
        self.assert_refused("expires.idle", lambda each: self.s.update(expires=Expires(idle=each)), *wrong)
        self.assert_refused("expires.after", lambda each: self.s.update(expires=Expires(after=each)), *wrong)
        self.assert_refused("timeout", lambda each: self.s.run_code("1", timeout=each), *wrong)
        self.assert_refused("timeout", lambda each: self.s.commands.run("true", timeout=each), *wrong)
        self.assert_refused("timeout", lambda each: self.s.pty.create(timeout=each), *wrong)
        self.assert_refused("timeout", lambda each: self.client.run_once("1", timeout=each), *wrong)
        self.assert_refused("timeout", lambda each: self.s.ports.wait(80, timeout=each), *wrong)
        self.assert_refused("expires_in", lambda each: self.s.ports.link(80, expires_in=each), *wrong)
        self.assert_refused("seconds", lambda each: self.s.hold("work", each), *wrong)
        self.assert_refused("timeout", lambda each: Client(timeout=each), 0, -1, float("nan"), float("inf"))

    def test_sizes_and_counts(self):
        wrong = (-1, 1.5, float("nan"), float("inf"), True, [])
        for name in ("memory_bytes", "disk_bytes", "pids", "files"):
            self.assert_refused(name, lambda each: Sandbox(**{name: each}, **NOWHERE), *wrong)
            self.assert_refused(name, lambda each: self.s.update(**{name: each}), *wrong)
            self.assert_refused(name, lambda each: self.client.run_once("1", **{name: each}), *wrong)
        self.assert_refused("cpus", lambda each: Sandbox(cpus=each, **NOWHERE), -1, float("nan"), float("inf"), "2")
        self.assert_refused("size_bytes", lambda each: self.client.volumes.create("v", size_bytes=each), *wrong)
        self.assert_refused("size_bytes", lambda each: self.client.volumes.update("v", size_bytes=each), *wrong)
        self.assert_refused("n", self.s.fork, 0, *wrong)
        self.assert_refused("depth", lambda each: self.s.files.list("/", depth=each), 0, *wrong)
        self.assert_refused("cols", lambda each: self.s.pty.create(cols=each), 0, *wrong)
        self.assert_refused("mode", lambda each: self.s.files.write("/a", "", mode=each), -1, "755")

    def test_sizes_as_text(self):
        sizes = {"4GiB": 4 * 1024**3, "512MB": 512_000_000, "2g": 2 * 1024**3, "2G": 2 * 1024**3, " 1.5 kib ": 1536}
        sizes.update({"1TB": 10**12, "3t": 3 * 1024**4, "10m": 10 * 1024**2, "7": 7, "7b": 7, "0": 0})
        for text, size in sizes.items():
            self.assertEqual(parse_size("memory_bytes", text), size, text)
        self.assertEqual(limits_body("1GiB", None, None, "2GB", None), {"memoryBytes": 1024**3, "diskBytes": 2 * 10**9})
        wrong = ("", "GiB", "-1GiB", "4 gigabytes", "1e9", "4GiB of memory", "٤", "inf")
        for error in self.refused("memory_bytes", lambda each: self.s.update(memory_bytes=each), *wrong):
            self.assertIn("4GiB", error.hint)
        self.assert_refused("disk_bytes", lambda each: Sandbox(disk_bytes=each, **NOWHERE), *wrong)
        self.assert_refused("size_bytes", lambda each: self.client.volumes.create("v", size_bytes=each), *wrong)
        self.assert_refused("size_bytes", lambda each: self.client.volumes.update("v", size_bytes=each), *wrong)

    def test_contents(self):
        def write(data):
            self.s.files.write("/root/a", data)

        for error in self.refused("data", write, {"a": 1}, {b"a"}, 5, None, object(), ["text"], [1, 2], ("a", b"b")):
            self.assertIn("iterable of bytes" if "must be text, " in error.message else "text or bytes", error.message)
        self.assert_refused("data", lambda data: asyncio.run(self.write_async(data)), {"a": 1}, 5)
        self.assert_refused("input", lambda data: self.s.commands.run("cat", input=data), 5, {"a": 1}, ["x"])

    async def write_async(self, data):
        s = AsyncSandbox(**NOWHERE)
        s._info = decode(SandboxInfo, SANDBOX)
        await s.files.write("/root/a", data)

    def test_a_value_that_is_not_base64_has_no_bytes(self):
        for wrong in ("no base64!", "abc", "äöü=", 5, None):
            self.assertIsNone(Result({"image/png": wrong}).png)
        self.assertEqual(Result({"image/png": "aG\nk=\n"}).png, b"hi")
