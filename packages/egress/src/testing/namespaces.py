"""Starts a command in a network of its own, where 11.0.0.0/8 is the public internet, with gates to be taken.

Descriptors of the command, beside the usual ones:
  500+2i, 501+2i  for i < 128: a listening socket at 127.0.0.1, port 30000+i, and a datagram socket, port 31000+i.
                  They are in the same network; tests say which address a connection asked for.
  800+3i .. +2    for i < 8: a listening socket (port 443 of every address), a datagram socket (198.18.0.1:53), and
                  their network namespace. Everything is local there, so the kernel keeps the address that a
                  connection asked for, as in a burrow.
"""

import ctypes
import os
import socket
import subprocess
import sys
import tempfile

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def enter_new() -> int:
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    ip("link set lo up")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def keep(fd: int, number: int) -> None:
    os.dup2(fd, number, inheritable=True)


def listen(port: int, family: int, address: str) -> socket.socket:
    tcp = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        tcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    tcp.bind((address, port))
    tcp.listen(128)
    return tcp


def datagrams(port: int, address: str) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, port))
    return udp


def be_told(hosts: str) -> None:
    """Names of registries are looked up as the host does it: /etc/hosts has some in the mount namespace of these tests."""
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(hosts)
        file.flush()
        subprocess.run(["mount", "--bind", file.name, "/etc/hosts"], check=True)


be_told("127.0.0.1 localhost\n10.77.0.1 mirror.corp.example wiki.corp.example\n")
host = enter_new()
ip("address add 10.77.0.1/32 dev lo")
# With a source of its own: otherwise the kernel would come from the very address it goes to, as it does for this host's
# own ones.
ip("route add local 11.0.0.0/8 dev lo src 10.77.0.1")
ip("address add 12.0.0.1/32 dev lo")
ip("route add local 13.0.0.0/8 dev lo")
# An interface without a carrier: os.networkInterfaces() leaves it out, the kernel still answers at its address.
ip("link add idle type veth peer name idle-peer")
ip("address add 12.0.0.3/32 dev idle")
ip("link set idle up")
kept = []
for i in range(128):
    pair = (listen(30000 + i, socket.AF_INET, "127.0.0.1"), datagrams(31000 + i, "127.0.0.1"))
    kept.append(pair)
    for at, one in enumerate(pair):
        keep(one.fileno(), 500 + 2 * i + at)
for i in range(8):
    inside = enter_new()
    ip("address add 198.18.0.1/32 dev lo")
    ip("route add local default dev lo")
    ip("-6 route add local default dev lo")
    pair = (listen(443, socket.AF_INET6, "::"), datagrams(53, "198.18.0.1"))
    kept.append(pair)
    for at, fd in enumerate([pair[0].fileno(), pair[1].fileno(), inside]):
        keep(fd, 800 + 3 * i + at)
if libc.setns(host, CLONE_NEWNET) != 0:
    raise OSError(ctypes.get_errno(), "setns")
os.execvp(sys.argv[1], sys.argv[1:])
