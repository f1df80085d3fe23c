"""Keeps long work from holding up the other requests."""

import asyncio
import time

from dormouse_agent.limits import SLICE_S


class Slices:
    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    async def rest(self) -> None:
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_S
