"""Background processes: programs inside that still work although no run or request waits for them."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.frames import encode_json

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# Exited, or stopped by a signal.
NOT_WORKING = frozenset("ZXTt")
# A shell on a terminal waits for its user. Its jobs are processes of their own.
SHELLS = frozenset(("ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"))
# Programs that others start and leave behind. They only answer requests.
HELPERS = frozenset(("dbus-daemon", "dirmngr", "gpg-agent", "keyboxd", "scdaemon", "ssh-agent"))
PYTHON_HELPERS = (b"multiprocessing.forkserver", b"multiprocessing.resource_tracker", b".resource_tracker import main")
# Processes inherit this variable, also when their parent has ended.
OPTED_OUT = b"DORMOUSE_KEEP_AWAKE=0"


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    state: str
    parent: int
    session: int
    terminal: int


async def watch_background(agent: "Agent", channel: Channel) -> dict[str, Any]:
    """Sends the background processes, again whenever one of them has ended, until none is left."""
    sent: list[dict[str, Any]] = []
    while found := background_processes(agent):
        is_new = found != sent
        if is_new:
            await channel.wait_to_send()
            channel.item(encode_json({"processes": found}))
            sent = found
        # A child of a shell may not have started its program yet. The program may be one that does not count.
        await _one_ends([one["pid"] for one in found], within_s=limits.BACKGROUND_SETTLES_S if is_new else None)
    return {}


def background_processes(agent: "Agent") -> list[dict[str, Any]]:
    """The topmost process of each tree that counts as work, oldest first."""
    table = {one.pid: one for one in _processes()}
    own = {os.getpid(), *(context.kernel.pid for context in agent.contexts.values())}
    working = {pid for pid, one in table.items() if pid not in own and _is_work(one)}
    topmost = [pid for pid in sorted(working) if table[pid].parent not in working and _is_ours(table, pid)]
    return [{"pid": pid, "command": _command(agent, table[pid])} for pid in topmost[: limits.BACKGROUND_PROCESSES]]


def _is_work(process: Process) -> bool:
    if process.state in NOT_WORKING or process.name in HELPERS:
        return False
    is_terminal_leader = process.terminal != 0 and process.session == process.pid
    if is_terminal_leader and process.name.lstrip("-") in SHELLS:
        return False
    # Workers that a fork server forked have its command line, and are work.
    if _is_python_helper(process.pid) and not _is_python_helper(process.parent):
        return False
    return OPTED_OUT not in _read(process.pid, "environ").split(b"\0")


def _is_python_helper(pid: int) -> bool:
    command = _read(pid, "cmdline")
    return any(name in command for name in PYTHON_HELPERS)


def _is_ours(table: dict[int, Process], pid: int) -> bool:
    """Whether it descends from the agent. The agent adopts orphans, so only PID 1 and its other children do not."""
    agent = os.getpid()
    while (process := table.get(pid)) is not None and pid > 1:
        if process.parent == agent:
            return True
        pid = process.parent
    return False


def _command(agent: "Agent", process: Process) -> str:
    started = next((one for one in agent.processes.values() if one.pid == process.pid), None)
    line = _read(process.pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return (started.command if started is not None else line or process.name)[: limits.BACKGROUND_COMMAND_CHARS]


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        # The name of a program may contain spaces and parentheses.
        before, found, after = _read(int(name), "stat").rpartition(b")")
        if not found:
            continue
        state, parent, _group, session, terminal = after.split(maxsplit=5)[:5]
        program = before.partition(b"(")[2].decode(errors="replace")
        yield Process(int(name), program, state.decode(), int(parent), int(session), int(terminal))


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read(limits.PROC_FILE_BYTES) or b""
    except OSError:
        # It has ended.
        return b""


async def _one_ends(pids: list[int], within_s: float | None) -> None:
    """Returns when one of the processes has ended, or after `within_s`.

    The descriptors are closed before a snapshot: see `quiesce`.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    descriptors: list[int] = []
    try:
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return
            descriptors.append(descriptor)
            loop.add_reader(descriptor, lambda: None if ended.done() else ended.set_result(None))
        await asyncio.wait([ended], timeout=within_s)
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
            os.close(descriptor)
