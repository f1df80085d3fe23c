"""The event loop of top-level await. It also runs between runs."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import traceback
from collections.abc import Coroutine
from typing import Any

from dormouse_kernel.interrupts import Interrupts


class UserLoop:
    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._loop: asyncio.AbstractEventLoop | None = None
        # All cells share it, so that context variables persist like other variables.
        self.context = contextvars.copy_context()

    def get(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            # IPython's own magics that await use the same loop.
            helpers: Any = sys.modules.get("IPython.core.async_helpers")
            if helpers is not None:
                helpers._asyncio_event_loop = self._loop
        return self._loop

    def make_current(self) -> None:
        """Makes this loop current again: asyncio.run() in user code unsets it."""
        if self._loop is not None and not self._loop.is_closed():
            asyncio.set_event_loop(self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        loop = self.get()
        asyncio.set_event_loop(loop)
        task = self._create_task(loop, coroutine)
        interrupted = False

        def cancel_while_waiting() -> bool:
            nonlocal interrupted
            if asyncio.current_task(loop) is not None or task.done():
                return False
            interrupted = True
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)
            return True

        self._interrupts.cancel_await = cancel_while_waiting
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            # The interrupt may have hit another task or the loop itself: this task still has to end.
            if not task.done():
                task.cancel()
                self._interrupts.cancel_await = None
                try:
                    loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass
            raise
        except asyncio.CancelledError as error:
            if interrupted:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        finally:
            self._interrupts.cancel_await = None

    def _create_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]
    ) -> asyncio.Task[Any]:
        if sys.version_info >= (3, 11):
            return loop.create_task(coroutine, context=self.context)
        # Older tasks copy the context: what this cell sets is lost to the next one.
        return self.context.run(loop.create_task, coroutine)

    def idle_until_readable(self, fd: int) -> None:
        """Runs background tasks until the agent sends a message."""
        loop = self._loop
        if loop is None or loop.is_closed() or loop.is_running():
            return
        readable = False

        def stop() -> None:
            nonlocal readable
            readable = True
            loop.stop()

        loop.add_reader(fd, stop)
        try:
            while not readable:
                try:
                    loop.run_forever()
                except BaseException as error:  # noqa: BLE001 - no user task may end the kernel
                    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
        finally:
            if not loop.is_closed():
                loop.remove_reader(fd)
