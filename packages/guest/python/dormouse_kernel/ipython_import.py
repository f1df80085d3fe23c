"""Imports IPython without its terminal, which a kernel does not use."""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec
from typing import Any

from dormouse_kernel.borrowed_modules import LENT

EMBED = "IPython.terminal.embed"
# Python before 3.11 has no groups of exceptions. IPython only asks whether an exception is one.
GROUPS = "exceptiongroup"


def import_ipython() -> str | None:
    """Returns why this Python cannot load IPython.

    Skips prompt_toolkit, which IPython imports for embed(): it takes a third of the memory and start time.
    """
    before = set(sys.modules)
    placeholders = _place(EMBED, embed=_embed)
    if sys.version_info < (3, 11) and find_spec(GROUPS) is None:
        placeholders += _place(GROUPS, BaseExceptionGroup=type("BaseExceptionGroup", (BaseException,), {}))
    try:
        import IPython  # noqa: F401
        import IPython.core.interactiveshell  # noqa: F401
    except Exception as error:  # noqa: BLE001 - a library of the sandbox may raise anything
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in LENT:
                sys.modules.pop(name, None)
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    finally:
        # A later import loads the real module.
        for name in placeholders:
            sys.modules.pop(name, None)
    return None


def _place(name: str, **attributes: Any) -> list[str]:
    placeholder: Any = types.ModuleType(name)
    placeholder.__dict__.update(attributes)
    sys.modules[name] = placeholder
    return [name]


def _embed(**options: Any) -> Any:
    from IPython.terminal.embed import embed

    return embed(**options)
