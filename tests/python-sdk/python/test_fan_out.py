import os
import signal
import threading
import unittest

from dormouse import InvalidArgumentError, RunFailedError, Sandbox


class FanOut(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()
        cls.s.run_code("base = 100")

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def tearDown(self):
        self.assertEqual([each.id for each in Sandbox.list() if each.last_info.forked_from == self.s.id], [])

    def test_map_in_order_with_failures_in_their_places(self):
        outcomes = self.s.map([1, 0, {"a": [2]}, "x"], "base / item if isinstance(item, int) else item", concurrency=2)
        self.assertEqual([each.ok for each in outcomes], [True, False, True, True])
        self.assertEqual([each.value.text for each in outcomes if each.ok], ["100.0", "{'a': [2]}", "'x'"])
        self.assertIsInstance(outcomes[1].error, RunFailedError)
        self.assertIn("ZeroDivisionError", str(outcomes[1].error))
        self.assertEqual(self.s.run_code("'item' in globals()").text, "False")
        self.assertEqual(self.s.map([], "1"), [])

    def test_map_with_a_function(self):
        def work(child, n):
            child.files.write("/root/n", str(n))
            return int(child.run_code("int(open('/root/n').read()) + base").text)

        self.assertEqual([each.value for each in self.s.map(range(5), work, concurrency=3)], [100, 101, 102, 103, 104])

    def test_race_keeps_the_best(self):
        outcome = self.s.race(["y = 1", "y = base", "1 / 0", "y = 50"], score="y", concurrency=2)
        with outcome.winner as winner:
            self.assertEqual(winner.run_code("y").text, "100")
            ranking = [(entry.rank, entry.index, entry.score) for entry in outcome.ranking]
            self.assertEqual(ranking, [(1, 1, 100), (2, 3, 50), (3, 0, 1), (4, 2, None)])
            self.assertIn("ZeroDivisionError", str(outcome.ranking[3].error))
            self.assertFalse(winner.info().ephemeral)
            self.assertEqual(winner.info().idle_timeout_ms, self.s.info().idle_timeout_ms)
        self.assertEqual(self.s.run_code("'y' in globals()").text, "False")

    def test_race_of_functions_with_a_function_as_score(self):
        outcome = self.s.race(3, run=lambda child, index: index * 2, score=lambda value, child: -value)
        outcome.winner.close()
        self.assertEqual([entry.value for entry in outcome.ranking], [0, 2, 4])

    def test_race_of_n(self):
        scored = []

        def score(value, child):
            scored.append((value.text, child.id))
            return float(value.text)

        outcome = self.s.race(3, ["base + 1", "base + 2"], score=score, best="lowest")
        outcome.winner.close()
        self.assertEqual([(e.index, e.value.text) for e in outcome.ranking], [(0, "101"), (2, "101"), (1, "102")])
        self.assertEqual(len({child for _, child in scored}), 3)
        with self.s.race(2, lambda index: f"base - {index}", score=score).winner as winner:
            self.assertEqual(winner.info().forked_from, self.s.id)
        outcome = self.s.race(n=2, candidates="base", score="base")
        outcome.winner.close()
        self.assertEqual([entry.candidate for entry in outcome.ranking], ["base", "base"])

    def test_all_candidates_fail(self):
        with self.assertRaises(RunFailedError) as raised:
            self.s.race(["1 / 0", "x = 1"], score="float('nan')")
        self.assertEqual(len(raised.exception.details["ranking"]), 2)

    def test_ctrl_c_leaves_no_child(self):
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.s.map(range(6), "import time; time.sleep(600)", concurrency=3)
        # A thread whose fork was under way deletes its children.
        for thread in threading.enumerate():
            if thread.name.startswith("dormouse"):
                thread.join()

    def test_invalid_arguments_are_refused(self):
        for wrong in (
            lambda: self.s.map([1], "1", concurrency=0),
            lambda: self.s.map([1], "1", variable="a b"),
            lambda: self.s.race([], score="1"),
            lambda: self.s.race(3, score="1"),
            lambda: self.s.race(score="1"),
            lambda: self.s.race("1", score="1"),
            lambda: self.s.race(["1"], ["2"], score="1"),
            lambda: self.s.race(1, ["1", "2"], score="1"),
            lambda: self.s.race(2, [1], score="1"),
            lambda: self.s.race(True, ["1"], score="1"),
            lambda: self.s.race(["1"], score="1", concurrency=0),
            lambda: self.s.race(["1"], score="1", best="most"),
        ):
            with self.assertRaises(InvalidArgumentError):
                wrong()
