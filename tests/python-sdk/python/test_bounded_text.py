"""BoundedText, with the cases that its TypeScript twin passes too."""

import json
import random
import unittest
from pathlib import Path

from dormouse._bounded_text import BoundedText, bound_text

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "packages/contracts/src/bounded-text.cases.json").read_text(encoding="utf-8"))


def bounded_of(steps, max_bytes):
    bounded = BoundedText(max_bytes)
    for step in steps:
        if isinstance(step, int):
            bounded.lose(step)
        else:
            bounded.add(step)
    return bounded


def piece_of(numbers):
    return "".join(numbers.choice("abä€🐭\0") for _ in range(numbers.randrange(8)))


class BoundedTexts(unittest.TestCase):
    def test_cases_shared_with_typescript(self):
        for case in CASES:
            with self.subTest(case["name"]):
                bounded = bounded_of(case["steps"], case["maxBytes"])
                self.assertEqual(bounded.text(), case["text"])
                self.assertEqual(bounded.lost_bytes, case["lostBytes"])
                self.assertEqual(bounded.text(), case["text"], "asked for a second time")

    def test_keeps_both_ends_and_counts_the_rest_for_texts_of_any_shape(self):
        numbers = random.Random(12)
        for _ in range(2000):
            pieces = [piece_of(numbers) for _ in range(numbers.randrange(12))]
            max_bytes = numbers.randrange(40)
            bounded = bounded_of(pieces, max_bytes)
            whole = "".join(pieces)
            if len(whole.encode()) <= max_bytes:
                self.assertEqual(bounded.text(), whole)
                continue
            head, tail = bounded.text().split(f"\n… {bounded.lost_bytes} bytes left out …\n")
            self.assertTrue(whole.startswith(head))
            self.assertTrue(whole.endswith(tail))
            kept_bytes = len(head.encode()) + len(tail.encode())
            self.assertLessEqual(kept_bytes, max_bytes)
            # A character of up to four bytes may not have fitted.
            self.assertGreater(kept_bytes, max_bytes - 4)
            self.assertEqual(kept_bytes + bounded.lost_bytes, len(whole.encode()))

    def test_gives_the_same_text_however_it_was_split_into_pieces(self):
        numbers = random.Random(34)
        for _ in range(500):
            pieces = [piece_of(numbers) for _ in range(8)]
            max_bytes = numbers.randrange(40)
            self.assertEqual(bounded_of(pieces, max_bytes).text(), bound_text("".join(pieces), max_bytes))

    def test_counts_a_lone_surrogate_as_three_bytes(self):
        self.assertEqual(bound_text("\ud83dabc", 6), "\ud83dabc")
        self.assertEqual(bound_text("abc\ud83dd", 6), "abc\n… 3 bytes left out …\nd")

    def test_the_guest_has_an_identical_copy(self):
        ours = (ROOT / "python/dormouse/_bounded_text.py").read_text(encoding="utf-8")
        guests = (ROOT / "packages/guest/python/dormouse_kernel/bounded_text.py").read_text(encoding="utf-8")
        self.assertEqual(ours, guests)


if __name__ == "__main__":
    unittest.main()
