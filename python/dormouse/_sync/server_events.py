# Written by tools/make_sync.py from _async/server_events.py: change that one.
"""What happens on a server."""

from __future__ import annotations

from typing import Any, Mapping

from .follow import Follower


class ServerEvents:
    """Events of the server, without end: `async for event in client.events()`.

    Each has `seq`, `type`, `at`, `data` and usually `sandboxId`. A `gap` means: read the lists again.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def __iter__(self) -> ServerEvents:
        return self

    def __next__(self) -> Mapping[str, Any]:
        event = self._follower.next()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> ServerEvents:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._follower.drop()
