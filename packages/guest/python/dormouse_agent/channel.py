"""One request: its answer, its credit in both directions, and its early end."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dormouse_agent import frames
from dormouse_agent.errors import OpError
from dormouse_agent.limits import END_MAX_BYTES, ERROR_MAX_BYTES, WINDOW_BYTES

if TYPE_CHECKING:
    from dormouse_agent.connection import Connection


class Channel:
    __slots__ = (
        "_incoming", "_incoming_ended", "_incoming_wake", "_pump",
        "connection", "id", "is_cancelled", "on_close", "open", "receive_credit", "send_credit", "takes_data", "task",
    )  # fmt: skip

    def __init__(self, connection: "Connection", channel_id: int) -> None:
        self.connection = connection
        self.id = channel_id
        self.open = True
        # The host has sent CANCEL. The connection may end before the task has ended.
        self.is_cancelled = False
        self.send_credit = WINDOW_BYTES
        self.receive_credit = WINDOW_BYTES
        self.takes_data = False
        self.task: asyncio.Task[None] | None = None
        self.on_close: Callable[[], None] | None = None
        self._pump: Callable[[], None] | None = None
        self._incoming: deque[bytes] = deque()
        self._incoming_ended = False
        self._incoming_wake: asyncio.Future[None] | None = None

    # Answers.

    def can_send(self) -> bool:
        return self.send_credit > 0 and not self.connection.congested

    def item(self, payload: bytes) -> None:
        self.send_credit -= len(payload)
        self.connection.send(frames.ITEM, self.id, payload)

    def data(self, payload: bytes) -> None:
        self.send_credit -= len(payload)
        self.connection.send(frames.DATA, self.id, payload)

    def end(self, result: dict[str, Any]) -> None:
        if not self.open:
            return
        payload = frames.encode_json(result)
        if len(payload) > END_MAX_BYTES:
            # The host would close the connection, which ends every other request too.
            self.fail(OpError("too_large", f"the answer is {len(payload)} bytes, at most {END_MAX_BYTES} can be sent"))
            return
        self.connection.send(frames.END, self.id, payload)
        self.close()
        # The host waits for nothing more. A congested connection sends in its turn.
        if not self.connection.congested:
            self.connection.flush()

    def fail(self, error: OpError) -> None:
        if self.open:
            payload = frames.encode_json(error.as_json())
            if len(payload) > ERROR_MAX_BYTES:
                payload = frames.encode_json(OpError(error.code, error.message).as_json())
            self.connection.send(frames.ERROR, self.id, payload)
            self.close()

    def close(self) -> None:
        self.open = False
        self._pump = None
        self.connection.forget(self)
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()

    # Flow control.

    def pump_with(self, pump: Callable[[], None]) -> None:
        """Calls `pump` whenever the channel may be able to send again."""
        self._pump = pump

    def pump(self) -> None:
        if self._pump is not None:
            self._pump()

    async def wait_to_send(self) -> None:
        while not self.can_send():
            ready = asyncio.get_running_loop().create_future()
            self._pump = lambda: None if ready.done() else ready.set_result(None)
            await ready
            self._pump = None

    # Data from the host.

    def receive(self, payload: bytes) -> None:
        self.receive_credit -= len(payload)
        self._incoming.append(payload)
        self._wake_incoming()

    def receive_end(self) -> None:
        self._incoming_ended = True
        self._wake_incoming()

    async def next_data(self) -> bytes | None:
        """The next piece of data, or None after the last."""
        while not self._incoming:
            if self._incoming_ended:
                return None
            self._incoming_wake = asyncio.get_running_loop().create_future()
            await self._incoming_wake
        return self._incoming.popleft()

    def consumed(self, size: int) -> None:
        self.receive_credit += size
        if self.open:
            self.connection.send(frames.CREDIT, self.id, frames.CREDIT_BODY.pack(size))

    def _wake_incoming(self) -> None:
        if self._incoming_wake is not None and not self._incoming_wake.done():
            self._incoming_wake.set_result(None)

    # Early ends.

    def cancel(self, connection_lost: bool = False) -> None:
        self.is_cancelled = self.is_cancelled or not connection_lost
        if self.task is not None:
            # The task undoes its work; then the connection answers `cancelled`.
            self.task.cancel()
            if connection_lost:
                self.close()
        elif connection_lost:
            self.close()
        else:
            self.fail(OpError("cancelled", "the host cancelled the request"))
