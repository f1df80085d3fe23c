"""Imports IPython without its terminal, which a kernel has no use for."""

import os
import sys
import types
from typing import Any

from dormouse_kernel.report import hide_directory

EMBED = "IPython.terminal.embed"


def import_ipython() -> None:
    """IPython's package imports prompt_toolkit for embed(): a third of its memory and start time."""
    placeholder: Any = types.ModuleType(EMBED)
    placeholder.embed = _embed
    sys.modules[EMBED] = placeholder
    import IPython

    # Whoever imports it for real gets the real one.
    del sys.modules[EMBED]
    hide_directory(os.path.dirname(os.path.abspath(IPython.__file__)))


def _embed(**options: Any) -> Any:
    from IPython.terminal.embed import embed

    return embed(**options)
