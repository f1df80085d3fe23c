"""Python, in the sandbox's own interpreter or one that the context names."""

import os
import site
from importlib.machinery import PathFinder

from dormouse_agent.languages.language import AGENT_PYTHON, GUEST_DIRECTORY, KernelCommand, Language
from dormouse_agent.programs import find_python, kernel_python

KERNEL_DIRECTORY = os.path.join(GUEST_DIRECTORY, "dormouse_kernel")


class Python(Language):
    names = ("python",)
    program = "Python"
    answers_input = True
    completes = True
    rehearses = True

    def find(self, env: dict[str, str]) -> str | None:
        return kernel_python(env)

    def command(self, program: str, env: dict[str, str], control_fd: int, interrupt_fd: int | None) -> KernelCommand:
        args = [program, KERNEL_DIRECTORY, str(control_fd)]
        if program == AGENT_PYTHON:
            note = find_python(env).note
            return KernelCommand(args if note is None else [*args, "", note])
        return KernelCommand([*args, _ipython_directory()], _virtual_environment(program, env))


def interpreter_in(path: str) -> str:
    """The interpreter of a virtual environment, or the path itself."""
    return os.path.join(path, "bin", "python") if os.path.isdir(path) else path


def _ipython_directory() -> str:
    """Where an interpreter without IPython borrows it (dormouse_kernel/borrowed_modules.py)."""
    # The agent runs without the libraries of the sandbox.
    spec = PathFinder.find_spec("IPython", site.getsitepackages())
    return os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else ""


def _virtual_environment(program: str, env: dict[str, str]) -> dict[str, str]:
    """What `activate` sets, so that programs which the code starts are those of the environment."""
    programs = os.path.dirname(os.path.abspath(program))
    root = os.path.dirname(programs)
    if not os.path.exists(os.path.join(root, "pyvenv.cfg")):
        return {}
    return {"VIRTUAL_ENV": root, "PATH": f"{programs}:{env.get('PATH', '')}"}
