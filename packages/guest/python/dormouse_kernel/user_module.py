"""`import dormouse` in user code: what a program can learn about its sandbox."""

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

Only the Python of a context has this module. Programs and Python processes that it starts do not. If the SDK of the
same name is installed, this module has its names as well.
"""
OWN_NAMES = ["on_fork", "on_resume", "sandbox_id"]
Function = TypeVar("Function", bound=Callable[[], Any])


class UserModule:
    """Holds the registered functions and the sandbox id, and makes the module `dormouse`."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[[], Any]]] = {"on_resume": [], "on_fork": []}
        self._sandbox_id = os.environ.get(SANDBOX_ID, "")

    def install(self) -> None:
        module = ModuleType("dormouse", DOC)
        module.__spec__ = ModuleSpec("dormouse", None)
        for function in self._functions():
            function.__module__ = "dormouse"
            function.__qualname__ = function.__name__
            setattr(module, function.__name__, function)
        module.__all__ = [*OWN_NAMES]  # type: ignore[attr-defined]
        module.__getattr__ = _from_sdk  # type: ignore[method-assign,assignment]
        sys.modules["dormouse"] = module

    def hooks(self, kind: str) -> list[Callable[[], Any]]:
        return list(self._hooks[kind])

    def update_environment(self, env: dict[str, str]) -> None:
        self._sandbox_id = env.get(SANDBOX_ID, self._sandbox_id)
        os.environ.update(env)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        def on_resume(function: Function) -> Function:
            """Calls `function` after this sandbox has slept or was rolled back.

            Use it to connect again: connections to the outside are gone. The kernel calls it without arguments
            before the next run begins. A run that is active continues first. The function may be `async`. What it
            raises is shown as output between runs. After 10 seconds it is interrupted. A function with the same
            name replaces an earlier one, so a cell can be run again. Also works as a decorator.
            """
            self._register("on_resume", function)
            return function

        def on_fork(function: Function) -> Function:
            """Calls `function` after this sandbox was forked, in every child and in the parent.

            `sandbox_id()` tells them apart. Otherwise like on_resume.
            """
            self._register("on_fork", function)
            return function

        def sandbox_id() -> str:
            """The id of the sandbox that this code runs in now. A fork changes it, also within a run."""
            return self._sandbox_id

        return on_resume, on_fork, sandbox_id

    def _register(self, kind: str, function: Callable[[], Any]) -> None:
        if not callable(function):
            raise TypeError(f"dormouse.{kind} takes a function, not {type(function).__name__}")
        hooks = self._hooks[kind]
        for index, known in enumerate(hooks):
            if known == function or _is_new_version(function, known):
                hooks[index] = function
                return
        if len(hooks) >= HOOKS:
            raise RuntimeError(f"dormouse.{kind} has {HOOKS} functions already")
        hooks.append(function)


def _from_sdk(name: str) -> Any:
    """Loads the SDK into this module on the first access to one of its names. It may have been installed just now."""
    module = sys.modules["dormouse"]
    spec = None if name.startswith("_") else PathFinder.find_spec("dormouse")
    if spec is None or spec.loader is None or not spec.has_location or not spec.submodule_search_locations:
        raise AttributeError(f"module 'dormouse' has no attribute {name!r}")
    before = dict(vars(module))
    # Loaded once: names that the SDK does not have do not exist.
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


def _is_new_version(function: Any, known: Any) -> bool:
    name = getattr(function, "__qualname__", "<")
    # Lambdas, and functions defined inside functions, share names with others.
    return (
        "<" not in name
        and not hasattr(function, "__self__")
        and name == getattr(known, "__qualname__", None)
        and function.__module__ == getattr(known, "__module__", None)
    )
