"""A notebook displays results like its own. The kernel of a sandbox serves as the notebook."""

import io
import json
import pathlib
import tarfile
import tempfile
import unittest

import dormouse
from dependencies import package_directories
from dormouse import Execution, InvalidArgumentError, Result, Sandbox

PACKAGE = pathlib.Path(dormouse.__file__).parent


def sources_archive(directories):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for directory in directories:
            for path in directory.rglob("*.py"):
                tar.add(path, str(path.relative_to(directory.parent)))
    return archive.getvalue()


class Display(unittest.TestCase):
    def test_bundles(self):
        result = Result({"text/plain": "t", "text/html": "<b>t</b>", "image/png": "aGk="}, True)
        self.assertEqual(result._repr_mimebundle_(), dict(result))
        self.assertEqual(result._repr_mimebundle_(include={"text/plain"}), {"text/plain": "t"})
        self.assertEqual(result._repr_mimebundle_(exclude={"text/plain", "image/png"}), {"text/html": "<b>t</b>"})
        self.assertEqual((result._repr_html_(), result._repr_png_(), repr(result)), ("<b>t</b>", b"hi", "t"))
        self.assertEqual(result["text/plain"], "t")
        shown = Execution("run", stdout="said\n", results=[result])._repr_mimebundle_()
        self.assertEqual((shown["text/html"], shown["text/plain"]), ("<b>t</b>", "said\nt"))
        self.assertIsNone(Result({"text/plain": "x"}).png)

    def test_every_form(self):
        forms = {
            "text/plain": "t",
            "text/html": "<b>ü</b>",
            "text/markdown": "*m*",
            "text/latex": "$l$",
            "image/svg+xml": "<svg/>",
            "application/json": {"a": [1, "ü"]},
            "image/png": "aGk=",
        }
        result = Result(forms, True)
        self.assertEqual(result._repr_mimebundle_(), forms)
        self.assertEqual((result.markdown, result.latex, result.svg), ("*m*", "$l$", "<svg/>"))
        self.assertEqual((result._repr_markdown_(), result._repr_latex_(), result._repr_json_()), ("*m*", "$l$", result.json))
        with tempfile.TemporaryDirectory() as directory:
            for name in ("a.txt", "a.html", "a.md", "a.tex", "a.svg", "a.json", "a.PNG"):
                result.save_to(pathlib.Path(directory, name))
            read = {each.name: each.read_bytes() for each in pathlib.Path(directory).iterdir()}
            self.assertEqual((read["a.html"], read["a.PNG"], read["a.tex"]), ("<b>ü</b>".encode(), b"hi", b"$l$"))
            self.assertEqual(json.loads(read["a.json"]), result.json)
            for wrong in ("a.jpeg", "a.xyz", "a"):
                with self.assertRaises(InvalidArgumentError) as raised:
                    result.save_to(f"{directory}/{wrong}")
                self.assertIn("path: ", str(raised.exception))
                self.assertIn(".png", raised.exception.hint)
            with self.assertRaises(InvalidArgumentError):
                Result({"image/png": "no base64!"}).save_to(f"{directory}/b.png")
            self.assertEqual(len(list(pathlib.Path(directory).iterdir())), 7)

    def test_in_a_real_kernel(self):
        with Sandbox() as s:
            plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); print('said'); plt.show()\n[1, 2]"
            seen = s.run_code(plot)
            self.assertTrue(seen.results[0].png.startswith(b"\x89PNG"))
            s.files.write("/root/sdk.tar", sources_archive([PACKAGE, *package_directories()]))
            unpacked = s.commands.run("mkdir sdk && tar -xf sdk.tar -C sdk", cwd="/root")
            self.assertEqual((unpacked.stderr, unpacked.exit_code), ("", 0))
            # The kernel has a module of the same name: the name has the members of both.
            results = json.dumps([dict(result) for result in seen.results])
            code = f"""
import json, sys
sys.path.insert(0, '/root/sdk')
import dormouse
from dormouse import Execution, Result
assert dormouse.sandbox_id().startswith('sb-') and callable(dormouse.on_resume) and dormouse.Sandbox
Execution('run', stdout='said\\n', results=[Result(each) for each in json.loads({results!r})])
"""
            again = s.run_code(code).check()
            self.assertEqual([dict(each) for each in again.results], [dict(each) for each in seen.results])
            self.assertEqual(again.stdout, "said\n")
