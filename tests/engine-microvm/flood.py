"""Writes to the console, and sends frames of all kinds to the network card."""

import os
import socket

with open("/dev/ttyS0", "wb", buffering=0) as console:
    for _ in range(16):
        console.write(os.urandom(65_536))
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("eth0", 0))
for i in range(20_000):
    raw.send(b"\x02dormo" + i.to_bytes(6, "big") + b"\x08\x00" + os.urandom(i % 1_400))
print("done")
