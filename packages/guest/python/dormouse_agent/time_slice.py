"""Keeps long work from blocking the event loop."""

import asyncio
import time

from dormouse_agent.limits import TIME_SLICE_S


class TimeSlice:
    def __init__(self) -> None:
        self._ends_at = time.monotonic() + TIME_SLICE_S

    async def give_way(self) -> None:
        """Lets other requests run when this slice is used up."""
        if time.monotonic() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = time.monotonic() + TIME_SLICE_S
