"""Floods one device of the machine: flood.py console|network|disk|random|balloon. The amounts are fixed."""

import mmap
import os
import socket
import sys

MIB = 1 << 20


def console() -> None:
    with open("/dev/ttyS0", "wb", buffering=0) as port:
        for _ in range(16):
            port.write(os.urandom(65_536))


def network() -> None:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))
    for i in range(20_000):
        raw.send(b"\x02dormo" + i.to_bytes(6, "big") + b"\x08\x00" + os.urandom(i % 1_400))


def disk() -> None:
    """Without the page cache: every request reaches QEMU."""
    block = mmap.mmap(-1, 65_536)
    block.write(os.urandom(65_536))
    with open("/root/flooded", "wb") as file:
        file.truncate(64 * MIB)
    descriptor = os.open("/root/flooded", os.O_RDWR | os.O_DIRECT)
    for i in range(2_000):
        os.pwritev(descriptor, [block], (i * 7_919) % 1_024 * 65_536)
        os.preadv(descriptor, [block], (i * 104_729) % 1_024 * 65_536)
        if i % 100 == 0:
            os.fsync(descriptor)


def randomness() -> None:
    with open("/dev/hwrng", "rb", buffering=0) as source:
        total = 0
        while total < 4 * MIB:
            total += len(source.read(65_536))


def balloon() -> None:
    """The guest reports pages that it has freed, and takes them back."""
    for _ in range(6):
        taken = mmap.mmap(-1, 256 * MIB)
        for start in range(0, len(taken), 4_096):
            taken[start] = 1
        taken.close()


{"console": console, "network": network, "disk": disk, "random": randomness, "balloon": balloon}[
    sys.argv[1]
]()
print("done")
