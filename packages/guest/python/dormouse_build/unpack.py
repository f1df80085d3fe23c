"""Writes files of an archive to where a COPY wants them."""

import os
import shutil
import stat
import tarfile
from dataclasses import dataclass
from typing import BinaryIO

from dormouse_agent.errors import OpError
from dormouse_agent.users import get_user


@dataclass(frozen=True)
class Destination:
    to: str
    cwd: str
    # Paths in the archive, each with whether it is a directory, and what a file is called where it is copied to. None:
    # the archive comes from `pack`.
    roots: list[tuple[str, bool, str]] | None = None
    chown: str | None = None
    chmod: str | None = None
    # Unpacks archives among the sources, as ADD does.
    unpacks: bool = False
    # Whether files keep the owners that they have in the archive. Otherwise they belong to root.
    keepsOwners: bool = False


def unpack(destination: Destination, archive: BinaryIO) -> None:
    with tarfile.open(fileobj=archive, mode="r|*") as members:
        _Writer(destination).write_all(members)


class _Writer:
    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._to = os.path.normpath(os.path.join(destination.cwd, destination.to))
        self._is_directory = destination.to.endswith(("/", "/.")) or destination.to in (".", "..")
        if destination.roots is not None:
            self._is_directory |= len(destination.roots) > 1
        self._owner = _owner(destination.chown)
        self._mode = None if destination.chmod is None else int(destination.chmod, 8)
        self._written: dict[str, str] = {}

    def write_all(self, members: tarfile.TarFile) -> None:
        for member in members:
            target = self._target(member)
            if target is None:
                continue
            self._written[member.name] = target
            self._make_directories(os.path.dirname(target))
            self._write(members, member, target)

    def _target(self, member: tarfile.TarInfo) -> str | None:
        located = self._locate(member)
        if located is None:
            return None
        is_directory, below = located
        if is_directory:
            return os.path.normpath(os.path.join(self._to, below))
        return os.path.join(self._to, below) if self._is_directory or os.path.isdir(self._to) else self._to

    def _locate(self, member: tarfile.TarInfo) -> tuple[bool, str] | None:
        """Whether the member belongs to a source that is a directory, and its path below that source."""
        name = os.path.normpath(member.name.lstrip("/"))
        if name.startswith(".."):
            return None
        roots = self._destination.roots
        if roots is None:
            kind, _number, *below = name.split("/", 2)
            return kind == "d", below[0] if below else ""
        for root, is_directory, called in roots:
            if not is_directory and name == root:
                return False, called
            if is_directory and (root == "." or name == root or name.startswith(f"{root}/")):
                return True, name if root == "." else os.path.relpath(name, root)
        return None

    def _write(self, members: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
        if member.isdir():
            _replace(target, stat.S_ISDIR)
            self._make_directories(target)
            self._finish(member, target)
        elif member.issym():
            _replace(target)
            os.symlink(member.linkname, target)
            os.lchown(target, *self._owner_of(member))
        elif member.islnk():
            _replace(target)
            first = self._written.get(member.linkname)
            if first is None:
                raise ValueError(f"{member.name} is a link to {member.linkname}, which is not copied")
            os.link(first, target)
        elif member.isfile():
            self._write_file(members, member, target)

    def _write_file(self, members: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
        _replace(target)
        source = members.extractfile(member)
        assert source is not None
        with open(target, "xb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if self._destination.unpacks and tarfile.is_tarfile(target):
            self._unpack_archive(target)
            return
        self._finish(member, target)
        os.utime(target, (member.mtime, member.mtime))

    def _unpack_archive(self, path: str) -> None:
        into = os.path.dirname(path) if self._is_directory or path != self._to else self._to
        moved = f"{path}.dormouse-archive"
        os.rename(path, moved)
        try:
            self._make_directories(into)
            with tarfile.open(moved) as archive:
                archive.extractall(into, filter=self._own, numeric_owner=True)
        finally:
            os.unlink(moved)

    def _own(self, member: tarfile.TarInfo, into: str) -> tarfile.TarInfo:
        """Keeps members inside, and gives them to the owner that the step names."""
        member = tarfile.tar_filter(member, into)
        if self._owner is None:
            return member
        return member.replace(uid=self._owner[0], gid=self._owner[1], deep=False)

    def _make_directories(self, path: str) -> None:
        """Directories that the archive does not have get the owner of its files, as docker does it."""
        if os.path.isdir(path):
            return
        self._make_directories(os.path.dirname(path))
        os.mkdir(path)
        if self._owner is not None:
            os.chown(path, *self._owner)

    def _finish(self, member: tarfile.TarInfo, target: str) -> None:
        os.chown(target, *self._owner_of(member))
        # After chown, which clears setuid bits.
        os.chmod(target, member.mode if self._mode is None else self._mode)

    def _owner_of(self, member: tarfile.TarInfo) -> tuple[int, int]:
        if self._owner is not None:
            return self._owner
        return (member.uid, member.gid) if self._destination.keepsOwners else (0, 0)


def _replace(path: str, keeps: object = None) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        if keeps is None:
            raise IsADirectoryError(f"{path} is a directory")
    else:
        # A directory may be copied onto a link to a directory.
        if keeps is None or not os.path.isdir(path):
            os.unlink(path)


def _owner(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        user = get_user(text)
    except OpError as error:
        raise ValueError(str(error)) from error
    # As docker does: a number alone is also the group.
    return (user.uid, user.uid) if text.isdecimal() else (user.uid, user.gid)
