import threading
import time
import unittest

from dormouse import Client, ConflictError, DormouseError, NotFoundError, Sandbox
from flaky_proxy import FlakyProxy


def until(pty, text):
    shown = ""
    while text not in shown:
        more = pty.read()
        if more is None:
            raise AssertionError(f"{text!r} is not in {shown!r}")
        shown += more
    return shown


class Terminals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_a_shell(self):
        with self.s.pty.create(cols=100, rows=30, cwd="/tmp", env={"A": "b"}) as pty:
            pty.write("stty size; pwd; echo $TERM$A größe\r")
            until(pty, "30 100\r\n/tmp\r\nxterm-256colorb größe\r\n")
            pty.resize(132, 50)
            pty.write("stty size\r")
            until(pty, "50 132\r\n")
            pty.write("sh -c 'echo be\"\"gun; exec sleep 600'\r")
            until(pty, "begun")
            pty.write("\x03")
            until(pty, "^C")
            pty.write("exit 7\r")
            self.assertEqual(pty.wait(), 7)
            self.assertIsNone(pty.read())
            with self.assertRaises(ConflictError):
                pty.write("too late")

    def test_a_command_and_a_big_paste(self):
        with self.s.pty.create("stty raw -echo; echo ready; head -c 700000 | sha256sum") as pty:
            until(pty, "ready")
            pty.write(b"ab" * 350_000)
            shown = "".join(pty)
        expected = self.s.commands.run("yes ab | tr -d '\\n' | head -c 700000 | sha256sum").stdout[:64]
        self.assertIn(expected, shown)
        self.assertEqual(pty.exit_code, 0)

    def test_it_continues_and_can_be_connected_to_again(self):
        first = self.s.pty.create()
        first.write("x=kept; echo be''gun\r")
        until(first, "begun\r\n")
        first.disconnect()
        self.assertIsNone(first.read())
        with self.assertRaises(ConflictError):
            first.write("x=typed\r")
        with self.s.pty.connect(first.id) as second:
            second.write("echo $x-$x\r")
            until(second, "kept-kept")
            second.kill()
            self.assertEqual((second.wait(), second.exit.signal), (137, "SIGKILL"))
        # Its end was not read yet.
        with self.s.pty.connect(first.id) as third, self.assertRaises(ConflictError):
            third.write("too late")
        with self.assertRaises(NotFoundError):
            self.s.pty.connect(999_999)

    def test_a_wait_ends_after_its_time_and_the_terminal_continues(self):
        with self.s.pty.create() as pty:
            with self.assertRaises(DormouseError) as raised:
                pty.wait(timeout=0.5)
            self.assertEqual(raised.exception.code, "timed_out")
            pty.write("exit 3\r")
            self.assertEqual(pty.wait(timeout=60), 3)
        with self.s.pty.create("sleep 600") as pty:
            pty.disconnect()
            with self.assertRaises(DormouseError) as raised:
                pty.wait(timeout=0.1)
            self.assertEqual(raised.exception.code, "timed_out")
            pty.kill()

    def test_a_lost_connection_loses_no_output(self):
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            pty = s.pty.create("for i in $(seq 60); do echo line $i; sleep 0.02; done")
            shown = pty.read()
            for _ in range(4):
                time.sleep(0.15)
                proxy.cut_all()
                shown += pty.read() or ""
            shown += "".join(pty)
            self.assertEqual(shown, "".join(f"line {i}\r\n" for i in range(1, 61)))
            self.assertEqual(pty.exit_code, 0)

    def test_disconnecting_wakes_a_thread_that_reads(self):
        pty = self.s.pty.create("exec sleep 600")
        threading.Timer(0.3, pty.disconnect).start()
        self.assertIsNone(pty.read())
        self.s.commands.connect(pty.id)
