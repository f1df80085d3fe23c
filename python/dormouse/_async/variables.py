"""The variables of a sandbox."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .._json import decode, given
from .._paths import path_part
from .._variables import VariableDetail, VariableList
from .http import Http


class AsyncVariables:
    """What contexts have in memory. Looking at it runs no code of the sandbox."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def list(self) -> VariableList:
        """Of all contexts. Does not wake a sleeping sandbox, whose variables were recorded when it was saved."""
        return decode(VariableList, await self._http.json("GET", await self._sandbox._at("variables")))

    async def read(
        self,
        name: str,
        *,
        context: str = "default",
        offset: Optional[int] = None,
        limit: Optional[int] = None,
        column_offset: Optional[int] = None,
        columns: Optional[int] = None,
        sort: Optional[int] = None,
        descending: bool = False,
        filter: Optional[Mapping[int, str]] = None,
    ) -> VariableDetail:
        """A window of a table, a picture or a text. Wakes a sleeping sandbox. A context with a run is a conflict.

        `sort` is the position of a column. `filter` has, by the position of a column, a part of its text or a comparison
        such as `>5` or `=ok`.
        """
        query = given(offset=offset, limit=limit, column_offset=column_offset, columns=columns, sort=sort)
        if descending:
            query["descending"] = "true"
        for column, text in (filter or {}).items():
            query[f"filter.{column}"] = text
        path = await self._sandbox._at("contexts", path_part(context), "variables", path_part(name))
        return decode(VariableDetail, await self._http.json("GET", path, query=query))
