"""Recognises types by identity. Reading `__module__`, `__class__` or `__len__` of any object may run user code."""

from __future__ import annotations

import sys
import types
from collections import deque
from typing import Any

# The getters of `type` itself: a metaclass of user code cannot replace them.
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_flags_of = type.__dict__["__flags__"].__get__

# Public names that are looked at, by library. A library that user code has not imported has no objects.
LIBRARIES: dict[str, frozenset[str]] = {
    "numpy": frozenset({"ndarray"}),
    "pandas": frozenset({"DataFrame", "Series", "Timestamp", "Timedelta"}),
    "polars": frozenset({"DataFrame", "Series"}),
    "pyarrow": frozenset({"Table", "RecordBatch", "ChunkedArray"}),
    "torch": frozenset({"Tensor"}),
}
# Subclasses are read through the methods of these types, which user code cannot override.
BASES: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, dict, list, tuple, set, frozenset, deque)
_BASES_BY_ID = {id(base): base for base in BASES}
# Types that Python code defines. Those of numpy's scalars are static.
HEAP_TYPE = 1 << 9
TYPE_NAME_CHARS = 100


def type_name(kind: type) -> str:
    return str(_qualname_of(kind))[:TYPE_NAME_CHARS]


def is_class(value: Any) -> bool:
    # `isinstance` would ask the object for its `__class__`.
    return issubclass(type(value), type)


def base_of(kind: type) -> type | None:
    """The built-in type that this is or inherits from."""
    # By id: comparing or hashing a class may run code of its metaclass.
    found = _BASES_BY_ID.get(id(kind))
    if found is not None:
        return found
    for base in _mro_of(kind):
        if id(base) in _BASES_BY_ID:
            return _BASES_BY_ID[id(base)]
    return None


def is_one_of(kind: type, kinds: tuple[type, ...]) -> bool:
    return any(kind is one for one in kinds)


def library_of(kind: type) -> str | None:
    """`numpy.ndarray` for exactly that type; None for all others, subclasses among them."""
    module = _module_of(kind)
    if type(module) is not str:
        return None
    root = module.partition(".")[0]
    name = _qualname_of(kind)
    if name not in LIBRARIES.get(root, ()):
        return None
    return f"{root}.{name}" if library_name(root, name) is kind else None


def library_name(library: str, name: str) -> Any:
    """A name of an imported library; None when there is none."""
    module = sys.modules.get(library)
    return vars(module).get(name) if type(module) is types.ModuleType else None


def is_of_library(value: Any, library: str) -> bool:
    """Whether the type was defined by the library, such as the arrays that a frame consists of."""
    module = _module_of(type(value))
    return type(module) is str and module.partition(".")[0] == library


def is_numpy_scalar(kind: type) -> bool:
    if _flags_of(kind) & HEAP_TYPE:
        return False
    generic = library_name("numpy", "generic")
    return generic is not None and issubclass(kind, generic)

