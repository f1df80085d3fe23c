"""R that keeps its variables, packages and options."""

from dormouse_agent.languages.bash import DRIVER_DIRECTORY
from dormouse_agent.languages.language import AGENT_PYTHON, KernelCommand, Language, which


class R(Language):
    names = ("r",)
    program = "R"

    def find(self, env: dict[str, str]) -> str | None:
        return which("R", env)

    def command(self, program: str, env: dict[str, str], control_fd: int, interrupt_fd: int | None) -> KernelCommand:
        return KernelCommand([AGENT_PYTHON, DRIVER_DIRECTORY, str(control_fd), "r", program])
