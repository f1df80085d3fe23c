"""Imports IPython without its terminal, which a kernel does not use."""

import importlib.util
import sys
import types
from typing import Any

EMBED = "IPython.terminal.embed"
RUNTIME_PACKAGES = "/.dormouse/runtime/lib/python3/dist-packages"


def import_ipython() -> None:
    """Skips prompt_toolkit, which IPython imports for embed(): it takes a third of the memory and start time."""
    placeholder: Any = types.ModuleType(EMBED)
    placeholder.embed = _embed
    sys.modules[EMBED] = placeholder
    if importlib.util.find_spec("IPython") is None:
        # The Python of an image. Last, so that the image's own packages come first.
        sys.path.append(RUNTIME_PACKAGES)
    import IPython  # noqa: F401

    # A later import loads the real module.
    del sys.modules[EMBED]


def _embed(**options: Any) -> Any:
    from IPython.terminal.embed import embed

    return embed(**options)
