"""file.read"""

import os
import stat
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.file_stat import Describer
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import DATA_MAX_BYTES
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as


def open_regular(path: str, user: User, flags: int, mode: int = 0o666) -> tuple[int, os.stat_result]:
    """Never blocks: a FIFO without a peer, or a device, would block the whole agent."""
    with acting_as(user):
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, mode)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OpError("not_a_file", f"{path}: not a regular file")
    return fd, status


async def read_file(
    channel: Channel, user: User, path: str, offset: int, length: int | None
) -> dict[str, Any]:
    fd, status = open_regular(path, user, os.O_RDONLY)
    try:
        channel.item(encode_json(Describer().describe(path, status)))
        time_slice = TimeSlice()
        sent = 0
        while length is None or sent < length:
            await channel.wait_to_send()
            size = DATA_MAX_BYTES if length is None else min(DATA_MAX_BYTES, length - sent)
            data = os.pread(fd, size, offset + sent)
            if not data:
                break
            channel.data(data)
            sent += len(data)
            await time_slice.give_way()
        return {"bytes": sent}
    finally:
        os.close(fd)
