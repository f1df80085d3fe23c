"""Maps inotify watches to directories, while directories appear, disappear and move."""

import os
from collections.abc import Iterator

from dormouse_agent import inotify
from dormouse_agent.errors import OpError
from dormouse_agent.limits import WATCHED_DIRECTORIES
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as

MASK = (
    inotify.CREATE | inotify.DELETE | inotify.MODIFY | inotify.ATTRIB
    | inotify.MOVED_FROM | inotify.MOVED_TO | inotify.ONLYDIR
)  # fmt: skip
ROOT_MASK = MASK | inotify.DELETE_SELF | inotify.MOVE_SELF
# These are not files that programs change, and they are too many to watch.
NOT_WATCHED = frozenset({"/proc", "/sys", "/dev", "/.dormouse"})


class WatchedTree:
    def __init__(self, user: User, root: str, recursive: bool) -> None:
        self._user = user
        self._root = root
        self._recursive = recursive
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        with acting_as(user):
            self.kernel = inotify.Inotify()
        try:
            with acting_as(user):
                self.root_watch = self.kernel.add(root, ROOT_MASK)
        except BaseException:
            self.kernel.close()
            raise
        self._set(self.root_watch, root)

    def path_of(self, watch: int) -> str | None:
        return self._paths.get(watch)

    def forget(self, watch: int) -> None:
        path = self._paths.pop(watch, None)
        if path is not None and self._watches.get(path) == watch:
            del self._watches[path]

    def close(self) -> None:
        self.kernel.close()

    async def add_below(self, top: str, time_slice: TimeSlice, found: list[str] | None = None) -> None:
        """Watches `top` and the directories below it. Appends their entries to `found`. Raises `limit_reached`."""
        if not self._recursive:
            return
        pending = [top]
        while pending:
            directory = pending.pop()
            if directory != self._root and not self._add(directory):
                continue
            for name, is_directory in self._entries(directory):
                path = os.path.join(directory, name)
                if found is not None:
                    found.append(path)
                if is_directory and path not in NOT_WATCHED:
                    pending.append(path)
                await time_slice.give_way()

    def moved(self, source: str, target: str) -> None:
        """Renames watched paths: the kernel's watches stay with a directory that moves."""
        for path in self._below(source):
            watch = self._watches.pop(path)
            self._set(watch, target + path[len(source) :])

    def drop_below(self, top: str) -> None:
        for path in self._below(top):
            watch = self._watches.pop(path)
            del self._paths[watch]
            self.kernel.remove(watch)

    def _below(self, top: str) -> list[str]:
        return [path for path in self._watches if path == top or path.startswith(f"{top}/")]

    def _add(self, directory: str) -> bool:
        if directory in self._watches:
            # Its entries are listed again: events of some may have been lost.
            return True
        if len(self._paths) >= WATCHED_DIRECTORIES:
            message = f"{self._root}: more than {WATCHED_DIRECTORIES} directories to watch"
            raise OpError("limit_reached", message)
        try:
            with acting_as(self._user):
                watch = self.kernel.add(directory, MASK | inotify.DONT_FOLLOW)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            # The directory is gone, replaced, or not readable for this user.
            return False
        self._set(watch, directory)
        return True

    def _entries(self, directory: str) -> Iterator[tuple[str, bool]]:
        try:
            with acting_as(self._user):
                fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    yield entry.name, entry.is_dir(follow_symlinks=False)
        except OSError:
            return
        finally:
            os.close(fd)

    def _set(self, watch: int, path: str) -> None:
        # A known directory under a new name has moved without an event.
        self.forget(watch)
        self._paths[watch] = path
        self._watches[path] = watch
