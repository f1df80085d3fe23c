"""`import dormouse` in user code: the few things a program may want to know about its sandbox."""

import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeVar

from dormouse_kernel.limits import HOOKS

SANDBOX_ID = "DORMOUSE_SANDBOX_ID"
DOC = """This sandbox, seen from inside.

    import dormouse

    @dormouse.on_resume
    def reconnect():
        global db
        db = connect()

Only the Python of a context has this module. Programs and Python processes that it starts do not. Where the SDK of the
same name is installed, its names are here as well.
"""
OWN_NAMES = ["on_fork", "on_resume", "sandbox_id"]
Function = TypeVar("Function", bound=Callable[[], Any])

_hooks: dict[str, list[Callable[[], Any]]] = {"on_resume": [], "on_fork": []}
_sandbox_id = os.environ.get(SANDBOX_ID, "")


def on_resume(function: Function) -> Function:
    """Has `function` called after this sandbox has slept, or was rolled back.

    The time to connect again: connections to the outside are gone. It is called without arguments, before
    the next run begins; a run that was going on goes on first. It may be `async`. Whatever it raises is shown
    between runs. After 10 seconds it is interrupted. A function of the same name takes the place of an
    earlier one, so a cell can be run again. Also works as a decorator.
    """
    _register("on_resume", function)
    return function


def on_fork(function: Function) -> Function:
    """Has `function` called after this sandbox was forked, in every child and in the parent.

    `sandbox_id()` tells which one it is. Otherwise as on_resume.
    """
    _register("on_fork", function)
    return function


def sandbox_id() -> str:
    """The id of the sandbox this code runs in, at this moment: it changes with a fork, also within a run."""
    return _sandbox_id


def install_user_module() -> None:
    module = ModuleType("dormouse", DOC)
    module.__spec__ = ModuleSpec("dormouse", None)
    for function in (on_resume, on_fork, sandbox_id):
        function.__module__ = "dormouse"
        setattr(module, function.__name__, function)
    module.__all__ = [*OWN_NAMES]  # type: ignore[attr-defined]
    module.__getattr__ = _from_sdk  # type: ignore[method-assign,assignment]
    sys.modules["dormouse"] = module


def registered(kind: str) -> list[Callable[[], Any]]:
    return list(_hooks[kind])


def update_environment(env: dict[str, str]) -> None:
    global _sandbox_id
    _sandbox_id = env.get(SANDBOX_ID, _sandbox_id)
    os.environ.update(env)


def _from_sdk(name: str) -> Any:
    """Loads the SDK into this module when a name of it is asked for; it may have been installed a moment ago."""
    module = sys.modules["dormouse"]
    spec = None if name.startswith("_") else PathFinder.find_spec("dormouse")
    if spec is None or spec.loader is None or not spec.has_location or not spec.submodule_search_locations:
        raise AttributeError(f"module 'dormouse' has no attribute {name!r}")
    before = dict(vars(module))
    # Looked for once: what the SDK does not have is not there.
    del module.__getattr__
    module.__spec__, module.__package__ = spec, "dormouse"
    module.__path__ = list(spec.submodule_search_locations)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        vars(module).clear()
        vars(module).update(before)
        raise
    module.__all__ = [*getattr(module, "__all__", []), *OWN_NAMES]  # type: ignore[attr-defined]
    return getattr(module, name)


def _register(kind: str, function: Callable[[], Any]) -> None:
    if not callable(function):
        raise TypeError(f"dormouse.{kind} takes a function, not {type(function).__name__}")
    hooks = _hooks[kind]
    for index, known in enumerate(hooks):
        if known == function or _is_new_version(function, known):
            hooks[index] = function
            return
    if len(hooks) >= HOOKS:
        raise RuntimeError(f"dormouse.{kind} has {HOOKS} functions already")
    hooks.append(function)


def _is_new_version(function: Any, known: Any) -> bool:
    name = getattr(function, "__qualname__", "<")
    # Lambdas and functions made by other functions share their names.
    return (
        "<" not in name
        and not hasattr(function, "__self__")
        and name == getattr(known, "__qualname__", None)
        and function.__module__ == getattr(known, "__module__", None)
    )
