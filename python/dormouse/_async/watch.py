"""Watching for changes of files."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .._errors import DormouseError, error_from_answer, is_transient
from .._backoff import Backoff
from .._values import FileChange
from .follow import RECONNECT_SECONDS, SSE, EventLines
from .http import Http
from .io import sleep


class AsyncWatch:
    """Changes as they come. Close it, or use it with `with`.

    Changes are not numbered: one `overflow` stands for those during a lost connection. List the files again then.
    """

    def __init__(self, http: Http, path: str, query: Mapping[str, object]) -> None:
        self._http = http
        self._path = path
        self._query = query
        self._lines: Optional[EventLines] = None
        self._backoff = Backoff(RECONNECT_SECONDS)
        self._is_over = False

    def __aiter__(self) -> AsyncWatch:
        return self

    async def __anext__(self) -> FileChange:
        while not self._is_over:
            try:
                if self._lines is None:
                    return await self._connect()
                change = await self._lines.next()
                if change is None:
                    await self.close()
                    break
                return self._read(change)
            except DormouseError as error:
                if self._is_over:
                    # Another thread has closed it.
                    break
                self._drop()
                if not is_transient(error):
                    self._is_over = True
                    raise
                await sleep(self._backoff.next_delay(error))
        raise StopAsyncIteration

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        self._is_over = True
        self._drop()

    async def _connect(self) -> FileChange:
        """Opens a connection. Earlier changes may be lost, later ones are not."""
        lines = EventLines(await self._http.open("GET", self._path, query=self._query, headers=SSE))
        ready = await lines.next()
        self._lines = lines
        if ready is not None:
            self._read(ready)
        return FileChange("overflow", str(self._query["path"]) if ready is None else ready["path"])

    def _read(self, change: Mapping[str, Any]) -> FileChange:
        if change["type"] == "failed":
            raise error_from_answer(change["error"])
        self._backoff.reset()
        return FileChange(change["type"], change["path"], change.get("from"))

    def _drop(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()
