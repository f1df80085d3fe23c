"""The variables of a context: name, type, shape, size and a short preview of each."""

from __future__ import annotations

import time
import types
from collections import deque
from itertools import islice
from typing import Any

from dormouse_kernel.inspection.images import is_loaded_image, is_picture
from dormouse_kernel.inspection.known_types import base_of, library_of, type_name
from dormouse_kernel.inspection.safe_text import TEXT_CHARS, cell_of, text_of
from dormouse_kernel.inspection.tables import Table, table_of
from dormouse_kernel.variables import estimate_bytes

VARIABLES = 500
LIST_S = 0.2
NAME_CHARS = 100
# Columns, and values of one column, that a preview shows.
PREVIEWED = 8
CONTAINERS = (dict, list, tuple, set, frozenset, deque)


def list_variables(namespace: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
    """The newest names last; `more` when not all are listed. `hidden` are the names that IPython defines."""
    # CPU time: on a busy host a glance at the clock would end the list early.
    deadline = time.thread_time() + LIST_S
    names = _names(namespace, hidden)
    listed: list[dict[str, Any]] = []
    for name in islice(reversed(names), VARIABLES):
        if name not in namespace:
            continue
        listed.append(describe(name, namespace[name]))
        if time.thread_time() > deadline:
            break
    listed.reverse()
    return {"variables": listed, "more": len(names) > len(listed)}


def _names(namespace: dict[str, Any], hidden: dict[str, Any]) -> list[str]:
    # A copy in one step: threads of user code may define names meanwhile.
    return [name for name, value in namespace.copy().items() if _is_shown(name, value, hidden)]


def _is_shown(name: Any, value: Any, hidden: dict[str, Any]) -> bool:
    if type(name) is not str or name.startswith("_") or len(name) > NAME_CHARS or not name.isidentifier():
        return False
    return type(value) is not types.ModuleType and not (name in hidden and hidden[name] is value)


def describe(name: str, value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": type_name(type(value)), "preview": ""}
    try:
        found["preview"] = preview_of(value)
        shape, size, opens = shape_of(value), estimate_bytes(value), opens_as(value)
    except Exception:  # noqa: BLE001 - a library may fail on a value that is half made
        return found
    if shape is not None:
        found["shape"] = shape
    if size is not None:
        found["bytes"] = size
    if opens is not None:
        found["opens"] = opens
    return found


def shape_of(value: Any) -> list[int] | None:
    library = library_of(type(value))
    if library in ("numpy.ndarray", "torch.Tensor"):
        return [int(side) for side in value.shape]
    if library is not None:
        table = table_of(value)
        if table is None:
            return None
        return [table.row_count] if library.endswith(("Series", "Array")) else [table.row_count, table.column_count]
    if is_loaded_image(value):
        return [int(value.size[1]), int(value.size[0])]
    base: Any = base_of(type(value))
    return [base.__len__(value)] if base in CONTAINERS or base in (str, bytes, bytearray) else None


def opens_as(value: Any) -> str | None:
    """What a reader can see more of."""
    if is_picture(value):
        return "image"
    base: Any = base_of(type(value))
    if base is str:
        return "text" if str.__len__(value) > TEXT_CHARS - 2 or "\n" in str.__str__(value) else None
    if base in CONTAINERS:
        return "table" if base.__len__(value) > 0 else None
    return "table" if library_of(type(value)) is not None and table_of(value) is not None else None


def preview_of(value: Any) -> str:
    library = library_of(type(value))
    if library == "torch.Tensor":
        return f"{value.dtype} on {value.device}"
    table = None if library is None else table_of(value)
    if table is None:
        if library == "numpy.ndarray":
            return f"{value.dtype}" + (f": {text_of(value.item())}" if value.ndim == 0 and value.size == 1 else "")
        return f"{value.mode} image" if is_loaded_image(value) else text_of(value)
    text = _columns_preview(table) if table.column_count > 1 and library != "numpy.ndarray" else _values_preview(table)
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"


def _columns_preview(table: Table) -> str:
    columns = [table.column(index) for index in range(min(PREVIEWED, table.column_count))]
    more = ", …" if table.column_count > PREVIEWED else ""
    return ", ".join(f"{column.name} {column.type}" for column in columns) + more


def _values_preview(table: Table) -> str:
    column = table.column(0)
    values = [cell_of(column.value(row), 20) or "–" for row in range(min(PREVIEWED, table.row_count))]
    more = ", …" if table.row_count > PREVIEWED or table.column_count > 1 else ""
    return f"{column.type}: {', '.join(values)}{more}"
