"""Which TCP ports something listens on, as the kernel tells it."""

import asyncio
import socket
import struct
from dataclasses import dataclass

from dormouse_agent.errors import OpError
from dormouse_agent.limits import PORT_LOOK_FIRST_S, PORT_LOOK_LAST_S, PORTS_LISTED

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"
# Of those that the loopback leads to.
REACHABLE = {"0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1"}


@dataclass(frozen=True, order=True)
class Listener:
    port: int
    address: str


def listeners() -> list[Listener]:
    found: set[Listener] = set()
    for table in TABLES:
        try:
            with open(table, encoding="ascii") as file:
                next(file, None)
                for line in file:
                    local, _, state = line.split()[1:4]
                    if state == LISTENING and len(found) < PORTS_LISTED:
                        found.add(_listener(local))
        except FileNotFoundError:
            # A kernel without IPv6.
            continue
    return sorted(found)


async def wait_for_listener(port: int, timeout_s: float) -> Listener:
    """Looks rather than tries: a connection that says nothing would puzzle whoever accepts it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    pause = PORT_LOOK_FIRST_S
    while True:
        for listener in listeners():
            if listener.port == port and listener.address in REACHABLE:
                return listener
        left = deadline - loop.time()
        if left <= 0:
            raise OpError("port_closed", f"nothing listens on port {port} yet", {"port": port})
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, PORT_LOOK_LAST_S)


def _listener(local: str) -> Listener:
    address, port = local.split(":")
    raw = bytes.fromhex(address)
    # The kernel writes an address as words in the order of the machine's bytes.
    words = struct.pack(f"={len(raw) // 4}I", *struct.unpack(f">{len(raw) // 4}I", raw))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    return Listener(int(port, 16), socket.inet_ntop(family, words))
