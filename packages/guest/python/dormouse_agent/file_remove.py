"""file.remove"""

import os
import stat
from typing import Any

from dormouse_agent.errors import OpError, op_error_of
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def remove(user: User, path: str, recursive: bool) -> dict[str, Any]:
    bare = path.rstrip("/") or "/"
    with acting_as(user):
        status = os.lstat(bare)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(bare)
            return {}
        if not recursive:
            os.rmdir(bare)
            return {}
    try:
        await _empty(user, bare)
    except OSError as error:
        raise op_error_of(error) from error
    with acting_as(user):
        os.rmdir(bare)
    return {}


async def _empty(user: User, root: str) -> None:
    """Holds one open directory at a time: follows no links, and works at any depth."""
    time_slice = TimeSlice()
    with acting_as(user):
        current = os.open(root, DIRECTORY)
    # For each level: its identity, and the subdirectories that are still to be removed.
    levels: list[tuple[tuple[int, int], list[str]]] = []
    try:
        levels.append((_identity(current), await _remove_files(user, current, time_slice)))
        while True:
            identity, pending = levels[-1]
            if pending:
                with acting_as(user):
                    below = os.open(pending[-1], DIRECTORY, dir_fd=current)
                os.close(current)
                current = below
                levels.append((_identity(current), await _remove_files(user, current, time_slice)))
                continue
            levels.pop()
            if not levels:
                return
            with acting_as(user):
                above = os.open("..", DIRECTORY, dir_fd=current)
            os.close(current)
            current = above
            if _identity(current) != levels[-1][0]:
                raise OpError("conflict", f"{root}: was moved during its removal")
            with acting_as(user):
                os.rmdir(levels[-1][1].pop(), dir_fd=current)
    finally:
        os.close(current)


async def _remove_files(user: User, directory: int, time_slice: TimeSlice) -> list[str]:
    """Removes everything but directories, and returns their names."""
    subdirectories = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subdirectories.append(entry.name)
            else:
                with acting_as(user):
                    os.unlink(entry.name, dir_fd=directory)
            await time_slice.give_way()
    return subdirectories


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
