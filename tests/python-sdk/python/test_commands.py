import os
import signal
import threading
import time
import unittest

from dormouse import DormouseError, InvalidArgumentError, NotFoundError, RunFailedError, Sandbox


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()
        cls.commands = cls.s.commands

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_run(self):
        r = self.commands.run("echo $A; pwd; whoami; echo bad >&2; exit 3", env={"A": "b"}, cwd="/tmp", user="user")
        self.assertEqual((r.stdout, r.stderr, r.exit_code), ("b\n/tmp\nuser\n", "bad\n", 3))
        with self.assertRaises(RunFailedError):
            r.check()
        self.assertEqual(self.commands.run(["echo", "$A", "a b"]).stdout, "$A a b\n")
        self.assertEqual(self.commands.run(["sha256sum"], input=b"\0\xff").stdout[:8], "06eb7d6a")
        timed = self.commands.run("exec sleep 600", timeout=0.3)
        self.assertTrue(timed.timed_out)
        heard = []
        self.commands.run("echo a; sleep 0.1; echo b", on_stdout=heard.append)
        self.assertEqual("".join(heard), "a\nb\n")

    def test_more_input_than_is_read_and_more_output_than_fits(self):
        self.assertEqual(self.commands.run("head -c 5", input="y" * 1_000_000).stdout, "yyyyy")
        r = self.commands.run("head -c 9000000 /dev/zero | tr '\\0' x; echo end")
        self.assertLess(len(r.stdout), 5_000_000)
        self.assertGreater(r.truncated.stdout_bytes, 4_000_000)
        self.assertTrue(r.stdout.endswith("end\n"))

    def test_in_the_background(self):
        started = self.commands.start("while read line; do echo got $line; done; echo bye", stdin=True)
        started.send_stdin("one\n")
        again = self.commands.connect(started.id)
        self.assertEqual(again.info().state, "running")
        again.send_stdin("two\n", close=True)
        self.assertEqual(again.wait().stdout, "got one\ngot two\nbye\n")
        self.assertIn(started.id, [each.process_id for each in self.commands.list()])
        seqs = [event.seq for event in started.events(after=1)]
        self.assertEqual(seqs[0], 2)
        with self.assertRaises(NotFoundError):
            self.commands.connect(999_999)

    def test_a_wait_ends_after_its_time_and_the_command_continues(self):
        command = self.commands.start("sleep 1; echo done")
        with self.assertRaises(DormouseError) as raised:
            command.wait(timeout=0.1)
        self.assertEqual(raised.exception.code, "timed_out")
        self.assertEqual(command.wait(timeout=60).stdout, "done\n")
        with self.assertRaises(InvalidArgumentError):
            command.wait(timeout=-1)

    def test_a_pid_connects_while_the_command_runs(self):
        started = self.commands.start("exec sleep 600")
        self.assertEqual(self.commands.connect(started.pid).id, started.id)
        started.kill()
        self.assertEqual((started.wait().process_id, started.wait().pid), (started.id, started.pid))
        with self.assertRaises(NotFoundError):
            self.commands.connect(started.pid)

    def test_kill(self):
        started = self.commands.start("exec sleep 600")
        started.kill("SIGTERM")
        self.assertEqual(started.wait().signal, "SIGTERM")
        started.kill()

    def test_it_keeps_the_sandbox_awake_unless_it_opts_out(self):
        started = self.commands.start("sleep 100001")
        quiet = self.commands.start("sleep 100002", keep_awake=False)
        work = ", ".join(each.what for each in self.s.why().work)
        self.assertIn(f"process {started.pid} (sleep 100001)", work)
        self.assertNotIn("sleep 100002", work)
        for each in (started, quiet):
            each.kill()

    def test_it_outlives_standby(self):
        started = self.commands.start("sleep 1; echo after")
        self.s.standby("stored")
        self.assertEqual(started.wait().stdout, "after\n")

    def test_ctrl_c_kills_the_command(self):
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.commands.run("exec sleep 4711")
        deadline = time.monotonic() + 10
        while self.commands.run("pgrep -f 'sleep 471[1]'").ok:
            self.assertLess(time.monotonic(), deadline)
