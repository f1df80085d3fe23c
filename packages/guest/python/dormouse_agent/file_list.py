"""file.list"""

import os
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError, op_error_of
from dormouse_agent.file_stat import Describer
from dormouse_agent.frames import encode_json
from dormouse_agent.limits import LIST_DIRECTORY_ENTRIES
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as


async def list_directory(channel: Channel, user: User, path: str, depth: int) -> dict[str, Any]:
    time_slice = TimeSlice()
    describer = Describer()
    try:
        names = await _names(path, user, time_slice)
    except OSError as error:
        raise op_error_of(error, path) from error
    # Names are popped from the end, so that each directory is followed by its contents.
    stack = [(path, names, depth)]
    count = 0
    while stack:
        directory, names, levels = stack[-1]
        if not names:
            stack.pop()
            continue
        entry = os.path.join(directory, names.pop())
        try:
            with acting_as(user):
                described = describer.describe_path(entry, follow=False)
        except OSError:
            # The entry is gone, or its directory may be listed but not searched.
            continue
        await channel.wait_to_send()
        channel.item(encode_json(described))
        count += 1
        if levels > 1 and described["type"] == "directory":
            try:
                stack.append((entry, await _names(entry, user, time_slice), levels - 1))
            except OSError:
                pass
        await time_slice.give_way()
    return {"entries": count}


async def _names(path: str, user: User, time_slice: TimeSlice) -> list[str]:
    with acting_as(user):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        names = []
        with os.scandir(fd) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > LIST_DIRECTORY_ENTRIES:
                    raise OpError("too_large", f"{path}: more than {LIST_DIRECTORY_ENTRIES} entries")
                if len(names) % 512 == 0:
                    await time_slice.give_way()
    finally:
        os.close(fd)
    names.sort(reverse=True)
    return names
