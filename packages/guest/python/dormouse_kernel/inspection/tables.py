"""Variables as tables: columns of values that are read one window at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dormouse_kernel.inspection.known_types import base_of, is_of_library, library_of, type_name
from dormouse_kernel.inspection.safe_text import cell_of, text_of

# A container is copied as far as this, to be read by position.
ROWS = 2_000_000
LABEL_CHARS = 100


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    # The value at a position.
    value: Callable[[int], Any]
    # A numpy array of all values, where there is one.
    array: Any = None


@dataclass(frozen=True)
class Table:
    row_count: int
    column_count: int
    column: Callable[[int], Column]
    # What names a row.
    label: Callable[[int], str]
    # Which part of an array with more dimensions this is, such as `[0, :, :]`.
    part: str | None = None


def table_of(value: Any) -> Table | None:
    """None when the value is no table."""
    library = library_of(type(value))
    if library is not None:
        make = LIBRARY_TABLES.get(library)
        return None if make is None else make(value)
    base = base_of(type(value))
    if base is dict:
        return _mapping(value)
    return _sequence(value, base) if base in (list, tuple, set, frozenset, deque) else None


def _sequence(value: Any, base: Any) -> Table:
    count = base.__len__(value)
    if base is list or base is tuple:
        at: Callable[[int], Any] = lambda position: base.__getitem__(value, position)  # noqa: E731
    else:
        at = list(islice(base.__iter__(value), ROWS)).__getitem__
    return _of_values(min(count, ROWS), at, [])


def _mapping(value: Any) -> Table:
    items = list(islice(dict.items(value), ROWS))
    return _of_values(
        len(items), lambda position: items[position][1], [Column("key", "", lambda position: items[position][0])]
    )


def _of_values(count: int, at: Callable[[int], Any], first: list[Column]) -> Table:
    columns = [
        *first,
        Column("value", "", at),
        Column("type", "", lambda position: type_name(type(at(position)))),
    ]
    return Table(count, len(columns), columns.__getitem__, str)


def _ndarray(value: Any) -> Table | None:
    array, part = value, None
    if array.ndim == 0 or array.size == 0:
        return None
    if array.ndim > 2:
        part = f"[{'0, ' * (array.ndim - 2)}:, :]"
        array = array[(0,) * (array.ndim - 2)]
    dtype = str(array.dtype)
    if array.ndim == 1:
        return Table(len(array), 1, lambda _: Column("value", dtype, array.__getitem__, array), str, part)
    rows, columns = array.shape

    def column(index: int) -> Column:
        values = array[:, index]
        return Column(str(index), dtype, values.__getitem__, values)

    return Table(rows, columns, column, str, part)


def _pandas_frame(value: Any) -> Table | None:
    manager, names, index = value._mgr, value.columns, value.index
    if not is_of_library(names, "pandas") or not is_of_library(index, "pandas"):
        return None

    def column(at: int) -> Column:
        return _pandas_column(cell_of(names[at], LABEL_CHARS) or "", manager.iget_values(at))

    return Table(len(index), len(names), column, lambda row: cell_of(index[row], LABEL_CHARS) or "")


def _pandas_series(value: Any) -> Table | None:
    index, values = value.index, value._mgr.blocks[0].values
    if not is_of_library(index, "pandas"):
        return None
    name = cell_of(value.name, LABEL_CHARS) or "value"
    return Table(
        len(index), 1, lambda _: _pandas_column(name, values), lambda row: cell_of(index[row], LABEL_CHARS) or ""
    )


def _pandas_column(name: str, values: Any) -> Column:
    if library_of(type(values)) == "numpy.ndarray":
        return Column(name, str(values.dtype), values.__getitem__, values)
    if not is_of_library(values, "pandas"):
        # An array that user code defines.
        shown = f"<{type_name(type(values))}>"
        return Column(name, type_name(type(values)), lambda _: shown)
    # Times are numbers of numpy inside.
    inner = values._ndarray if type_name(type(values)) in ("DatetimeArray", "TimedeltaArray") else None
    array = inner if library_of(type(inner)) == "numpy.ndarray" else None
    at = values.__getitem__ if array is None else array.__getitem__
    return Column(name, text_of(str(values.dtype)).strip("'"), at, array)


def _polars_frame(value: Any) -> Table:
    def column(at: int) -> Column:
        series = value.to_series(at)
        return Column(series.name[:LABEL_CHARS], str(series.dtype), series.__getitem__)

    return Table(value.height, value.width, column, str)


def _polars_series(value: Any) -> Table:
    name, kind = value.name[:LABEL_CHARS] or "value", str(value.dtype)
    return Table(len(value), 1, lambda _: Column(name, kind, value.__getitem__), str)


def _arrow_table(value: Any) -> Table:
    def column(at: int) -> Column:
        values, field = value.column(at), value.schema.field(at)
        return Column(field.name[:LABEL_CHARS], str(field.type), lambda row: values[row].as_py())

    return Table(value.num_rows, value.num_columns, column, str)


def _arrow_array(value: Any) -> Table:
    kind = str(value.type)
    return Table(len(value), 1, lambda _: Column("value", kind, lambda row: value[row].as_py()), str)


LIBRARY_TABLES: dict[str, Callable[[Any], Table | None]] = {
    "numpy.ndarray": _ndarray,
    "pandas.DataFrame": _pandas_frame,
    "pandas.Series": _pandas_series,
    "polars.DataFrame": _polars_frame,
    "polars.Series": _polars_series,
    "pyarrow.Table": _arrow_table,
    "pyarrow.RecordBatch": _arrow_table,
    "pyarrow.ChunkedArray": _arrow_array,
}
