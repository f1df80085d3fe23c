"""Prepares the memory of a process for a snapshot that many sandboxes share.

Sandboxes share a page until one of them writes to it, and then a restore copies it. Python writes where a reader would
not expect it: to the count of references of each object that it uses, to the links of each object that its collector
visits, and to the next free place in a page that is almost full.
"""

import ctypes
import gc
import os
import re
import sys
import tempfile
import types
from typing import Any

# The count of references of an immortal object, for which Python does not count. Other versions mark them differently.
IMMORTAL = 0xFFFFFFFF
VERSIONS = ((3, 12), (3, 13))
# What modules consist of. Instances stay mortal: their end may have consequences.
CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
    type,
    property,
    classmethod,
    staticmethod,
)
CONSTANTS = (str, bytes, int, float, complex, tuple, frozenset, types.CodeType)
# `bytes` has a header of 33 bytes. Smaller objects are made from other types.
BYTES_HEADER = 33
SMALL = {16: object, 32: lambda: float(len(_fillers))}

# Keeps the objects that fill gaps.
_fillers: list[object] = []


def settle_memory() -> None:
    gc.collect()
    if sys.version_info[:2] in VERSIONS and _count_of(None).value == IMMORTAL:
        _make_code_immortal()
    _fill_gaps()
    gc.freeze()


def _count_of(value: object) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(id(value))


def _make_code_immortal() -> None:
    seen: set[int] = set()
    todo: list[Any] = [each for each in gc.get_objects() if isinstance(each, CODE)]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        _count_of(each).value = IMMORTAL
        # The names of a module or a class are in a dict that lives as long as it does.
        kinds = (*CONSTANTS, dict) if isinstance(each, (types.ModuleType, type)) else CONSTANTS
        todo += [one for one in _parts_of(each) if isinstance(one, kinds)]


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, types.CodeType):
        names = (value.co_name, value.co_qualname, value.co_filename)
        return [value.co_consts, *value.co_consts, value.co_names, *value.co_names, value.co_varnames, *names]
    return gc.get_referents(value)


def _fill_gaps() -> None:
    """New objects go into pages that are almost full, one here and one there. Afterwards they get pages of their own."""
    for size, free in _free_places().items():
        make = SMALL.get(size, lambda size=size: bytes(size - BYTES_HEADER))
        _fillers.append([make() for _ in range(free)])


def _free_places() -> dict[int, int]:
    """How many more objects fit into the pages in use, by size."""
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        file.seek(0)
        text = file.read().decode()
    # Class, size, pools, blocks in use, blocks that are free.
    rows = re.finditer(r"^ +\d+ +(\d+) +\d+ +\d+ +(\d+)$", text, re.MULTILINE)
    return {int(row[1]): int(row[2]) for row in rows}
