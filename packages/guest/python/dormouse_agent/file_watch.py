"""file.watch"""

import asyncio
import os
import stat
from typing import Any

from dormouse_agent import inotify
from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError, op_error_of
from dormouse_agent.file_write import is_replacement, replaces_nothing
from dormouse_agent.frames import encode_json
from dormouse_agent.inotify import RawEvent
from dormouse_agent.limits import WATCH_BATCH_EVENTS, WATCH_BATCH_S
from dormouse_agent.time_slice import TimeSlice
from dormouse_agent.users import User, acting_as
from dormouse_agent.watched_tree import WatchedTree

Change = dict[str, str]


async def watch_files(channel: Channel, user: User, path: str, recursive: bool) -> dict[str, Any]:
    """Returns when the path itself is gone. Unread events wait in the kernel, which reports when it drops some."""
    path = path.rstrip("/") or "/"
    with acting_as(user):
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        if not is_directory:
            path = os.path.realpath(path)
    # A file is watched through its directory: a watch of the file itself would end when the file is replaced.
    root, only = (path, None) if is_directory else (os.path.dirname(path), path)
    tree = WatchedTree(user, root, recursive and is_directory)
    try:
        await tree.add_below(root, TimeSlice())
        channel.item(encode_json({"type": "ready", "path": path}))
        changes = Changes(tree, root, only)
        while not changes.root_is_gone:
            await channel.wait_to_send()
            for change in await changes.of_batch(await next_batch(tree.kernel)):
                await channel.wait_to_send()
                channel.item(encode_json(change))
        return {}
    finally:
        tree.close()


async def next_batch(kernel: inotify.Inotify) -> list[RawEvent]:
    """Collects events for a short time: bursts become few changes, and both halves of a move come together."""
    await _readable(kernel.fd)
    await asyncio.sleep(WATCH_BATCH_S)
    events = _drain(kernel, [])
    if _half_moves(events):
        await asyncio.sleep(WATCH_BATCH_S)
        _drain(kernel, events)
    return events


def _drain(kernel: inotify.Inotify, events: list[RawEvent]) -> list[RawEvent]:
    while len(events) < WATCH_BATCH_EVENTS and (more := kernel.read()):
        events += more
    return events


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


class Changes:
    """Turns the kernel's events into changes for the host."""

    def __init__(self, tree: WatchedTree, root: str, only: str | None) -> None:
        self._tree = tree
        self._root = root
        self._only = only
        self._time_slice = TimeSlice()
        # Paths already reported as created or modified in this batch.
        self._reported: set[str] = set()
        # Found by listing new directories. The kernel may report them too, in this batch or the next.
        self._announced: set[str] = set()
        self._announced_before: set[str] = set()
        self._changes: list[Change] = []
        self.root_is_gone = False

    async def of_batch(self, events: list[RawEvent]) -> list[Change]:
        self._changes = []
        self._reported.clear()
        self._announced, self._announced_before = set(), self._announced
        await self._add(events)
        return self._changes

    async def _add(self, events: list[RawEvent]) -> None:
        half = _half_moves(events)
        sources: dict[int, tuple[str, bool]] = {}
        for event in events:
            if event.mask & inotify.Q_OVERFLOW:
                await self._overflow()
                continue
            directory = self._tree.path_of(event.watch)
            if directory is None:
                continue
            if event.mask & inotify.IGNORED:
                self._tree.forget(event.watch)
            if event.watch == self._tree.root_watch and event.mask & GONE:
                self.root_is_gone = True
                self._report("deleted", self._only or self._root)
                return
            if event.name:
                await self._add_entry(event, os.path.join(directory, event.name), sources, half)
            await self._time_slice.give_way()

    async def _add_entry(
        self, event: RawEvent, path: str, sources: dict[int, tuple[str, bool]], half: set[int]
    ) -> None:
        is_directory = bool(event.mask & inotify.ISDIR)
        if event.mask & inotify.MOVED_FROM and event.cookie not in half:
            sources[event.cookie] = (path, is_directory)
        elif event.mask & inotify.MOVED_TO and event.cookie in sources:
            self._moved(*sources.pop(event.cookie), path)
        elif event.mask & (inotify.CREATE | inotify.MOVED_TO):
            self._created(path)
            if is_directory:
                await self._list_new_directory(path)
        elif event.mask & (inotify.DELETE | inotify.MOVED_FROM):
            if is_directory:
                self._tree.drop_below(path)
            self._report("deleted", path)
        elif event.mask & (inotify.MODIFY | inotify.ATTRIB):
            self._report("modified", path)

    def _moved(self, source: str, is_directory: bool, target: str) -> None:
        if is_replacement(source):
            self._report("created" if replaces_nothing(source) else "modified", target)
            return
        if is_directory:
            self._tree.drop_below(target)
            self._tree.moved(source, target)
        self._report("moved", target, source)

    def _created(self, path: str) -> None:
        if path in self._announced or path in self._announced_before:
            self._announced.discard(path)
            self._announced_before.discard(path)
        else:
            self._report("created", path)

    async def _list_new_directory(self, directory: str) -> None:
        """Reports entries that a new directory got before it was watched: they have no events."""
        found: list[str] = []
        try:
            await self._tree.add_below(directory, self._time_slice, found)
        except (OpError, OSError):
            # The rest of the watch still works, so it continues.
            self._report("overflow", directory)
        for path in found:
            self._announced.add(path)
            self._report("created", path)

    async def _overflow(self) -> None:
        self._report("overflow", self._only or self._root)
        try:
            await self._tree.add_below(self._root, self._time_slice)
        except OSError as error:
            raise op_error_of(error) from error

    def _report(self, kind: str, path: str, source: str | None = None) -> None:
        if is_replacement(path) or (self._only is not None and self._only not in (path, source)):
            return
        if kind == "modified" and path in self._reported:
            return
        if kind in ("created", "modified"):
            self._reported.add(path)
        else:
            self._reported -= {path, source}
        self._changes.append({"type": kind, "path": path, **({} if source is None else {"from": source})})


GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED


def _half_moves(events: list[RawEvent]) -> set[int]:
    """Cookies of moves of which only one half is here: the other is outside the tree, or still to come."""
    half: set[int] = set()
    for event in events:
        if event.cookie:
            half ^= {event.cookie}
    return half
