"""The TCP ports that programs listen on, as the kernel reports them."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dormouse_agent.errors import OpError
from dormouse_agent.limits import PORT_POLL_FIRST_S, PORT_POLL_LAST_S, PORTS_LISTED

TCP_LISTEN = 10
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
# A connection to the loopback reaches listeners on these addresses.
REACHABLE = {"0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1"}
# The server binds its own sockets here; programs inside do not listen on it.
GATE = {"198.18.0.1", "::ffff:198.18.0.1"}

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_AND_DUMP = 0x301
MESSAGE_HEADER = struct.Struct("=IHHII")
# struct inet_diag_req_v2: family, protocol, extensions, states; no particular socket.
QUERY = struct.Struct("=BBBxI48x")
# struct inet_diag_msg: family, three skipped bytes, port, the remote port (skipped), address.
ANSWER = struct.Struct("!B3xH2x16s")
ANSWER_BYTES = 32 * 1024


@dataclass(frozen=True, order=True)
class Listener:
    port: int
    address: str


def listeners() -> list[Listener]:
    try:
        found = {one for family in (socket.AF_INET, socket.AF_INET6) for one in _ask_kernel(family)}
    except OSError:
        # This kernel has no inet_diag. Reading its tables walks all connections of the host, which takes milliseconds.
        found = {one for table in TABLES for one in _read_table(table)}
    return sorted(one for one in found if one.address not in GATE)[:PORTS_LISTED]


async def wait_for_listener(port: int, timeout_s: float) -> Listener:
    """Asks the kernel and does not connect: an empty connection could confuse the listening program."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    pause = PORT_POLL_FIRST_S
    while True:
        for listener in listeners():
            if listener.port == port and listener.address in REACHABLE:
                return listener
        left = deadline - loop.time()
        if left <= 0:
            raise OpError("port_closed", f"nothing listens on port {port} yet", {"port": port})
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, PORT_POLL_LAST_S)


def _ask_kernel(family: int) -> Iterator[Listener]:
    # Closed at once: a snapshot cannot contain such a socket.
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as kernel:
        query = QUERY.pack(family, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN)
        length = MESSAGE_HEADER.size + len(query)
        kernel.send(MESSAGE_HEADER.pack(length, SOCK_DIAG_BY_FAMILY, REQUEST_AND_DUMP, 1, 0) + query)
        while True:
            # The kernel answers within the call, so this does not wait.
            data = kernel.recv(ANSWER_BYTES, socket.MSG_DONTWAIT)
            at = 0
            while at < len(data):
                length, kind, _, _, _ = MESSAGE_HEADER.unpack_from(data, at)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    raise OSError("the kernel refused to list sockets")
                yield _listener(*ANSWER.unpack_from(data, at + MESSAGE_HEADER.size))
                at += (length + 3) & ~3


def _listener(family: int, port: int, address: bytes) -> Listener:
    size = 4 if family == socket.AF_INET else 16
    return Listener(port, socket.inet_ntop(family, address[:size]))


def _read_table(table: str) -> Iterator[Listener]:
    try:
        with open(table, encoding="ascii") as file:
            next(file, None)
            for line in file:
                local, _, state = line.split()[1:4]
                if int(state, 16) == TCP_LISTEN:
                    yield _read_local(local)
    except FileNotFoundError:
        # No IPv6.
        return


def _read_local(local: str) -> Listener:
    address, port = local.split(":")
    raw = bytes.fromhex(address)
    # The words are in the byte order of the machine.
    words = struct.pack(f"={len(raw) // 4}I", *struct.unpack(f">{len(raw) // 4}I", raw))
    family = socket.AF_INET if len(words) == 4 else socket.AF_INET6
    return _listener(family, int(port, 16), words)
