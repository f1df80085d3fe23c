"""Describes files for the host."""

import grp
import os
import pwd
import stat
from functools import lru_cache
from typing import Any


ATTRIBUTE_PREFIX = "user."
# More than programs set on one file; the kernel bounds their size.
ATTRIBUTES_MAX = 64


def file_type(mode: int) -> str:
    for kind, test in (
        ("file", stat.S_ISREG),
        ("directory", stat.S_ISDIR),
        ("symlink", stat.S_ISLNK),
        ("fifo", stat.S_ISFIFO),
        ("socket", stat.S_ISSOCK),
    ):
        if test(mode):
            return kind
    return "device"


class Describer:
    """Describes the files of one request. Looks up each user and group name once."""

    def __init__(self) -> None:
        self._user = lru_cache(maxsize=64)(_user_name)
        self._group = lru_cache(maxsize=64)(_group_name)

    def describe(self, path: str, status: os.stat_result, target: str | None = None) -> dict[str, Any]:
        described: dict[str, Any] = {
            "path": path,
            "name": os.path.basename(path.rstrip("/")) or "/",
            "type": file_type(status.st_mode),
            "sizeBytes": status.st_size,
            "mode": stat.S_IMODE(status.st_mode),
            "uid": status.st_uid,
            "gid": status.st_gid,
            "user": self._user(status.st_uid),
            "group": self._group(status.st_gid),
            "modifiedAt": status.st_mtime_ns // 1_000_000,
        }
        if target is not None:
            described["target"] = target
        return described

    def describe_path(self, path: str, follow: bool) -> dict[str, Any]:
        """Pre: the agent acts as the user who asks."""
        status = os.stat(path, follow_symlinks=follow)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
        described = self.describe(path, status, target)
        if target is None and (attributes := _attributes(path)):
            described["attributes"] = attributes
        return described


def _attributes(path: str) -> dict[str, str]:
    """The extended attributes that users may set, without their prefix. Those that are no text are left out."""
    attributes = {}
    try:
        names = [name for name in os.listxattr(path) if name.startswith(ATTRIBUTE_PREFIX)]
        for name in names[:ATTRIBUTES_MAX]:
            attributes[name.removeprefix(ATTRIBUTE_PREFIX)] = os.getxattr(path, name).decode()
    except (OSError, UnicodeDecodeError):
        # Some file systems have none, and files change meanwhile.
        pass
    return attributes


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
