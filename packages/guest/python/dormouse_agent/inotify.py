"""inotify, which Python's standard library lacks."""

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
# Many times the largest event, so that one call reads a whole burst.
_READ_BYTES = 64 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class RawEvent(NamedTuple):
    watch: int
    mask: int
    cookie: int
    name: str


class Inotify:
    """Pre, also of `add`: the agent acts as the user who watches. The kernel checks and counts by user."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), None)

    def add(self, path: str, mask: int) -> int:
        return _checked(_libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask)), path)

    def remove(self, watch: int) -> None:
        # An error means that the kernel has already removed it.
        _libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> list[RawEvent]:
        """Returns the events that are there now."""
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
    # ENOSPC here means that the table of watches is full. A caller would take it for a full disk.
    raise OSError(errno.EMFILE if number == errno.ENOSPC else number, "cannot watch", path)
