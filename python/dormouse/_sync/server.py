# Written by tools/make_sync.py from _async/server.py: change that one.
"""The server and its host."""

from __future__ import annotations

from typing import Iterator

from .._json import decode
from .._server import ServerLogLine, ServerReport
from .follow import SSE, EventLines
from .http import Http


class Server:
    """How the server and its host are. Needs a key with the scope `admin`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def report(self) -> ServerReport:
        """What `dormouse doctor` finds on the host, with free disk and memory."""
        return decode(ServerReport, self._http.json("GET", "/v1/server"))

    def log(self, *, after: int = -1, follow: bool = False) -> Iterator[ServerLogLine]:
        """The newest lines of the log; with `follow`, lines as they come."""
        query = {"after": after, "follow": follow}
        lines = EventLines(self._http.open("GET", "/v1/server/log", query=query, headers=SSE))
        try:
            while (line := lines.next()) is not None:
                yield decode(ServerLogLine, line)
        finally:
            lines.close()
