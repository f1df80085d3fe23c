"""process.connect: a process whose input and output are the channel, byte for byte and no faster than either side takes them."""

import asyncio
import os
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import HANG_UP_S, RELAY_CHUNK_BYTES, TERMINAL_LINGER_S
from dormouse_agent.process import StartedProcess

# The first byte of DATA says where it was written to.
MARKS = {"stdout": b"\1", "stderr": b"\2"}


async def relay_process(
    loop: asyncio.AbstractEventLoop, channel: Channel, process: StartedProcess
) -> dict[str, Any]:
    """Ends when the process has ended and nobody can write any more. Giving up in between leaves the process alone: its pipes are
    closed, its terminal is hung up."""
    channel.item(encode_json({"type": "start", "pid": process.pid}))
    # One window for both kinds, and one writer at a time that waits for it.
    turn = asyncio.Lock()
    inward = loop.create_task(_inward(channel, process))
    outward = [loop.create_task(_outward(loop, channel, turn, process, kind)) for kind in process.outputs]
    try:
        await asyncio.gather(*outward)
        exit_code, signal = await process.ended
        return {"exitCode": exit_code} if signal is None else {"exitCode": exit_code, "signal": signal}
    finally:
        # The loop must have let go of the descriptors before their numbers can mean something else.
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
            # A shell ends when it hears of this. Until then it holds one end of something that a snapshot cannot hold.
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
        # It reads no further. What is still sent has to go somewhere, or the sender would wait for ever.
        channel.consumed(len(data or b""))
        while (data := await channel.next_data()) is not None:
            channel.consumed(len(data))


async def _outward(
    loop: asyncio.AbstractEventLoop, channel: Channel, turn: asyncio.Lock, process: StartedProcess, kind: str
) -> None:
    fd = process.outputs[kind]
    mark = MARKS[kind]
    while True:
        async with turn:
            await channel.wait_to_send()
            try:
                data = os.read(fd, RELAY_CHUNK_BYTES)
            except BlockingIOError:
                data = None
            except OSError:
                # A terminal whose last process is gone says EIO where a pipe says end of file.
                return
            if data:
                channel.data(mark + data)
        if data is None:
            if not await _readable(loop, fd, process):
                return
        elif not data:
            return


async def _readable(loop: asyncio.AbstractEventLoop, fd: int, process: StartedProcess) -> bool:
    """False: it is a terminal, its process has ended, and nothing more came. Programs in the background may keep it open for ever."""
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
