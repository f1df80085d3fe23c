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
from dormouse_agent.slices import Slices
from dormouse_agent.users import User, acting_as
from dormouse_agent.watched_tree import WatchedTree

Change = dict[str, str]


async def watch_files(channel: Channel, user: User, path: str, recursive: bool) -> dict[str, Any]:
    """Ends when the path itself is gone. What is not read waits in the kernel, which drops and says so when it is too much."""
    path = path.rstrip("/") or "/"
    with acting_as(user):
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        if not is_directory:
            path = os.path.realpath(path)
    # A file is watched through its directory: whoever replaces it would take a watch of the file itself along.
    root, only = (path, None) if is_directory else (os.path.dirname(path), path)
    tree = WatchedTree(user, root, recursive and is_directory)
    try:
        await tree.add_below(root, Slices())
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
    """Events of a short time together: bursts become few changes, and both ends of a move are in one hand."""
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
    """Turns the kernel's events into what the host is told."""

    def __init__(self, tree: WatchedTree, root: str, only: str | None) -> None:
        self._tree = tree
        self._root = root
        self._only = only
        self._slices = Slices()
        # Already told in this batch that there is something new in them.
        self._fresh: set[str] = set()
        # Found by looking into new directories; the kernel may tell of them too, in this batch or the next.
        self._announced: set[str] = set()
        self._announced_before: set[str] = set()
        self._told: list[Change] = []
        self.root_is_gone = False

    async def of_batch(self, events: list[RawEvent]) -> list[Change]:
        self._told = []
        self._fresh.clear()
        self._announced, self._announced_before = set(), self._announced
        await self._add(events)
        return self._told

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
                self._tell("deleted", self._only or self._root)
                return
            if event.name:
                await self._add_entry(event, os.path.join(directory, event.name), sources, half)
            await self._slices.rest()

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
                await self._look_into(path)
        elif event.mask & (inotify.DELETE | inotify.MOVED_FROM):
            if is_directory:
                self._tree.drop_below(path)
            self._tell("deleted", path)
        elif event.mask & (inotify.MODIFY | inotify.ATTRIB):
            self._tell("modified", path)

    def _moved(self, source: str, is_directory: bool, target: str) -> None:
        if is_replacement(source):
            self._tell("created" if replaces_nothing(source) else "modified", target)
            return
        if is_directory:
            self._tree.drop_below(target)
            self._tree.moved(source, target)
        self._tell("moved", target, source)

    def _created(self, path: str) -> None:
        if path in self._announced or path in self._announced_before:
            self._announced.discard(path)
            self._announced_before.discard(path)
        else:
            self._tell("created", path)

    async def _look_into(self, directory: str) -> None:
        """What was put into a new directory before it was watched has no event of its own."""
        found: list[str] = []
        try:
            await self._tree.add_below(directory, self._slices, found)
        except (OpError, OSError):
            # Not worth ending the watch for: the rest of it works on.
            self._tell("overflow", directory)
        for path in found:
            self._announced.add(path)
            self._tell("created", path)

    async def _overflow(self) -> None:
        self._tell("overflow", self._only or self._root)
        try:
            await self._tree.add_below(self._root, self._slices)
        except OSError as error:
            raise op_error_of(error) from error

    def _tell(self, kind: str, path: str, source: str | None = None) -> None:
        if is_replacement(path) or (self._only is not None and self._only not in (path, source)):
            return
        if kind == "modified" and path in self._fresh:
            return
        if kind in ("created", "modified"):
            self._fresh.add(path)
        else:
            self._fresh -= {path, source}
        self._told.append({"type": kind, "path": path, **({} if source is None else {"from": source})})


GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED


def _half_moves(events: list[RawEvent]) -> set[int]:
    """Moves of which only one end is in sight: the other is elsewhere, or still to come."""
    half: set[int] = set()
    for event in events:
        if event.cookie:
            half ^= {event.cookie}
    return half
