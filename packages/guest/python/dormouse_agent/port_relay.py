"""port.connect: relays one TCP connection between the host and a port inside."""

import asyncio
import errno
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import RELAY_CHUNK_BYTES

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

LOOPBACK = ("127.0.0.1", "::1")
OPEN = encode_json({"type": "open"})
ENDED = encode_json({"type": "end"})
# Nothing listens at the address. Other errors are failures of the agent.
NOT_LISTENING = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETUNREACH}
GONE = {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNABORTED}


async def relay(agent: "Agent", channel: Channel, port: int) -> dict[str, Any]:
    """Returns when both directions have ended. Cancelling resets the connection."""
    loop = agent.loop
    connection = await _connect(loop, port)
    channel.item(OPEN)
    inward = loop.create_task(_inward(loop, channel, connection))
    outward = loop.create_task(_outward(loop, channel, connection))
    try:
        received, sent = await asyncio.gather(inward, outward)
        return {"received": received, "sent": sent}
    except BaseException as error:
        if isinstance(error, OSError) and not outward.done():
            # The program inside stopped reading; its earlier output is still to be read.
            await asyncio.wait((outward,))
        # Also before a snapshot: after an orderly end the program's half would stay open until the program notices.
        _reset(connection)
        raise _broken(error, port) from None
    finally:
        # The loop must stop watching the descriptor before its number is reused.
        inward.cancel()
        outward.cancel()
        await asyncio.wait((inward, outward))
        connection.close()


async def _connect(loop: asyncio.AbstractEventLoop, port: int) -> socket.socket:
    for address in LOOPBACK:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            try:
                # On the loopback this completes at once, unless the listener's queue is full.
                connection.connect((address, port))
            except BlockingIOError:
                await loop.sock_connect(connection, (address, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError) or error.errno not in NOT_LISTENING:
                raise
    raise OpError("port_closed", f"nothing listens on port {port}", {"port": port})


async def _inward(loop: asyncio.AbstractEventLoop, channel: Channel, connection: socket.socket) -> int:
    total = 0
    while (data := await channel.next_data()) is not None:
        await loop.sock_sendall(connection, data)
        total += len(data)
        channel.consumed(len(data))
    with suppress(OSError):
        # The program inside may have closed the connection meanwhile.
        connection.shutdown(socket.SHUT_WR)
    return total


async def _outward(loop: asyncio.AbstractEventLoop, channel: Channel, connection: socket.socket) -> int:
    total = 0
    while True:
        await channel.wait_to_send()
        data = await loop.sock_recv(connection, RELAY_CHUNK_BYTES)
        if not data:
            break
        channel.data(data)
        total += len(data)
    await channel.wait_to_send()
    channel.item(ENDED)
    return total


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _broken(error: BaseException, port: int) -> BaseException:
    if isinstance(error, OSError) and error.errno in GONE:
        return OpError("port_closed", f"the program inside closed the connection to port {port}", {"port": port})
    return error
