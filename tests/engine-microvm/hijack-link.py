"""Takes the port to the host from PID 1 of the guest, and lies on it without end: hijack-link.py junk|credit.

`junk` sends frames of a type that does not exist. `credit` accepts a connection, gives credit for it and never reads;
after 256 credits it sends one byte of data, so that the host can count them. Both begin by resetting all streams.
"""

import os
import sys
import time

FRAME_BYTES = 32_768
STREAMS = 256
OPEN, OPENED, REFUSED, DATA, RESET, CREDIT, UNKNOWN = 2, 3, 4, 5, 7, 8, 200
IPV4 = 4
PORTS = "/sys/class/virtio-ports"
DRIVER = "/sys/bus/virtio/drivers/virtio_console"


def take_port() -> int:
    """Kernel rule: a port has one reader. Its driver can be taken away from the device, and gives it back as new."""
    (name,) = os.listdir(PORTS)
    device = os.path.basename(os.path.realpath(f"{PORTS}/{name}/device"))
    for action in ("unbind", "bind"):
        with open(f"{DRIVER}/{action}", "w") as file:
            file.write(device)
    while True:
        for name in os.listdir(PORTS):
            try:
                return os.open(f"/dev/{name}", os.O_RDWR)
            except OSError:
                # The device file comes a moment after the port, and may still be that of the former one.
                pass
        time.sleep(0.01)


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    data = bytes([kind, 0]) + stream.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload
    return data.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")


def send(port: int, data: bytes) -> None:
    rest = memoryview(data)
    while len(rest) > 0:
        rest = rest[os.write(port, rest) :]


def next_open(port: int) -> int:
    """The stream of the next connection to a program. Connections to the agent are refused."""
    text = b""
    while True:
        text += os.read(port, 65_536).replace(b"\x7e", b"").replace(b"\x7d\x5d", b"\x7d").replace(b"\x7d\x5e", b"\x7e")
        while len(text) >= 8 and len(text) >= 8 + int.from_bytes(text[4:8], "big"):
            kind, stream, length = text[0], int.from_bytes(text[2:4], "big"), int.from_bytes(text[4:8], "big")
            payload, text = text[8 : 8 + length], text[8 + length :]
            if kind == OPEN and payload[0] == IPV4:
                return stream
            if kind == OPEN:
                send(port, frame(REFUSED, stream))


port = take_port()
send(port, b"\x7e" + b"".join(frame(RESET, stream) for stream in range(STREAMS)))
if sys.argv[1] == "junk":
    while True:
        send(port, frame(UNKNOWN, 3, bytes(FRAME_BYTES)) * 16)
stream = next_open(port)
send(port, frame(OPENED, stream))
while True:
    send(port, frame(CREDIT, stream, b"\xff\xff\xff\xff") * 256 + frame(DATA, stream, b"x"))
