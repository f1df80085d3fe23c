"""file.move"""

import errno
import os
import stat
from typing import Any

from dormouse_agent.errors import OpError
from dormouse_agent.file_read import open_regular
from dormouse_agent.file_stat import Describer
from dormouse_agent.file_write import Replacement
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as

COPY_BYTES = 1 << 20


async def move(user: User, source: str, target: str, overwrite: bool) -> dict[str, Any]:
    with acting_as(user):
        status = os.lstat(source)
        try:
            if overwrite:
                os.rename(source, target)
            else:
                _rename_to_free_name(source, target, status)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            return Describer().describe_path(target, follow=False)
    if not stat.S_ISREG(status.st_mode):
        message = f"{source}: only regular files can be moved to another mount"
        raise OpError("invalid_argument", message, {"field": "to"})
    await _copy_and_replace(user, source, target, status)
    with acting_as(user):
        os.unlink(source)
        return Describer().describe_path(target, follow=False)


def _rename_to_free_name(source: str, target: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)
        return
    # Unlike rename, link fails when the name is taken, without a race.
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
    except PermissionError:
        # Linking to files of other users can be forbidden (fs.protected_hardlinks) where renaming is allowed.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(source, target)
        return
    os.unlink(source)


async def _copy_and_replace(user: User, source: str, target: str, status: os.stat_result) -> None:
    time_slice = TimeSlice()
    fd, _ = open_regular(source, user, os.O_RDONLY)
    try:
        replacement = Replacement(target, user, stat.S_IMODE(status.st_mode) & 0o777)
        try:
            while data := os.read(fd, COPY_BYTES):
                view = memoryview(data)
                while view:
                    view = view[os.write(replacement.fd, view) :]
                await time_slice.give_way()
            os.utime(replacement.fd, ns=(status.st_atime_ns, status.st_mtime_ns))
            replacement.commit()
        finally:
            replacement.discard()
    finally:
        os.close(fd)
