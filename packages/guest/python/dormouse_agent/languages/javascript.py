"""JavaScript and TypeScript, in the sandbox's Node.js."""

import os

from dormouse_agent.languages.language import GUEST_DIRECTORY, KernelCommand, Language, which

MAIN = os.path.join(GUEST_DIRECTORY, "dormouse_node", "main.mjs")
# After an interrupt of a busy timer or handler, Node's bookkeeping of callbacks looks corrupt to it, and it would abort.
OPTIONS = ("--no-force-async-hooks-checks",)


class JavaScript(Language):
    names = ("javascript", "typescript")
    program = "Node.js"
    answers_input = True
    completes = True
    has_interrupt_pipe = True

    def find(self, env: dict[str, str]) -> str | None:
        return which("node", env) or which("nodejs", env)

    def command(self, program: str, env: dict[str, str], control_fd: int, interrupt_fd: int | None) -> KernelCommand:
        return KernelCommand([program, *OPTIONS, MAIN, str(control_fd), str(interrupt_fd)])
