"""Estimates the size of the largest variables, so that an error about memory can name them."""

import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from dormouse_kernel.limits import (
    LARGEST_VARIABLES,
    VARIABLE_BYTES,
    VARIABLE_ELEMENTS,
    VARIABLE_NAME_CHARS,
    VARIABLES_MEASURED,
    VARIABLES_S,
)

PLAIN = (bytes, bytearray, str)
CONTAINERS = (list, tuple, set, frozenset, dict)
# Other types may run user code when an attribute is read.
ARRAY_PACKAGES = frozenset({"numpy", "pandas", "pyarrow", "torch"})
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
        if size >= VARIABLE_BYTES:
            found.setdefault(id(value), (size, name, type(value).__name__))
        if time.perf_counter() > deadline:
            break
    largest = sorted(found.values(), reverse=True)[:LARGEST_VARIABLES]
    return [
        {"name": name[:VARIABLE_NAME_CHARS], "type": kind[:VARIABLE_NAME_CHARS], "bytes": size}
        for size, name, kind in largest
    ]


def estimate_bytes(value: Any) -> int:
    kind = type(value)
    if kind in PLAIN:
        return sys.getsizeof(value)
    if kind in CONTAINERS:
        return sys.getsizeof(value) + _elements_bytes(value)
    return _array_bytes(value, kind)


def _elements_bytes(value: Any) -> int:
    """Estimates from the first elements. Containers inside count as themselves only."""
    elements: Iterable[Any] = value.values() if type(value) is dict else value
    try:
        sizes = [_element_bytes(element) for element in islice(elements, VARIABLE_ELEMENTS)]
    except RuntimeError:
        # A thread changed it meanwhile.
        return 0
    return sum(sizes) * len(value) // len(sizes) if sizes else 0


def _element_bytes(value: Any) -> int:
    kind = type(value)
    if kind in PLAIN or kind in CONTAINERS or kind in (int, float):
        return sys.getsizeof(value)
    return _array_bytes(value, kind)


def _array_bytes(value: Any, kind: type) -> int:
    if kind.__module__.partition(".")[0] not in ARRAY_PACKAGES:
        return 0
    try:
        blocks = getattr(getattr(value, "_mgr", None), "blocks", None)
        if blocks is not None:
            # pandas: asking the object itself would build another one.
            return sum(int(block.values.nbytes) for block in blocks)
        size = getattr(value, "nbytes", 0)
        return size if type(size) is int else 0
    except Exception:  # noqa: BLE001 - a name in a message is not worth a failed run
        return 0
