"""The kernel's file watching, which Python's library does not have."""

import ctypes
import errno
import os
import struct
from typing import NamedTuple

MODIFY = 0x00000002
ATTRIB = 0x00000004
MOVED_FROM = 0x00000040
MOVED_TO = 0x00000080
CREATE = 0x00000100
DELETE = 0x00000200
DELETE_SELF = 0x00000400
MOVE_SELF = 0x00000800
UNMOUNT = 0x00002000
Q_OVERFLOW = 0x00004000
IGNORED = 0x00008000
ONLYDIR = 0x01000000
DONT_FOLLOW = 0x02000000
ISDIR = 0x40000000

_EVENT = struct.Struct("iIII")
# Holds an event with the longest name; as much again so that one call empties what a burst leaves.
_READ_BYTES = 64 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class RawEvent(NamedTuple):
    watch: int
    mask: int
    cookie: int
    name: str


class Inotify:
    """Made and added to while acting as the user who watches: the kernel checks and counts by that."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), None)

    def add(self, path: str, mask: int) -> int:
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask)), path)

    def remove(self, watch: int) -> None:
        # One that the kernel has removed already is what was wanted.
        _libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> list[RawEvent]:
        """What is there now; empty when there is nothing."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        events = []
        at = 0
        while at < len(data):
            watch, mask, cookie, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
            events.append(RawEvent(watch, mask, cookie, name))
            at += length
        return events

    def close(self) -> None:
        os.close(self.fd)


def _checked(result: int, path: str | None) -> int:
    if result >= 0:
        return result
    number = ctypes.get_errno()
    # The kernel says "no space" of its own table of watches; a caller would look at the disk.
    raise OSError(errno.EMFILE if number == errno.ENOSPC else number, "cannot watch", path)
