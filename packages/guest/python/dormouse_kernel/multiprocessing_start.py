"""Makes multiprocessing work with functions and classes that cells define."""

import os
from multiprocessing import context, spawn
from multiprocessing.reduction import ForkingPickler
from typing import Any

from dormouse_kernel.definitions import reduce_definition

OWN_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def prepare_multiprocessing() -> None:
    # From Python 3.14 the default is `forkserver`, whose children have none of the caller's variables.
    # `set_start_method` would keep user code from calling it once itself.
    context._default_context._default_context = context._concrete_contexts["fork"]  # type: ignore[attr-defined]
    ForkingPickler.reducer_override = _reduce  # type: ignore[method-assign]
    original = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        """Lets spawned children import `dormouse_kernel.definitions`, after all modules of the user."""
        data = original(name)
        data["sys_path"] = [*data.get("sys_path", []), OWN_DIRECTORY]
        return data

    spawn.get_preparation_data = get_preparation_data


def _reduce(pickler: ForkingPickler, value: Any) -> Any:
    return reduce_definition(value)
