"""A connection of the host: frames in, frames out, one channel per request."""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from dormouse_agent import VERSION, frames, limits
from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError, op_error_of
from dormouse_json import decode

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

HEADER_BYTES = frames.HEADER.size


class Connection(asyncio.BufferedProtocol):
    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._loop = agent.loop
        self._transport: asyncio.Transport
        self._channels: dict[int, Channel] = {}
        self._buffer = bytearray()
        # One for all reads: a new one for each, of this size, would be mapped and unmapped by the kernel.
        self._received = memoryview(bytearray(limits.RECEIVE_BYTES))
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._greeted = False
        self._paused = False
        self.congested = False

    # Transport events.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=limits.OUTGOING_SOFT_BYTES)
        self._agent.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._agent.connections.discard(self)
        self.congested = True
        for channel in list(self._channels.values()):
            channel.cancel(connection_lost=True)

    def pause_writing(self) -> None:
        self._paused = self.congested = True

    def resume_writing(self) -> None:
        self._paused = False
        self._transport.resume_reading()
        self._uncongest()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        buffer += self._received[:nbytes]
        start = 0
        while len(buffer) - start >= HEADER_BYTES:
            length, kind, flags, channel_id = frames.HEADER.unpack_from(buffer, start)
            if length > limits.FRAME_MAX_BYTES or flags:
                self._refuse("invalid_argument", "a frame is too long or has flags")
                return
            end = start + HEADER_BYTES + length
            if len(buffer) < end:
                break
            payload = bytes(memoryview(buffer)[start + HEADER_BYTES : end])
            start = end
            self._on_frame(kind, channel_id, payload)
            if self._transport.is_closing():
                return
        del buffer[:start]

    # Closing, on the agent's initiative.

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    def cancel_channels(self, but: Channel | None = None) -> set["asyncio.Task[None]"]:
        """Cancels as if the connection had ended. Returns the tasks that still undo their work."""
        channels = [channel for channel in self._channels.values() if channel is not but]
        for channel in channels:
            channel.cancel(connection_lost=True)
        return {channel.task for channel in channels if channel.task is not None}

    def drop(self) -> None:
        self._transport.abort()

    def close_when_sent(self) -> None:
        self.flush()
        self._transport.close()
        # A host that never reads its answer must not keep the socket open.
        self._loop.call_later(limits.QUIESCE_S, self._transport.abort)

    # Outgoing frames: frames sent in one iteration of the event loop leave in one write, up to the end of an answer.

    def send(self, kind: int, channel_id: int, payload: bytes) -> None:
        if not self._outgoing:
            self._loop.call_soon(self.flush)
        self._outgoing.append(frames.HEADER.pack(len(payload), kind, 0, channel_id))
        self._outgoing.append(payload)
        self._outgoing_bytes += len(payload)
        if self._outgoing_bytes > limits.OUTGOING_SOFT_BYTES:
            self.congested = True

    def flush(self) -> None:
        outgoing, self._outgoing, self._outgoing_bytes = self._outgoing, [], 0
        if not outgoing or self._transport.is_closing():
            return
        self._transport.write(b"".join(outgoing))
        if self._paused and self._transport.get_write_buffer_size() > limits.OUTGOING_HARD_BYTES:
            # Credit does not bound answers: a host that never reads them must not start more work.
            self._transport.pause_reading()
        if self.congested and not self._paused:
            self._uncongest()

    def _uncongest(self) -> None:
        self.congested = False
        for channel in list(self._channels.values()):
            if self.congested:
                break
            channel.pump()

    def forget(self, channel: Channel) -> None:
        self._channels.pop(channel.id, None)

    # Incoming frames.

    def _on_frame(self, kind: int, channel_id: int, payload: bytes) -> None:
        if not self._greeted:
            self._greet(kind, channel_id, payload)
        elif kind == frames.REQUEST:
            self._on_request(channel_id, payload)
        elif kind in (frames.DATA, frames.END, frames.CANCEL, frames.CREDIT):
            # The host sent a frame for a closed channel before it saw END or ERROR.
            if (channel := self._channels.get(channel_id)) is not None:
                self._on_channel_frame(channel, kind, payload)
        else:
            self._refuse("invalid_argument", f"a frame of type {kind} is not allowed here")

    def _greet(self, kind: int, channel_id: int, payload: bytes) -> None:
        protocols: Any = None
        if kind == frames.HELLO and channel_id == 0:
            try:
                protocols = json.loads(payload).get("protocols")
            except (ValueError, AttributeError, RecursionError):
                pass
        if not isinstance(protocols, list) or 1 not in protocols:
            self._refuse("protocol_mismatch", f"this agent ({VERSION}) speaks protocol 1 only")
            return
        self._greeted = True
        hello = {"protocol": 1, "agent": VERSION, "python": sys.version.split()[0], "pid": os.getpid()}
        self.send(frames.HELLO, 0, frames.encode_json(hello))

    def _on_request(self, channel_id: int, payload: bytes) -> None:
        if channel_id == 0 or channel_id in self._channels:
            self._refuse("invalid_argument", f"channel {channel_id} is in use")
            return
        channel = Channel(self, channel_id)
        if len(self._channels) >= limits.CHANNELS_PER_CONNECTION:
            channel.fail(OpError("limit_reached", "too many requests are open on this connection"))
            return
        self._channels[channel_id] = channel
        try:
            found, args = self._agent.operations.resolve(decode(payload))
            channel.takes_data = found.takes_data
            answer = found.handler(self._agent, channel, args)
            if isinstance(answer, dict):
                channel.end(answer)
            elif answer is not None:
                channel.task = self._loop.create_task(self._finish(channel, answer))
        except BaseException as error:  # noqa: BLE001 - one bad request must not end the agent
            channel.fail(_answer_to(error))

    async def _finish(self, channel: Channel, answer: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            channel.end(await answer)
        except BaseException as error:  # noqa: BLE001 - as above
            channel.fail(_answer_to(error))

    def _on_channel_frame(self, channel: Channel, kind: int, payload: bytes) -> None:
        if kind == frames.CREDIT:
            if len(payload) != frames.CREDIT_BODY.size:
                self._refuse("invalid_argument", "CREDIT must have four bytes")
                return
            channel.send_credit += frames.CREDIT_BODY.unpack(payload)[0]
            channel.pump()
        elif kind == frames.CANCEL:
            channel.cancel()
        elif not channel.takes_data:
            self._refuse("invalid_argument", f"channel {channel.id} takes no data")
        elif kind == frames.END:
            channel.receive_end()
        elif len(payload) > limits.DATA_MAX_BYTES or channel.receive_credit <= 0:
            self._refuse("invalid_argument", f"channel {channel.id}: more data than the window allows")
        else:
            channel.receive(payload)

    def _refuse(self, code: str, message: str) -> None:
        """Closes the connection of a host that breaks the protocol: the agent could not parse what follows."""
        self.send(frames.ERROR, 0, frames.encode_json({"code": code, "message": message}))
        self.flush()
        self._transport.close()


def _answer_to(error: BaseException) -> OpError:
    if isinstance(error, OpError):
        return error
    if isinstance(error, OSError):
        return op_error_of(error)
    if isinstance(error, asyncio.CancelledError):
        return OpError("cancelled", "the host cancelled the request")
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)):
        return OpError("invalid_argument", "the request is not valid JSON")
    traceback.print_exception(error, file=sys.stderr)
    return OpError("internal", f"the agent failed: {type(error).__name__}: {error}")
