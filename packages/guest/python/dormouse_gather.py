"""Puts code that runs in every sandbox close together in memory.

CPython writes into the code of a function while it runs it: it counts, and replaces instructions by faster ones. So a
function that runs costs every sandbox the page that its code is on. Functions that all sandboxes run lie scattered
among thousands that they do not run. Copies of their code, made one after the other, lie on far fewer pages.
"""

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

# Versions that write into code, and show what they have written as `_co_code_adaptive`.
VERSIONS = ((3, 12), (3, 13))


class CodeGatherer:
    def __init__(self) -> None:
        self._before: dict[int, int] = {}

    def remember(self) -> None:
        """From here on functions count as run."""
        self._before = {id(each.__code__): hash(_written(each.__code__)) for each in _functions()}

    def gather(self) -> None:
        """Gives every function that has run a copy of its code. Running it again makes the copy fast."""
        ran = [each for each in _functions() if self._before.get(id(each.__code__)) != hash(_written(each.__code__))]
        self._before = {}
        # Several functions may share their code. Not by value: code of two files can be equal.
        codes = {id(each.__code__): each.__code__ for each in ran}
        copies = {key: code.replace() for key, code in codes.items()}
        for each in ran:
            each.__code__ = copies[id(each.__code__)]


def _functions() -> Iterator[FunctionType]:
    if sys.implementation.name == "cpython" and sys.version_info[:2] in VERSIONS:
        yield from (each for each in gc.get_objects() if type(each) is FunctionType)


def _written(code: CodeType) -> bytes:
    return code._co_code_adaptive  # type: ignore[attr-defined, no-any-return]
