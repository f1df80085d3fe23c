"""Sends functions and classes of user code to child processes of multiprocessing, with their source.

pickle sends a function or class of `__main__` as a name. A child that started before the definition, or as a new
program (`spawn`, `forkserver`), does not know that name: the worker ends, and the caller waits forever. With the
source the child can make the definition. A spawned child imports this module, so it imports nothing else of ours.
"""

import ast
import functools
import math
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

LITERALS = (bool, bytes, complex, float, int, str, type(None))
LITERAL_CHARS = 4096
# Longer cells are generated data: their definitions are sent as names only.
CELL_CHARS = 128 * 1024
HINT = "use the start method 'fork', or put the definition into a module"

# The source of each definition: in the kernel of the latest one, in a child of the one that it has.
_known: dict[str, str] = {}


def record_definitions(tree: ast.Module, source: str) -> None:
    """Keeps the source of functions and classes that a cell defines, and of calls such as `P = namedtuple(…)`."""
    lines = source.splitlines(keepends=True) if len(source) <= CELL_CHARS else []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            _record(node.name, "".join(lines[first - 1 : node.end_lineno]))
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            is_call = isinstance(node.value, ast.Call) and not _mentions(node.value, names)
            for name in names:
                _record(name, ast.unparse(node) if lines and is_call else "")


def forget_definitions() -> None:
    _known.clear()


def reduce_definition(value: Any) -> Any:
    """For `Pickler.reducer_override`: sends a function or class of user code by name, with the source it needs."""
    if not isinstance(value, (FunctionType, type)) or value.__module__ != "__main__":
        return NotImplemented
    main = vars(sys.modules["__main__"])
    # pickle refuses what has no name of its own: lambdas, local functions, and definitions that were replaced.
    if main.get(value.__qualname__) is not value:
        return NotImplemented
    found: dict[str, str] = {}
    _collect(value.__qualname__, main, found)
    return find_or_define, (value.__qualname__, tuple(found.items()))


def find_or_define(name: str, sources: tuple[tuple[str, str], ...]) -> Any:
    """In the child: returns the definition. Makes what the child lacks or has in an older version."""
    main = vars(sys.modules["__main__"])
    try:
        for each, source in sources:
            if each not in main or _known.get(each, source) != source:
                exec(compile(source, f"<definition of {each}>", "exec"), main)
                _known[each] = source
        if name in main:
            return main[name]
        why = "its source is not known"
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        why = f"{type(error).__name__}: {error}"
    # An exception here would end the worker and not the task, and the caller would wait forever.
    return _unusable(name, why)


def _record(name: str, source: str) -> None:
    if source:
        _known[name] = source
    else:
        _known.pop(name, None)


def _mentions(node: ast.AST, names: list[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def _collect(name: str, main: dict[str, Any], found: dict[str, str]) -> None:
    """Adds the source of `name` to `found`, behind the source of what it uses."""
    if name in found or name not in main:
        return
    value = main[name]
    is_definition = isinstance(value, (FunctionType, type))
    if isinstance(value, ModuleType):
        found[name] = f"import {value.__name__}\n{name} = __import__('sys').modules[{value.__name__!r}]"
    elif is_definition and value.__module__ == "__main__" and name in _known:
        # Present already while its own needs are collected: it may use itself.
        found[name] = _known[name]
        for used in _names_used(_known[name]):
            _collect(used, main, found)
        found[name] = found.pop(name)
    elif is_definition and value.__module__ != "__main__" and value.__qualname__.isidentifier():
        found[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif type(value) in LITERALS and not (isinstance(value, float) and not math.isfinite(value)):
        text = repr(value)
        if len(text) <= LITERAL_CHARS:
            found[name] = f"{name} = {text}"


@functools.lru_cache(maxsize=256)
def _names_used(source: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_global_names(compile(source, "<definition>", "exec"))))


def _global_names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _global_names(constant)
    return names


class _Unusable(type):
    """The type of stand-ins for a definition that a child could not make. Calling one fails the task."""

    why = ""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(cls.why)


def _unusable(name: str, why: str) -> Any:
    message = f"this process has no {name!r}, which was defined in a cell of another process ({why}); {HINT}"

    def fail(*args: Any) -> Any:
        raise RuntimeError(message)

    body = {"why": message, "__new__": lambda cls, *args: object.__new__(cls), "__getattr__": fail}
    return _Unusable(name, (), {**body, "__setstate__": lambda self, state: None})
