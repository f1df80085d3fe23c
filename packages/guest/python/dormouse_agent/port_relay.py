"""port.connect: one TCP connection to something that listens inside, relayed to the host."""

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
# Nobody is at the address, as opposed to something being wrong with the agent.
NOBODY = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETUNREACH}
GONE = {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNABORTED}


async def relay(agent: "Agent", channel: Channel, port: int) -> dict[str, Any]:
    """Ends when both directions have; giving up in between resets the connection."""
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
            # It takes nothing any more; what it said before is still to be read.
            await asyncio.wait((outward,))
        # Also before a snapshot: after an orderly end its other half would stay behind until the program inside has noticed.
        _reset(connection)
        raise _broken(error, port) from None
    finally:
        # The loop must have let go of the descriptor before its number can mean something else.
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
                # On the loopback this is settled at once, unless the queue of the listener is full.
                connection.connect((address, port))
            except BlockingIOError:
                await loop.sock_connect(connection, (address, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError) or error.errno not in NOBODY:
                raise
    raise OpError("port_closed", f"nothing listens on port {port}", {"port": port})


async def _inward(loop: asyncio.AbstractEventLoop, channel: Channel, connection: socket.socket) -> int:
    total = 0
    while (data := await channel.next_data()) is not None:
        await loop.sock_sendall(connection, data)
        total += len(data)
        channel.consumed(len(data))
    with suppress(OSError):
        # It may have been ended from inside meanwhile.
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
        return OpError("port_closed", f"the connection to port {port} was ended from inside", {"port": port})
    return error
