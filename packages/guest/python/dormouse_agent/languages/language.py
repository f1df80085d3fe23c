"""What the agent needs to know about a language."""

import os
import shutil
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

GUEST_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Without a PATH, Python does not know its own executable.
AGENT_PYTHON = sys.executable or os.readlink("/proc/self/exe")


@dataclass(frozen=True)
class KernelCommand:
    args: list[str]
    # Added to the environment of the context.
    env: dict[str, str] = field(default_factory=dict)


class Language(ABC):
    """A kernel that speaks the protocol of PROTOCOL.md, Agent and kernel, and the languages that it runs."""

    # What callers call it. A context of one of these languages runs the others as well.
    names: tuple[str, ...]
    # The program that a sandbox needs for it.
    program: str
    # Whether user code can ask questions.
    answers_input = False
    # Whether the kernel completes half-typed code.
    completes = False
    # Whether the kernel can rehearse a run.
    rehearses = False
    # A kernel that user code can keep from reading messages gets interrupts through a pipe. Others get SIGINT.
    has_interrupt_pipe = False

    @abstractmethod
    def find(self, env: dict[str, str]) -> str | None:
        """The path of the program in this environment."""

    @abstractmethod
    def command(self, program: str, env: dict[str, str], control_fd: int, interrupt_fd: int | None) -> KernelCommand:
        """How to start the kernel with the program that `find` returned, or that the context names."""


def which(name: str, env: dict[str, str]) -> str | None:
    return shutil.which(name, path=env.get("PATH", ""))
