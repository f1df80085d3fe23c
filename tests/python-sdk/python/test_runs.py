import os
import signal
import threading
import time
import unittest

from dormouse import Client, DormouseError, NotFoundError, RunFailedError, RunTimeoutError, Sandbox
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

    def test_a_kernel_that_ends_fails_the_run_and_the_next_run_says_that_the_context_is_new(self):
        died = self.s.run_code("lost = 1; import os; os._exit(0)")
        self.assertEqual((died.ok, died.exit_code, died.error.name), (False, 1, "KernelDied"))
        self.assertRegex(died.stderr, "^KernelDied: the kernel exited with code 0; .*its variables are gone\n$")
        with self.assertRaises(RunFailedError):
            died.check()
        following = self.s.run_code("'lost' in globals()")
        self.assertEqual((following.ok, following.text), (True, "False"))
        self.assertRegex(following.context_restarted, "exited with code 0.*its variables are gone")
        self.assertIsNone(self.s.run_code("1").context_restarted)

    def test_memory_that_runs_out_is_an_error_of_its_own_and_a_pause_continues(self):
        with Sandbox(memory_bytes="256MiB") as s:
            grow = "blocks = [bytearray(2**20) for _ in range(400)]; print(len(blocks))"
            died = s.run_code(grow)
            self.assertEqual((died.exit_code, died.error.name), (137, "OutOfMemory"))
            self.assertEqual(died.out_of_memory, died.error.message)
            self.assertRegex(died.out_of_memory, "memory limit of 256 MiB .*--memory 512MiB")
            command = s.commands.run(["python3", "-c", grow])
            with self.assertRaisesRegex(RunFailedError, "memory limit of 256 MiB"):
                command.check()
            self.assertEqual(s.why().memory.event, "out_of_memory")
            self.assertEqual(s.update(at_memory_limit="pause").at_memory_limit, "pause")
            with self.assertRaises(DormouseError) as paused:
                s.run_code(grow)
            self.assertEqual(paused.exception.code, "memory_limit")
            self.assertEqual(s.why().memory.event, "paused")
            s.update(memory_bytes="1GiB")
            run_id = paused.exception.details["runId"]
            output = [event.data for event in s.runs.events(run_id) if event.type == "stdout"]
            self.assertEqual("".join(output), "400\n")

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

    def test_input_asks_the_caller(self):
        asked = []

        def answer(event):
            asked.append((event.prompt, bool(event.hidden)))
            return "secret" if event.hidden else "Ada"

        r = self.s.run_code("import getpass\n[input('name? '), getpass.getpass('key? ')]", on_input=answer)
        self.assertEqual((r.text, asked), ("['Ada', 'secret']", [("name? ", False), ("key? ", True)]))
        self.assertEqual(self.s.run_code("input()", on_input=lambda event: None).error.name, "EOFError")
        self.assertIn("no keyboard", self.s.run_code("input()").error.message)
        with self.assertRaises(ZeroDivisionError):
            self.s.run_code("input()", on_input=lambda event: 1 / 0)
        with self.s.run_code_stream("input('x')", input=True) as stream:
            for event in stream:
                if event.type == "input":
                    stream.answer(event, "by hand")
        self.assertEqual(stream.wait().text, "'by hand'")

    def test_runs_have_their_code_and_contexts_complete(self):
        r = self.s.run_code("vole_count = 7")
        self.assertEqual(self.s.runs.get(r.run_id).code, "vole_count = 7")
        found = self.s.contexts.complete("default", "x = vole_c")
        self.assertEqual((found.matches, found.replaces, found.more), (["vole_count"], "vole_c", False))

    def test_a_time_out_interrupts_and_the_repl_continues(self):
        self.s.run_code("kept = 1")
        r = self.s.run_code("while True: pass", timeout=0.3)
        self.assertTrue(r.timed_out)
        self.assertEqual(r.error.name, "RunTimeout")
        self.assertIn("time-out", r.error.message)
        with self.assertRaises(RunTimeoutError) as raised:
            r.check()
        self.assertEqual((raised.exception.code, raised.exception.execution), ("run_timed_out", r))
        self.assertEqual(self.s.runs.result(r.run_id).error.name, "RunTimeout")
        self.assertEqual(self.s.run_code("kept").text, "1")
        with self.assertRaises(RunTimeoutError):
            self.s.commands.run("sleep 600", timeout=0.3).check()

    def test_contexts_have_separate_variables(self):
        self.s.contexts.create("py-other", cwd="/tmp")
        self.s.run_code("who = 'default'")
        r = self.s.run_code("import os; who = 'other'; print(os.getcwd())", context="py-other")
        self.assertEqual(r.stdout, "/tmp\n")
        self.assertEqual(self.s.run_code("who").text, "'default'")
        self.assertIn("py-other", [each.name for each in self.s.contexts.list()])
        self.s.contexts.delete("py-other")
        self.assertNotIn("py-other", [each.name for each in self.s.contexts.list()])

    def test_a_run_creates_its_context(self):
        self.s.run_code("here = 'py-new'", context="py-new").check()
        self.assertEqual(self.s.run_code("here", context="py-new").text, "'py-new'")
        keyed = [self.s.run_code("1 + 1", context="py-newer", idempotency_key="py-context") for _ in range(2)]
        self.assertEqual(keyed[0], keyed[1])
        self.assertEqual(keyed[0].text, "2")
        names = [each.name for each in self.s.contexts.list()]
        for name in ("py-new", "py-newer"):
            self.assertIn(name, names)
            self.s.contexts.delete(name)
        with Sandbox() as gone:
            pass
        with self.assertRaises(NotFoundError):
            gone.run_code("1", context="py-new")

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
