"""Both halves have the same names with the same signatures."""

import inspect
import re
import unittest

import dormouse

PAIRS = [name[len("Async") :] for name in dormouse.__all__ if name.startswith("Async")]


def public(cls):
    return {
        name: value
        for name, value in inspect.getmembers(cls)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


def shape(function):
    text = str(inspect.signature(function))
    return re.sub(r"Awaitable\[([^\[\]]+)\]", r"\1", re.sub(r"\bAsync(?=[A-Z])", "", text))


class Signatures(unittest.TestCase):
    def test_there_are_pairs(self):
        self.assertGreaterEqual(len(PAIRS), 15)

    def test_they_match(self):
        for name in PAIRS:
            sync, other = getattr(dormouse, name), getattr(dormouse, f"Async{name}")
            with self.subTest(name):
                self.assertEqual(shape(sync.__init__), shape(other.__init__))
                ours, theirs = public(sync), public(other)
                self.assertEqual(sorted(ours), sorted(theirs))
                for method, function in ours.items():
                    if isinstance(function, property):
                        self.assertIsInstance(theirs[method], property)
                    else:
                        self.assertEqual(shape(function), shape(theirs[method]), method)

    def test_coroutines_are_only_in_the_asynchronous_half(self):
        for name in PAIRS:
            for method, function in public(getattr(dormouse, name)).items():
                self.assertFalse(inspect.iscoroutinefunction(function), f"{name}.{method}")
        waiting = [m for m, f in public(dormouse.AsyncSandbox).items() if inspect.iscoroutinefunction(f)]
        self.assertGreaterEqual(len(waiting), 20)

    def test_public_members_have_docstrings(self):
        for name in dormouse.__all__:
            value = getattr(dormouse, name)
            if not inspect.isclass(value) or not name.endswith(("Sandbox", "Client")):
                continue
            for method, function in public(value).items():
                if not isinstance(function, property):
                    self.assertTrue(inspect.getdoc(function), f"{name}.{method}")

    def test_resume_of_the_class_and_of_instances(self):
        self.assertIn("id_or_name", inspect.signature(dormouse.Sandbox.resume).parameters)
        instance = dormouse.Sandbox.__new__(dormouse.Sandbox)
        self.assertEqual(list(inspect.signature(instance.resume).parameters), [])
