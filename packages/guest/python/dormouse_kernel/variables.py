"""Estimates the size of variables, so that a list and an error about memory can name it. Runs no user code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from dormouse_kernel.inspection.known_types import base_of, is_of_library, library_of, type_name
from dormouse_kernel.limits import (
    LARGEST_VARIABLES,
    VARIABLE_BYTES,
    VARIABLE_ELEMENTS,
    VARIABLE_NAME_CHARS,
    VARIABLES_MEASURED,
    VARIABLES_S,
)

# Names that IPython puts into every namespace.
OWN_NAMES = frozenset({"In", "Out"})


def largest_variables(namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """The largest first. Cheap and rough: containers are sampled, and a large namespace is not read to its end."""
    deadline = time.perf_counter() + VARIABLES_S
    found: dict[int, tuple[int, str, str]] = {}
    for name, value in list(islice(namespace.items(), VARIABLES_MEASURED)):
        if name.startswith("_") or name in OWN_NAMES:
            continue
        size = estimate_bytes(value)
        if size is not None and size >= VARIABLE_BYTES:
            found.setdefault(id(value), (size, name, type_name(type(value))))
        if time.perf_counter() > deadline:
            break
    largest = sorted(found.values(), reverse=True)[:LARGEST_VARIABLES]
    return [
        {"name": name[:VARIABLE_NAME_CHARS], "type": kind[:VARIABLE_NAME_CHARS], "bytes": size}
        for size, name, kind in largest
    ]


def estimate_bytes(value: Any) -> int | None:
    """None when the type is not known."""
    base = base_of(type(value))
    if base is None:
        return _array_bytes(value)
    own = _own_bytes(value, base)
    return own if base in LEAVES else own + _elements_bytes(value, base)


LEAVES = frozenset({bool, int, float, complex, str, bytes, bytearray})
# What the garbage collector adds to an object.
_COLLECTOR_BYTES = sys.getsizeof([]) - list.__sizeof__([])


def _own_bytes(value: Any, base: Any) -> int:
    # The method of the base: `sys.getsizeof` would call that of a subclass.
    return int(base.__sizeof__(value)) + (0 if base in LEAVES else _COLLECTOR_BYTES)


def _elements_bytes(value: Any, base: Any) -> int:
    """Estimates from the first elements. Containers inside count as themselves only."""
    elements: Iterable[Any] = dict.values(value) if base is dict else base.__iter__(value)
    try:
        sizes = [_element_bytes(element) for element in islice(elements, VARIABLE_ELEMENTS)]
    except RuntimeError:
        # A thread changed it meanwhile.
        return 0
    return int(sum(sizes) * base.__len__(value) // len(sizes)) if sizes else 0


def _element_bytes(value: Any) -> int:
    base = base_of(type(value))
    return (_array_bytes(value) or 0) if base is None else _own_bytes(value, base)


def _array_bytes(value: Any) -> int | None:
    library = library_of(type(value))
    try:
        if library in ("pandas.DataFrame", "pandas.Series"):
            # Asking the object itself would build another one.
            blocks = value._mgr.blocks
            return sum(int(block.values.nbytes) for block in blocks if _is_known(block.values))
        if library in ("polars.DataFrame", "polars.Series"):
            return int(value.estimated_size())
        if library in ARRAYS:
            return int(value.nbytes)
    except Exception:  # noqa: BLE001 - a size is not worth a failure
        pass
    return None


ARRAYS = frozenset({"numpy.ndarray", "pyarrow.Table", "pyarrow.RecordBatch", "pyarrow.ChunkedArray", "torch.Tensor"})


def _is_known(values: Any) -> bool:
    return library_of(type(values)) == "numpy.ndarray" or is_of_library(values, "pandas")
