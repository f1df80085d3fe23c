"""process.connect: relays the input and output of a process byte for byte, no faster than either side reads."""

import asyncio
import os
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import HANG_UP_S, RELAY_CHUNK_BYTES, TERMINAL_LINGER_S
from dormouse_agent.process import StartedProcess

# The first byte of DATA names the stream.
STREAM_BYTE = {"stdout": b"\1", "stderr": b"\2"}


async def relay_process(
    loop: asyncio.AbstractEventLoop, channel: Channel, process: StartedProcess
) -> dict[str, Any]:
    """Returns when the process has ended and every writer has closed its output. Cancelling closes the pipes, hangs up
    the terminal and leaves the process running."""
    channel.item(encode_json({"type": "start", "processId": process.id, "pid": process.pid}))
    # Both streams share the channel's window: one writer at a time waits for it.
    lock = asyncio.Lock()
    inward = loop.create_task(_inward(channel, process))
    outward = [loop.create_task(_outward(loop, channel, lock, process, kind)) for kind in process.outputs]
    try:
        await asyncio.gather(*outward)
        exit_code, signal = await process.ended
        return {"exitCode": exit_code} if signal is None else {"exitCode": exit_code, "signal": signal}
    finally:
        # The loop must stop watching the descriptors before their numbers are reused.
        tasks = [inward, *outward]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if process.input is not None:
            process.input.close()
        for fd in process.outputs.values():
            os.close(fd)
        process.outputs.clear()
        if process.has_terminal:
            # A shell ends when its terminal hangs up. Until then it holds a terminal that a snapshot cannot contain.
            await asyncio.wait([process.ended], timeout=HANG_UP_S)


async def _inward(channel: Channel, process: StartedProcess) -> None:
    target = process.input
    assert target is not None, "a connected process has an input"
    try:
        while (data := await channel.next_data()) is not None:
            await target.write(data)
            channel.consumed(len(data))
        await target.end()
    except OpError:
        # The process has closed its stdin. The rest is discarded, so that the sender does not wait forever.
        channel.consumed(len(data or b""))
        while (data := await channel.next_data()) is not None:
            channel.consumed(len(data))


async def _outward(
    loop: asyncio.AbstractEventLoop, channel: Channel, lock: asyncio.Lock, process: StartedProcess, kind: str
) -> None:
    fd = process.outputs[kind]
    stream = STREAM_BYTE[kind]
    while True:
        async with lock:
            await channel.wait_to_send()
            try:
                data = os.read(fd, RELAY_CHUNK_BYTES)
            except BlockingIOError:
                data = None
            except OSError:
                # A terminal reports EIO, not end of file, when its last process is gone.
                return
            if data:
                channel.data(stream + data)
        if data is None:
            if not await _readable(loop, fd, process):
                return
        elif not data:
            return


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
