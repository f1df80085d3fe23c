import io
import os
import threading
import unittest

from dormouse import Client, ConflictError, DormouseError, NotFoundError, Sandbox
from flaky_proxy import FlakyProxy


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()
        cls.files = cls.s.files

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_what_is_written_is_read(self):
        self.files.write("/root/größe.txt", "Größe 1\n", mode=0o600)
        self.assertEqual(self.files.read("/root/größe.txt"), "Größe 1\n")
        self.files.write("/root/größe.txt", b"2\n", append=True)
        self.assertEqual(self.files.read_bytes("/root/größe.txt"), "Größe 1\n2\n".encode())
        stat = self.files.stat("/root/größe.txt")
        self.assertEqual((stat.type, stat.mode, stat.size_bytes, stat.user), ("file", "0600", 12, "root"))
        self.files.write("/root/empty", "")
        self.assertEqual(self.files.read_bytes("/root/empty"), b"")
        self.files.write("/root/deep/er/file", "x", parents=True)
        with self.assertRaises(NotFoundError):
            self.files.write("/root/no/such/dir", "x")

    def test_big_files_are_streamed(self):
        content = os.urandom(5_000_000)
        self.files.write("/root/big", io.BytesIO(content))
        self.assertEqual(b"".join(self.files.stream("/root/big")), content)
        self.files.write("/root/big", (content[i : i + 100_000] for i in range(0, len(content), 100_000)))
        self.assertEqual(self.files.read_bytes("/root/big"), content)

    def test_directories(self):
        self.files.mkdir("/root/d/e")
        self.files.mkdir("/root/d/e")
        with self.assertRaises(DormouseError) as raised:
            self.files.mkdir("/root/d/e", parents=False)
        self.assertEqual(raised.exception.code, "already_exists")
        self.files.write("/root/d/e/f", "x")
        self.assertEqual([each.name for each in self.files.list("/root/d", depth=2)], ["e", "f"])
        self.files.move("/root/d/e/f", "/root/d/g")
        self.assertTrue(self.files.exists("/root/d/g"))
        self.assertFalse(self.files.exists("/root/d/e/f"))
        self.assertFalse(self.files.exists("/root/d/g/below-a-file"))
        with self.assertRaises(DormouseError):
            self.files.remove("/root/d")
        self.files.remove("/root/d", recursive=True)
        self.assertFalse(self.files.exists("/root/d"))
        with self.assertRaises(NotFoundError):
            self.files.read("/root/d/g")

    def test_exists_raises_for_a_deleted_sandbox(self):
        with Sandbox() as gone:
            pass
        with self.assertRaises(NotFoundError):
            gone.files.exists("/root")

    def test_watch_reports_changes(self):
        self.files.mkdir("/root/w")
        with self.files.watch("/root/w") as watch:
            self.files.write("/root/w/a", "x")
            self.files.move("/root/w/a", "/root/w/b")
            seen = []
            for change in watch:
                seen.append(change)
                if change.type == "moved" and change.path == "/root/w/b":
                    break
        self.assertIn("/root/w/a", [change.path for change in seen])
        self.assertEqual(seen[-1].from_path, "/root/w/a")

    def test_a_watch_ends_when_another_thread_closes_it(self):
        watch = self.files.watch("/tmp")
        threading.Timer(0.3, watch.close).start()
        self.assertEqual(list(watch), [])

    def test_a_watch_reports_an_overflow_after_a_lost_connection(self):
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            with s.files.watch("/root") as watch:
                proxy.cut_all()
                self.assertEqual(next(watch).type, "overflow")
                s.files.write("/root/seen", "")
                while next(watch).path != "/root/seen":
                    pass
        with self.assertRaises(NotFoundError):
            self.files.watch("/no/such/path")

    def test_reading_continues_after_a_lost_connection(self):
        content = os.urandom(3_000_000)
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            s.files.write("/root/big", content)
            proxy.cut_after, proxy.cuts = 1_000_000, 2
            proxy.cut_all()
            self.assertEqual(s.files.read_bytes("/root/big"), content)
            self.assertEqual(proxy.made_cuts, 2)
            # More than fits into the buffers of the connection.
            s.commands.run("head -c 60000000 /dev/zero > /root/big").check()
            stream = s.files.stream("/root/big")
            next(stream)
            s.commands.run("echo other > /root/big").check()
            proxy.cut_all()
            with self.assertRaises(ConflictError):
                for _ in stream:
                    pass

    def test_a_refusal_in_the_middle_of_an_upload_is_reported(self):
        def endless():
            for _ in range(3000):
                yield b"x" * 65536

        with self.assertRaises(NotFoundError):
            self.files.write("/root/no/such/dir", endless())
