"""What happens on a server."""

from __future__ import annotations

from typing import Any, Mapping

from .follow import Follower


class AsyncServerEvents:
    """Events of the server, without end: `async for event in client.events()`.

    Each has `seq`, `type`, `at`, `data` and usually `sandboxId`. A `gap` means: read the lists again.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def __aiter__(self) -> AsyncServerEvents:
        return self

    async def __anext__(self) -> Mapping[str, Any]:
        event = await self._follower.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> AsyncServerEvents:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        self._follower.drop()
