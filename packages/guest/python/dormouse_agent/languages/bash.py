"""bash that keeps its variables, functions and directory."""

import os

from dormouse_agent.languages.language import AGENT_PYTHON, GUEST_DIRECTORY, KernelCommand, Language, which
from dormouse_agent.programs import RUNTIME_PROGRAMS

DRIVER_DIRECTORY = os.path.join(GUEST_DIRECTORY, "dormouse_driver")


class Bash(Language):
    names = ("bash",)
    program = "bash"

    def find(self, env: dict[str, str]) -> str | None:
        return which("bash", env) or which("bash", {"PATH": RUNTIME_PROGRAMS})

    def command(self, program: str, env: dict[str, str], control_fd: int, interrupt_fd: int | None) -> KernelCommand:
        return KernelCommand([AGENT_PYTHON, DRIVER_DIRECTORY, str(control_fd), "bash", program])
