"""Makes the objects of a template immortal, so that sandboxes continue to share them.

Sandboxes share the pages of their template until they write to them. Counting references writes to an object whenever
it is used, so every function that runs would cost a sandbox a page of its own, again after every wake. Immortal objects
are not counted. Agent and kernel call this when their modules are imported.
"""

import gc
import os
import sys
import types
from typing import Any

# What modules consist of. None of these holds a resource, so nothing waits for their end.
LASTING = frozenset({
    bytes, classmethod, complex, dict, float, frozenset, int, property, staticmethod, str, tuple,
    types.BuiltinFunctionType, types.CellType, types.ClassMethodDescriptorType, types.CodeType, types.FunctionType,
    types.GenericAlias, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
    types.MethodWrapperType, types.ModuleType, types.WrapperDescriptorType,
})  # fmt: skip
# `_Py_IMMORTAL_REFCNT` of these versions of CPython, for 64-bit machines. Others have another value.
COUNT = 0xFFFF_FFFF
COUNT_BYTES = COUNT.to_bytes(8, "little")
VERSIONS = ((3, 12), (3, 13))


def make_immortal() -> None:
    """Pre: no garbage is left; what the collector tracks was made by imports and by us, not by a user."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in VERSIONS or not _has_plain_counts():
        return
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            _keep_all(memory.fileno())
    except OSError:
        # Sandboxes share less memory.
        return


def _has_plain_counts() -> bool:
    """Whether an object starts with its count: not in debug builds, nor without the global lock."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return has_lock and not hasattr(sys, "gettotalrefcount") and sys.maxsize > 1 << 32 and sys.byteorder == "little"


def _keep_all(memory: int) -> None:
    for each in gc.get_objects():
        # Not `isinstance`: it would ask the object, and some import modules to answer.
        if type(each) in LASTING or issubclass(type(each), type):
            _keep(memory, each)
            # The collector does not track what refers to nothing: text, numbers, code.
            for part in gc.get_referents(each):
                if type(part) in LASTING and not gc.is_tracked(part):
                    _keep(memory, part)


def _keep(memory: int, each: Any) -> None:
    if sys.getrefcount(each) == COUNT:
        return
    # `id` is the address, and an object starts with its count.
    os.pwrite(memory, COUNT_BYTES, id(each))
    if type(each) is types.CodeType:
        for part in (each.co_consts, each.co_names, *each.co_consts):
            if type(part) in LASTING:
                _keep(memory, part)
