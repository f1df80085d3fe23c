"""One variable: a window of its rows, its picture, or its text."""

from collections.abc import Sequence
from typing import Any

from dormouse_kernel.inspection.images import picture_of
from dormouse_kernel.inspection.known_types import base_of
from dormouse_kernel.inspection.row_order import TooMuch, order_rows
from dormouse_kernel.inspection.safe_text import cell_of
from dormouse_kernel.inspection.tables import Table, table_of
from dormouse_kernel.inspection.variable_list import describe

TEXT_CHARS = 64 * 1024


class RowReader:
    """Remembers the order of the last table, so that scrolling through it does not sort again."""

    def __init__(self) -> None:
        self._key: Any = None
        self._order: Sequence[int] = ()

    def forget(self) -> None:
        """Before a run: it may change every variable."""
        self._key, self._order = None, ()

    def read(self, namespace: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        if name not in namespace:
            return {"error": "not_found", "message": f"there is no variable {name!r}"}
        value = namespace[name]
        answer: dict[str, Any] = {"variable": describe(name, value)}
        picture = picture_of(value)
        if picture is not None:
            answer["image"] = picture
        if base_of(type(value)) is str:
            answer["text"] = str.__getitem__(value, slice(TEXT_CHARS))
        table = table_of(value)
        if table is None or (picture is not None and table.part is not None):
            return answer
        try:
            answer["table"] = self._window(table, value, request)
        except TooMuch as error:
            return {"error": "too_large", "message": str(error)}
        return answer

    def _window(self, table: Table, value: Any, request: dict[str, Any]) -> dict[str, Any]:
        first = min(request["columnOffset"], table.column_count)
        columns = [table.column(index) for index in range(first, min(first + request["columns"], table.column_count))]
        order = self._ordered(table, value, request)
        offset = min(request["offset"], len(order))
        window = [int(position) for position in order[offset : offset + request["limit"]]]
        found = {
            "columns": [{"name": column.name, "type": column.type[:100]} for column in columns],
            "rows": [
                {"label": table.label(row), "cells": [cell_of(column.value(row)) for column in columns]}
                for row in window
            ],
            "rowCount": table.row_count,
            "matchCount": len(order),
            "columnCount": table.column_count,
        }
        return found if table.part is None else {**found, "part": table.part}

    def _ordered(self, table: Table, value: Any, request: dict[str, Any]) -> Sequence[int]:
        # Columns that the table does not have are ignored: the variable may have changed.
        filters = [(index, text) for index, text in request["filters"] if index < table.column_count]
        sort = request["sort"] if request["sort"] is not None and request["sort"] < table.column_count else None
        key = (request["name"], id(value), table.row_count, tuple(map(tuple, filters)), sort, request["descending"])
        if key != self._key:
            self._order = order_rows(table, filters, sort, request["descending"])
            self._key = key
        return self._order
