"""What the kernel needs of the shell that executes code: IPython's, or a plain one where IPython cannot be loaded."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Protocol

from dormouse_kernel.figures import Figures
from dormouse_kernel.results import ResultSender
from dormouse_kernel.user_loop import UserLoop


class Front(Protocol):
    # Variables of user code, and names in it that are not the user's.
    namespace: dict[str, Any]
    hidden: Any
    figures: Figures

    def __init__(self, main: ModuleType, sender: ResultSender, loop: UserLoop) -> None: ...

    def run(self, code: str) -> None:
        """Executes a cell. Raises what the code raises."""

    def rehearse(self) -> None:
        """Goes through the steps of a cell. Leaves no trace, and calls nothing that user code has registered."""

    def next_cell(self) -> None:
        """The next run has another number."""

    def start_over(self) -> None:
        """The next run is the first one again. The caller restores the namespace."""

    def complete(self, code: str) -> tuple[list[str], str]:
        """Names that continue the code, and the end of the code that they replace."""
