"""Cell magics for shells, without the background thread of IPython's own."""

import subprocess
from collections.abc import Callable
from typing import Any


def register_shell_magics(shell: Any) -> None:
    for name in ("bash", "sh"):
        shell.register_magic_function(_shell_magic(shell, name), "cell", name)


def _shell_magic(shell: Any, program: str) -> Callable[[str, str], None]:
    def magic(line: str, cell: str) -> None:
        if line.strip():
            # IPython handles options such as --out and --bg.
            shell.run_cell_magic("script", f"{program} {line}", cell)
            return
        done = subprocess.run([program], input=cell.encode(), check=False)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, program)

    magic.__name__ = program
    magic.__doc__ = f"Run the cell in {program}."
    return magic
