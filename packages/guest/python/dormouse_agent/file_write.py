"""file.write: writes a new file and renames it over the target, or appends to the target."""

import os
import re
import stat
from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError, op_error_of
from dormouse_agent.file_read import open_regular
from dormouse_agent.file_stat import Describer
from dormouse_agent.users import User, acting_as

NEW_FILE_MODE = 0o644
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Replacement:
    """A new file beside `path` that replaces it in one step, or is removed."""

    def __init__(self, path: str, user: User, mode: int | None) -> None:
        self._user = user
        with acting_as(user):
            # A symlink stays; its target is replaced.
            self.path = os.path.realpath(path)
            existing = _writable_target(self.path)
            self._directory = os.open(
                os.path.dirname(self.path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            )
            self._name: str | None = _replacement_name(existing is None)
            try:
                self.fd = os.open(self._name, CREATE, 0o600, dir_fd=self._directory)
            except OSError as error:
                os.close(self._directory)
                raise op_error_of(error, f"{self.path}: cannot make a new file beside it") from error
        try:
            self._adopt(existing, mode)
        except BaseException:
            self.discard()
            raise

    def _adopt(self, existing: os.stat_result | None, mode: int | None) -> None:
        if existing is not None:
            if (existing.st_uid, existing.st_gid) != (self._user.uid, self._user.gid):
                os.fchown(self.fd, existing.st_uid, existing.st_gid)
            # As with any write, a set-uid bit is lost unless root writes.
            kept = 0o7777 if self._user.uid == 0 else 0o777
            os.fchmod(self.fd, stat.S_IMODE(existing.st_mode) & kept if mode is None else mode)
        else:
            os.fchmod(self.fd, NEW_FILE_MODE if mode is None else mode)

    def commit(self) -> None:
        assert self._name is not None
        with acting_as(self._user):
            name = os.path.basename(self.path)
            try:
                os.rename(self._name, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except OSError as error:
                raise op_error_of(error, self.path) from error
        self._name = None

    def discard(self) -> None:
        """Closes everything and removes an uncommitted file."""
        if self._name is not None:
            # With the agent's rights: the file may belong to the target's owner by now, not to the user.
            try:
                os.unlink(self._name, dir_fd=self._directory)
            except FileNotFoundError:
                pass
        os.close(self.fd)
        os.close(self._directory)


# Watches do not report these files. The name says whether there was a file to replace.
REPLACEMENT = re.compile(r"\.dormouse-(new-)?[0-9a-f]{16}\.tmp")


def _replacement_name(is_new: bool) -> str:
    # The module `secrets` would load OpenSSL into the agent, and every wake would restore it.
    return f".dormouse-{'new-' if is_new else ''}{os.urandom(8).hex()}.tmp"


def is_replacement(path: str) -> bool:
    return REPLACEMENT.fullmatch(os.path.basename(path)) is not None


def replaces_nothing(path: str) -> bool:
    return os.path.basename(path).startswith(".dormouse-new-")


def _writable_target(path: str) -> os.stat_result | None:
    if path.endswith("/"):
        raise OpError("not_a_file", f"{path}: is a directory")
    try:
        # stat, not lstat: a loop of links must be refused, not replaced.
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise OpError("not_a_file", f"{path}: not a regular file")
    if not os.access(path, os.W_OK, effective_ids=True):
        raise OpError("permission_denied", f"{path}: Permission denied")
    return status


def make_parents(path: str, user: User) -> None:
    parent = os.path.dirname(path.rstrip("/"))
    if parent:
        with acting_as(user):
            os.makedirs(parent, exist_ok=True)


async def replace_file(channel: Channel, user: User, path: str, mode: int | None) -> dict[str, Any]:
    replacement = Replacement(path, user, mode)
    try:
        await _receive(channel, replacement.fd)
        replacement.commit()
        return Describer().describe(path, os.fstat(replacement.fd))
    finally:
        replacement.discard()


async def append_file(channel: Channel, user: User, path: str, mode: int | None) -> dict[str, Any]:
    new_mode = NEW_FILE_MODE if mode is None else mode
    fd, before = open_regular(path, user, os.O_WRONLY | os.O_APPEND | os.O_CREAT, new_mode)
    done = False
    written = 0
    try:
        while (data := await channel.next_data()) is not None:
            _write_all(fd, data)
            written += len(data)
            channel.consumed(len(data))
        if mode is not None:
            with acting_as(user):
                os.fchmod(fd, mode)
        done = True
        return Describer().describe(path, os.fstat(fd))
    finally:
        # Undone only if no other process has appended since.
        if not done and os.fstat(fd).st_size == before.st_size + written:
            os.ftruncate(fd, before.st_size)
        os.close(fd)


async def _receive(channel: Channel, fd: int) -> None:
    while (data := await channel.next_data()) is not None:
        _write_all(fd, data)
        channel.consumed(len(data))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
