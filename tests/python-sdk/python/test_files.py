import dataclasses
import io
import os
import pathlib
import tempfile
import threading
import unittest

from dormouse import Client, ConflictError, DormouseError, InvalidArgumentError, NotFoundError, Sandbox
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
        self.files.write("/root/deep/er/file", "x")
        with self.assertRaises(NotFoundError):
            self.files.write("/root/no/such/dir", "x", parents=False)

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

    def test_whole_directories_there_and_back(self):
        with tempfile.TemporaryDirectory() as directory:
            local, back = pathlib.Path(directory, "local"), pathlib.Path(directory, "back", "again")
            (local / "a" / "empty").mkdir(parents=True)
            contents = {"größe.txt": b"1", "a/run.sh": b"#!/bin/sh\n", "a/none": b""}
            contents.update({f"many/{n}": os.urandom(1000) for n in range(20)})
            (local / "many").mkdir()
            for name, content in contents.items():
                (local / name).write_bytes(content)
            (local / "a" / "run.sh").chmod(0o750)
            (local / "link").symlink_to("größe.txt")
            (local / "nowhere").symlink_to("missing")
            (local / "cycle").symlink_to(".")
            self.files.upload_dir(local, "/root/up/er")
            self.assertEqual(self.files.stat("/root/up/er/a/run.sh").mode, "0750")
            self.assertEqual(self.files.stat("/root/up/er/a/empty").type, "directory")
            self.files.upload_dir(str(local), "/root/up/er/")
            self.s.commands.run("ln -s /etc/hostname out; ln -s / cycle; mkfifo fifo", cwd="/root/up/er").check()
            self.files.download_dir("up/er", back)
            contents.update(link=b"1", out=self.files.read_bytes("/etc/hostname"))
            found = {str(path.relative_to(back)): path.read_bytes() for path in back.rglob("*") if path.is_file()}
            self.assertEqual(found, contents)
            self.assertEqual([path for path in back.rglob("*") if path.is_symlink()], [])
            self.assertEqual((back / "a" / "run.sh").stat().st_mode & 0o777, 0o750)
            self.assertTrue((back / "a" / "empty").is_dir())
            with self.assertRaises(InvalidArgumentError):
                self.files.upload_dir(local / "größe.txt", "/root/x")
            with self.assertRaises(NotFoundError):
                self.files.download_dir("/root/no/such/dir", back)

    def test_a_part_of_a_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            local, back = pathlib.Path(directory, "local"), pathlib.Path(directory, "back")
            for name in ("a/one", "a/two", "skipped/below/three"):
                (local / name).parent.mkdir(parents=True, exist_ok=True)
                (local / name).write_text(name)
            self.files.upload_dir(local, "/root/part", filter=lambda path: path != "skipped")
            self.assertEqual([each.name for each in self.files.list("/root/part", depth=9)], ["a", "one", "two"])
            self.files.download_dir("/root/part", back, filter=lambda path: not path.endswith("two"))
            self.assertEqual([str(path.relative_to(back)) for path in sorted(back.rglob("*"))], ["a", "a/one"])

    def test_a_download_never_writes_through_a_link_of_this_machine(self):
        with tempfile.TemporaryDirectory() as directory:
            back, outside = pathlib.Path(directory, "back"), pathlib.Path(directory, "outside")
            back.mkdir()
            outside.mkdir()
            (outside / "precious").write_text("kept")
            (back / "file").symlink_to(outside / "precious")
            self.files.write("/root/links/file", "new")
            self.files.download_dir("/root/links", back)
            self.assertEqual(((back / "file").read_text(), (back / "file").is_symlink()), ("new", False))
            (back / "directory").symlink_to(outside)
            self.files.write("/root/links/directory/precious", "new")
            with self.assertRaises(ConflictError):
                self.files.download_dir("/root/links", back)
            self.assertEqual((outside / "precious").read_text(), "kept")
            self.assertEqual(sorted(os.listdir(back)), ["directory", "file"])

    def test_a_sandbox_that_lies_about_names_writes_nothing(self):
        self.files.write("/root/lies/file", "x")
        files = Sandbox.connect(self.s.id).files
        listed = files.list("/root/lies")
        with tempfile.TemporaryDirectory() as directory:
            for name in ("..", "../out", "/etc/passwd", "", ".", "a\0b", "a/b"):
                files.list = lambda *_, **__: [dataclasses.replace(each, name=name) for each in listed]
                with self.assertRaises(ConflictError):
                    files.download_dir("/root/lies", pathlib.Path(directory, "inner"))
            self.assertEqual(list(pathlib.Path(directory, "inner").iterdir()), [])
            self.assertEqual(os.listdir(directory), ["inner"])

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
            self.files.write("/root/no/such/dir", endless(), parents=False)
