import contextlib
import io
import pathlib
import re
import unittest

import dormouse

README = pathlib.Path(dormouse.__file__).parent.parent / "README.md"


class Readme(unittest.TestCase):
    def test_every_block_runs_and_prints_what_its_comments_say(self):
        blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
        self.assertGreaterEqual(len(blocks), 6)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for block in blocks:
                exec(compile(block, str(README), "exec"), {"__name__": "__main__"})
        text = said.getvalue()
        for expected in (
            "6\n (3, 1)\n0\n1\n2\nexit code 0\n'hello Ada'\n['shape']\nTrue\n1 ZeroDivisionError\nrun_failed\n45\n",
            "['101', '104', '109']\nk = 7\n",
            "HELLO\n done\n 0\n",
            "30 100\r\n",
            "start\nstdout\nexit\n['0', '2', '4']\n",
        ):
            self.assertIn(expected, text)
