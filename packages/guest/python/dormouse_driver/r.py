"""R as a context. The loop of kernel.r evaluates the code and reports values, errors and plots."""

import json
import os
from pathlib import PurePosixPath

from dormouse_driver.interpreter import Interpreter

LOOP = str(PurePosixPath(__file__).parent / "kernel.r")
OPTIONS = ("--no-echo", "--no-save", "--no-restore")
UTF_8 = "C.UTF-8"


class R(Interpreter):
    # Programs that R starts would read commands from its stdin.
    commands_on_stdin = False

    def command(self) -> list[str]:
        descriptors = [str(self.descriptors[name]) for name in ("code_fd", "report_fd", "command_fd")]
        return [self.program, *OPTIONS, f"--file={LOOP}", "--args", *descriptors]

    def environment(self) -> dict[str, str]:
        # In the locale C, R shows letters beyond ASCII as numbers.
        has_locale = any(os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
        return {} if has_locale else {"LANG": UTF_8}

    def prepare(self) -> str:
        return ""

    def execute(self) -> str:
        return "run\n"

    def set_variables(self, env: dict[str, str], seed: int | None) -> str:
        # Strings of JSON are strings of R.
        lines = [f"invisible(Sys.setenv({json.dumps(name)} = {_quote(value)}))" for name, value in env.items()]
        return "\n".join(lines if seed is None else [*lines, f"set.seed({seed})"])


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
