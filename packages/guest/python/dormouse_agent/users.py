"""Users of the sandbox, and file system calls with their rights."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dormouse_agent.errors import OpError


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def resolve(self, path: str) -> str:
        return os.path.join(self.home, path)

    def start_directory(self) -> str:
        try:
            require_directory(self, self.home)
        except OSError:
            return "/"
        return self.home


# A sandbox has these ids and no others.
ID_MAX = 65535
# The default user unless the template or the host names another.
ROOT = User("root", 0, 0, (0,), "/root")


# A template names the user that code in its sandboxes runs as.
DEFAULT_USER_FILE = "/etc/dormouse/default-user"


def default_user() -> User:
    """The user that the template names. Root where it names none, or one that does not exist."""
    try:
        with open(DEFAULT_USER_FILE, encoding="utf-8") as file:
            return get_user(file.read(64).strip())
    except (OSError, ValueError, OpError):
        return ROOT


def get_user(name: str) -> User:
    """`name` may have a group, and both may be numbers, as in images: `node`, `1000`, `1000:1000`."""
    name, _, group = name.partition(":")
    user = _find_user(name)
    if user is None:
        raise OpError(
            "invalid_argument", f"there is no user {name!r} in this sandbox", {"field": "user"}
        ) from None
    if not group:
        return user
    gid = _find_group(group)
    if gid is None:
        raise OpError("invalid_argument", f"there is no group {group!r} in this sandbox", {"field": "user"})
    return User(user.name, user.uid, gid, (gid,), user.home)


def _find_user(name: str) -> User | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        if not name.isdecimal():
            # An image without /etc/passwd still has root.
            return ROOT if name == "root" else None
        return _user_of_uid(int(name))
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir or "/")


def _user_of_uid(uid: int) -> User | None:
    if uid > ID_MAX:
        return None
    try:
        return _find_user(pwd.getpwuid(uid).pw_name)
    except KeyError:
        # As docker does for a number that has no entry.
        return User(str(uid), uid, 0, (0,), "/") if uid else ROOT


def _find_group(name: str) -> int | None:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return int(name) if name.isdecimal() and int(name) <= ID_MAX else None


@contextmanager
def acting_as(user: User) -> Iterator[None]:
    """Changes the identity of the whole process, so the body must not await."""
    if user.uid == 0:
        yield
        return
    agent_groups = os.getgroups()
    os.setgroups(user.groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(agent_groups)


def require_directory(user: User, path: str) -> None:
    """The agent enters a working directory with its own rights, so this checks it with the user's rights first."""
    with acting_as(user):
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if not os.access(path, os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
