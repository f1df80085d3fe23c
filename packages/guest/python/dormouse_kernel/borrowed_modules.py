"""Lends IPython to an interpreter that does not have it, such as that of a virtual environment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# IPython and what it imports: written in Python, so they work in any interpreter. Nothing else is lent: user code
# must see the libraries of its own environment only.
LENT = frozenset(
    (
        "IPython", "asttokens", "backcall", "decorator", "exceptiongroup", "executing", "ipython_pygments_lexers", "jedi",
        "matplotlib_inline", "parso", "pexpect", "pickleshare", "prompt_toolkit", "ptyprocess", "pure_eval", "pygments",
        "six", "stack_data", "traitlets", "typing_extensions", "wcwidth",
    )  # fmt: skip
)


class BorrowedModules:
    """A finder after all others: modules of the environment itself win."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self._directory]) if name in LENT else None


def borrow_from(directory: str) -> None:
    sys.meta_path.append(BorrowedModules(directory))
