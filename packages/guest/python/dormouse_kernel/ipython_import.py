"""Imports IPython without its terminal, which a kernel does not use."""

import sys
import types
from typing import Any

EMBED = "IPython.terminal.embed"


def import_ipython() -> None:
    """Skips prompt_toolkit, which IPython imports for embed(): it takes a third of the memory and start time."""
    placeholder: Any = types.ModuleType(EMBED)
    placeholder.embed = _embed
    sys.modules[EMBED] = placeholder
    import IPython  # noqa: F401

    # A later import loads the real module.
    del sys.modules[EMBED]


def _embed(**options: Any) -> Any:
    from IPython.terminal.embed import embed

    return embed(**options)
