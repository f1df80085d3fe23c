import os
import signal
import threading
import time
import unittest

from dormouse import Client, RunFailedError, Sandbox
from flaky_proxy import FlakyProxy


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def test_results_and_errors(self):
        r = self.s.run_code("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
        self.assertTrue(r.ok)
        self.assertIn("<table", r.result.html)
        self.assertIn("a", r.text)
        self.assertIs(r.check(), r)
        failed = self.s.run_code("{}['missing']")
        self.assertEqual((failed.error.name, failed.exit_code), ("KeyError", 1))
        with self.assertRaises(RunFailedError) as raised:
            failed.check()
        self.assertIs(raised.exception.execution, failed)
        two = self.s.run_code("from IPython.display import display; display(1); 2")
        self.assertEqual([(each.text, each.is_main) for each in two.results], [("1", False), ("2", True)])

    def test_callbacks_get_output_as_it_comes(self):
        heard = []
        code = "import sys\nprint('out')\nsys.stdout.flush()\nprint('err', file=sys.stderr)\n6 * 7"
        r = self.s.run_code(
            code,
            on_stdout=lambda text: heard.append(("out", text)),
            on_stderr=lambda text: heard.append(("err", text)),
            on_result=lambda result: heard.append(("result", result.text)),
        )
        self.assertEqual(heard, [("out", "out\n"), ("err", "err\n"), ("result", "42")])
        self.assertEqual((r.stdout, r.stderr, r.text), ("out\n", "err\n", "42"))

    def test_a_time_out_interrupts_and_the_repl_continues(self):
        self.s.run_code("kept = 1")
        r = self.s.run_code("while True: pass", timeout=0.3)
        self.assertTrue(r.timed_out)
        self.assertEqual(r.error.name, "KeyboardInterrupt")
        self.assertEqual(self.s.run_code("kept").text, "1")

    def test_contexts_have_separate_variables(self):
        self.s.contexts.create("py-other", cwd="/tmp")
        self.s.run_code("who = 'default'")
        r = self.s.run_code("import os; who = 'other'; print(os.getcwd())", context="py-other")
        self.assertEqual(r.stdout, "/tmp\n")
        self.assertEqual(self.s.run_code("who").text, "'default'")
        self.assertIn("py-other", [each.name for each in self.s.contexts.list()])
        self.s.contexts.delete("py-other")
        self.assertNotIn("py-other", [each.name for each in self.s.contexts.list()])

    def test_leaving_a_stream_does_not_end_the_run(self):
        stream = self.s.run_code_stream("import time\nfor i in range(4): print(i, flush=True); time.sleep(0.1)")
        for event in stream:
            if event.type == "stdout":
                break
        stream.close()
        self.assertEqual(self.s.runs.get(stream.run_id).run_id, stream.run_id)
        followed = "".join(event.data for event in self.s.runs.events(stream.run_id) if event.type == "stdout")
        self.assertEqual(followed, "0\n1\n2\n3\n")
        self.assertEqual(self.s.runs.result(stream.run_id).stdout, "0\n1\n2\n3\n")
        # Reading continues where it was.
        self.assertEqual(stream.wait().stdout, "0\n1\n2\n3\n")
        self.assertEqual(self.s.runs.list()[0].run_id, stream.run_id)
        self.assertEqual(self.s.runs.interrupt(stream.run_id), "finished")

    def test_events_so_far_of_a_run_under_way(self):
        stream = self.s.run_code_stream("import time; print('begun', flush=True); time.sleep(600)")
        for event in stream:
            if event.type == "stdout":
                break
        there = list(self.s.runs.events(stream.run_id, follow=False))
        self.assertEqual([event.type for event in there], ["start", "stdout"])
        self.assertEqual(list(self.s.runs.events(stream.run_id, after=there[-1].seq, follow=False)), [])
        stream.interrupt()
        stream.wait()

    def test_with_the_same_key_nothing_runs_twice(self):
        self.s.run_code("times = 0")
        first = self.s.run_code("times += 1; times", idempotency_key="py-once")
        self.assertEqual(self.s.run_code("times += 1; times", idempotency_key="py-once"), first)
        again = self.s.run_code_stream("times += 1; times", idempotency_key="py-once")
        self.assertEqual([event.type for event in again], ["start", "result", "exit"])
        self.assertEqual((first.text, self.s.run_code("times").text), ("1", "1"))

    def test_the_time_out_of_the_client_is_not_for_runs_and_files(self):
        with Client(timeout=1) as client:
            s = Sandbox.connect(self.s.id, client=client)
            self.assertEqual(s.run_code("import time; time.sleep(1.5); 'slept'").text, "'slept'")
            slow = (time.sleep(0.4) or b"x" for _ in range(4))
            self.assertEqual(s.files.write("/tmp/slow", slow).size_bytes, 4)

    def test_interrupt_from_another_thread(self):
        stream = self.s.run_code_stream("import time; print('begun', flush=True); time.sleep(600)")
        for event in stream:
            if event.type == "stdout":
                threading.Timer(0.1, stream.interrupt).start()
        r = stream.wait()
        self.assertEqual((r.error.name, r.stdout), ("KeyboardInterrupt", "begun\n"))

    def test_ctrl_c_interrupts_the_run(self):
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.s.run_code("import time; time.sleep(600)")
        self.assertEqual(self.s.run_code("'alive'").text, "'alive'")

    def test_a_run_in_the_queue_can_be_cancelled(self):
        first = self.s.run_code_stream("import time; print('begun', flush=True); time.sleep(600)")
        for event in first:
            if event.type == "stdout":
                break
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.s.run_code("never = True")
        first.interrupt()
        first.wait()
        self.assertEqual(self.s.run_code("'never' in globals()").text, "False")

    def test_many_threads_share_one_client(self):
        children = self.s.fork(n=4)
        sums = []

        def work(child, number):
            for _ in range(5):
                sums.append((number, child.run_code(f"{number} ** 2").text))

        threads = [threading.Thread(target=work, args=(child, n)) for n, child in enumerate(children)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for child in children:
            child.close()
        self.assertEqual(sorted(sums), sorted((n, str(n**2)) for n in range(4) for _ in range(5)))


class LostConnections(unittest.TestCase):
    def test_nothing_is_lost_and_nothing_runs_twice(self):
        code = "count += 1\nfor i in range(2000): print(i, flush=i % 50 == 0)"
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            s.run_code("count = 0")
            proxy.cut_after, proxy.cuts = 700, 8
            proxy.cut_all()
            # Cuts the head of an answer, an event, or the space between them.
            seqs = [event.seq for event in s.run_code_stream(code)]
            self.assertGreaterEqual(proxy.made_cuts, 5)
            self.assertEqual(seqs, list(range(len(seqs))))
            proxy.made_cuts = 0
            r = s.run_code(code)
            self.assertGreaterEqual(proxy.made_cuts, 5)
            self.assertEqual(r.stdout, "".join(f"{i}\n" for i in range(2000)))
            proxy.cuts = 0
            self.assertEqual(s.run_code("count").text, "2")

    def test_a_connection_that_ended_while_idle_is_not_used(self):
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            for _ in range(3):
                s.fork(n=1)[0].close()
                proxy.cut_all()
                time.sleep(0.05)
            self.assertEqual(s.run_code("1").text, "1")

    def test_connections_are_kept(self):
        with FlakyProxy() as proxy, Sandbox(client=Client(proxy.url)) as s:
            for _ in range(20):
                s.run_code("1")
                s.files.write("/tmp/a", "b")
            self.assertEqual(proxy.connections, 1)
