"""Connected processes: relays input and output of a process byte for byte, no faster than either side reads.

A relay outlives the connection of the host, because a snapshot ends every connection. Both sides count bytes, and keep
what the other side may not have received. So the next connection continues without a gap."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import (
    DETACHED_TICK_S,
    DETACHED_TICKS,
    HANG_UP_S,
    RELAY_CHUNK_BYTES,
    TERMINAL_LINGER_S,
    WINDOW_BYTES,
)
from dormouse_agent.process import StartedProcess
from dormouse_agent.process_input import ProcessInput

# The first byte of DATA names the stream.
STREAM_BYTE = {"stdout": b"\1", "stderr": b"\2"}


class ProcessRelay:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, process: StartedProcess, abandon: Callable[["ProcessRelay"], None]
    ) -> None:
        self._loop = loop
        self._process = process
        # Called when no host has come back in time.
        self._abandon = abandon
        # Output that the host may not have received, as payloads of DATA: sent in this connection, and not yet.
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0
        self._unsent: deque[bytes] = deque()
        # The position of its first byte, and the end of the output so far.
        self._kept_from = 0
        self._output_bytes = 0
        # Input that the process has received, or no longer reads.
        self._input_bytes = 0
        self._input_ended = False
        self._attached: Channel | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False

    async def serve(self, channel: Channel, received_bytes: int) -> dict[str, Any]:
        """Returns when the process has ended and every writer has closed its output. CANCEL closes the pipes, hangs up
        the terminal and leaves the process running. The end of the connection only detaches."""
        await self._detach()
        if self.is_over or not self._kept_from <= received_bytes <= self._output_bytes:
            raise OpError("conflict", f"process {self._process.id} cannot continue at byte {received_bytes}")
        self._attached = channel
        self._stop_waiting()
        self._rewind_to(received_bytes)
        channel.item(encode_json(self._position()))
        tasks = self._relay(channel)
        try:
            await asyncio.gather(*tasks[1:])
            exit_code, signal = await self._process.ended
            return {"exitCode": exit_code} if signal is None else {"exitCode": exit_code, "signal": signal}
        finally:
            # The loop must stop watching the descriptors before their numbers are reused.
            await _end_all(tasks)
            self._attached = None
            if channel.open or channel.is_cancelled:
                await self.hang_up()
            else:
                self._wait_for_host(DETACHED_TICKS)

    async def hang_up(self) -> None:
        """Closes the pipes and the terminal. No host can continue."""
        if self.is_over:
            return
        self.is_over = True
        self._stop_waiting()
        process = self._process
        if process.input is not None:
            process.input.close()
        for fd in process.outputs.values():
            os.close(fd)
        process.outputs.clear()
        self._sent.clear()
        self._unsent.clear()
        if process.has_terminal and not process.ended.done():
            # A shell ends when its terminal hangs up. Until then it holds a terminal that a snapshot cannot contain.
            await asyncio.wait([process.ended], timeout=HANG_UP_S)

    @property
    def is_attached(self) -> bool:
        return self._attached is not None

    def _position(self) -> dict[str, Any]:
        return {
            "type": "start",
            "processId": self._process.id,
            "pid": self._process.pid,
            "inputBytes": self._input_bytes,
            "inputEnded": self._input_ended,
        }

    async def _detach(self) -> None:
        """Ends an earlier request whose connection the agent does not know to be broken."""
        while (earlier := self._attached) is not None and earlier.task is not None:
            earlier.cancel(connection_lost=True)
            await asyncio.wait([earlier.task])

    def _wait_for_host(self, ticks: int) -> None:
        # Ticks, not a time: the time of a sleep does not count.
        self._timer = self._loop.call_later(DETACHED_TICK_S, self._tick, ticks)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, ticks: int) -> None:
        if ticks > 1:
            self._wait_for_host(ticks - 1)
        else:
            self._abandon(self)

    def _relay(self, channel: Channel) -> list["asyncio.Task[None]"]:
        """The task of the input, then those of the output."""
        # Both streams share the channel's window: one writer at a time waits for it.
        lock = asyncio.Lock()
        outputs = [self._outward(channel, lock, kind) for kind in self._process.outputs]
        return [self._loop.create_task(each) for each in (self._inward(channel), *outputs)]

    async def _inward(self, channel: Channel) -> None:
        target = self._process.input
        assert target is not None, "a connected process has an input"
        while (data := await channel.next_data()) is not None:
            await self._take(target, data)
            channel.consumed(len(data))
        if not self._input_ended:
            try:
                await target.end()
            except OpError:
                pass
            self._input_ended = True

    async def _take(self, target: ProcessInput, data: bytes) -> None:
        end = self._input_bytes + len(data)
        try:
            await target.write(data, self._count_input)
        except OpError:
            # The process has closed its stdin. The rest is discarded, so that the sender does not wait forever.
            pass
        self._input_bytes = end

    def _count_input(self, size: int) -> None:
        self._input_bytes += size

    async def _outward(self, channel: Channel, lock: asyncio.Lock, kind: str) -> None:
        fd = self._process.outputs[kind]
        while True:
            async with lock:
                await channel.wait_to_send()
                self._forget_received(channel)
                if self._unsent:
                    self._send(channel, self._unsent.popleft())
                    continue
                try:
                    data = os.read(fd, RELAY_CHUNK_BYTES)
                except BlockingIOError:
                    data = None
                except OSError:
                    # A terminal reports EIO, not end of file, when its last process is gone.
                    return
                if data:
                    self._output_bytes += len(data)
                    self._send(channel, STREAM_BYTE[kind] + data)
            if data is None:
                if not await _readable(self._loop, fd, self._process):
                    return
            elif not data:
                return

    def _send(self, channel: Channel, payload: bytes) -> None:
        self._sent.append(payload)
        self._sent_bytes += len(payload)
        channel.data(payload)

    def _forget_received(self, channel: Channel) -> None:
        """Forgets the output that the host has given credit for."""
        unread_bytes = WINDOW_BYTES - channel.send_credit
        while self._sent and self._sent_bytes - len(self._sent[0]) >= unread_bytes:
            payload = self._sent.popleft()
            self._sent_bytes -= len(payload)
            self._kept_from += len(payload) - 1

    def _rewind_to(self, received_bytes: int) -> None:
        """Forgets the output up to there. The rest is sent again."""
        kept = deque([*self._sent, *self._unsent])
        while kept and self._kept_from + len(kept[0]) - 1 <= received_bytes:
            self._kept_from += len(kept.popleft()) - 1
        if (skip := received_bytes - self._kept_from) > 0:
            kept[0] = kept[0][:1] + kept[0][1 + skip :]
            self._kept_from = received_bytes
        self._sent.clear()
        self._sent_bytes = 0
        self._unsent = kept


async def _end_all(tasks: list["asyncio.Task[None]"]) -> None:
    """Returns when all have ended, also if the caller is cancelled meanwhile."""
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            pass


async def _readable(loop: asyncio.AbstractEventLoop, fd: int, process: StartedProcess) -> bool:
    """False for a quiet terminal whose process has ended: background programs may hold it open forever."""
    ready: asyncio.Future[bool] = loop.create_future()
    timers: list[asyncio.TimerHandle] = []

    def settle(is_readable: bool) -> None:
        if not ready.done():
            ready.set_result(is_readable)

    def on_end(_: object) -> None:
        timers.append(loop.call_later(TERMINAL_LINGER_S, settle, False))

    loop.add_reader(fd, settle, True)
    if process.has_terminal:
        process.ended.add_done_callback(on_end)
    try:
        return await ready
    finally:
        loop.remove_reader(fd)
        process.ended.remove_done_callback(on_end)
        for timer in timers:
            timer.cancel()
