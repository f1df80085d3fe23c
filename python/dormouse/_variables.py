"""What the contexts of a sandbox have in memory."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence


@dataclass(frozen=True)
class Variable:
    name: str
    type: str
    # One line, at most 200 characters.
    preview: str
    # Elements of a list, rows and columns of a table, sides of an array.
    shape: Optional[Sequence[int]] = None
    # An estimate; None for types that are not known.
    bytes: Optional[int] = None
    # `table`, `image` or `text`: what `read` shows of it.
    opens: Optional[str] = None


@dataclass(frozen=True)
class ContextVariables:
    name: str
    language: str
    # `busy`: a run is under way.
    state: str
    more: bool
    variables: Sequence[Variable] = ()


@dataclass(frozen=True)
class VariableList:
    """The variables of all contexts that have run something."""

    # False: the sandbox sleeps, and these were recorded when it was saved.
    is_live: bool
    at: Optional[datetime] = None
    contexts: Sequence[ContextVariables] = ()


@dataclass(frozen=True)
class VariableColumn:
    name: str
    type: str


@dataclass(frozen=True)
class VariableRow:
    # Its index, key or position.
    label: str
    # Missing values are None.
    cells: Sequence[Optional[str]] = ()


@dataclass(frozen=True)
class VariableTable:
    row_count: int
    # Rows that pass the filters.
    match_count: int
    column_count: int
    columns: Sequence[VariableColumn] = ()
    rows: Sequence[VariableRow] = ()
    # Which part of an array with more dimensions this is.
    part: Optional[str] = None


@dataclass(frozen=True)
class VariableImage:
    # Base64, at most 512 pixels a side.
    png: str
    # The size of the original.
    width: int
    height: int

    def content(self) -> bytes:
        return base64.b64decode(self.png)


@dataclass(frozen=True)
class VariableDetail:
    variable: Variable
    table: Optional[VariableTable] = None
    image: Optional[VariableImage] = None
    text: Optional[str] = None
