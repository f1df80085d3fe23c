"""The agent: its state and its start."""

import asyncio
import os
import signal
import socket
import sys

from dormouse_agent import (
    limits,
    ops_agent,
    ops_background,
    ops_contexts,
    ops_files,
    ops_ports,
    ops_processes,
    ops_runs,
    ops_variables,
)
from dormouse_agent.connection import Connection
from dormouse_agent.context import Context, ContextOptions
from dormouse_agent.finished_items import FinishedItems, JournalBudget
from dormouse_agent.log import close_log
from dormouse_agent.operations import OperationTable
from dormouse_agent.output_pipe import LingeringPipes
from dormouse_agent.process import StartedProcess
from dormouse_agent.process_relay import ProcessRelay
from dormouse_agent.programs import IS_RUNTIME
from dormouse_agent.reaper import Reaper
from dormouse_agent.run import Runs
from dormouse_agent.sudo import serve_sudo
from dormouse_agent.users import ROOT, User, default_user, get_user, require_directory
from dormouse_gather import CodeGatherer

DEFAULT_CONTEXT = "default"
DEFAULT_SOCKET = "/run/dormouse/agent.sock"
OPERATIONS = (
    *ops_agent.OPERATIONS,
    *ops_background.OPERATIONS,
    *ops_contexts.OPERATIONS,
    *ops_files.OPERATIONS,
    *ops_ports.OPERATIONS,
    *ops_processes.OPERATIONS,
    *ops_runs.OPERATIONS,
    *ops_variables.OPERATIONS,
)


class Agent:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.reaper = Reaper(loop)
        self.operations = OperationTable(OPERATIONS)
        self.connections: set[Connection] = set()
        self.lingering = LingeringPipes()
        self.default_user = default_user()
        self.sandbox_id = ""
        self.env: dict[str, str] = {}
        # Where processes start when a request names no directory; the home of their user by default.
        self.cwd: str | None = None
        budget = JournalBudget()
        self.runs = Runs(budget)
        self.processes: dict[str, StartedProcess] = {}
        self.finished_processes: FinishedItems[str, StartedProcess] = FinishedItems(
            budget, limits.FINISHED_PROCESSES
        )
        self.contexts: dict[str, Context] = {}
        self.gatherer = CodeGatherer()
        self.watches = 0
        # Relays whose terminals are hanging up.
        self.hanging_up: set[asyncio.Task[None]] = set()

    def user(self, name: str | None) -> User:
        return self.default_user if name is None else get_user(name)

    def start_directory(self, user: User) -> str:
        if self.cwd is not None:
            try:
                require_directory(user, self.cwd)
            except OSError:
                pass
            else:
                return self.cwd
        return user.start_directory()

    def add_context(self, name: str, user: User | None = None, options: ContextOptions | None = None) -> Context:
        context = Context(self, name, user or self.default_user, options or ContextOptions())
        self.contexts[name] = context
        context.kernel.ensure_started()
        return context

    def process_started(self, process: StartedProcess) -> None:
        self.processes[process.id] = process

    def process_ended(self, process: StartedProcess) -> None:
        del self.processes[process.id]
        process.linger(self.lingering)
        self.finished_processes.add(process.id, process)

    def hang_up(self, relay: ProcessRelay) -> None:
        task = self.loop.create_task(relay.hang_up())
        self.hanging_up.add(task)
        task.add_done_callback(self.hanging_up.discard)

    def hang_up_all(self) -> None:
        for process in (*self.finished_processes.all(), *self.processes.values()):
            if process.relay is not None and not process.relay.is_attached:
                self.hang_up(process.relay)


def main() -> int:
    socket_path = os.environ.pop("DORMOUSE_AGENT_SOCKET", DEFAULT_SOCKET)
    ready_fd = os.environ.pop("DORMOUSE_READY_FD", None)
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write("dormouse-agent")
    _reset_signals()
    os.umask(0o022)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    agent = Agent(loop)
    loop.run_until_complete(_listen(agent, socket_path))
    if agent.default_user != ROOT:
        serve_sudo(agent)
    if ready_fd is not None:
        close_log()
        os.write(int(ready_fd), b"1")
        os.close(int(ready_fd))
    # In an image it starts when it is first used: a step of a build needs none.
    if not IS_RUNTIME:
        agent.add_context(DEFAULT_CONTEXT)
    print(f"listening on {socket_path}", file=sys.stderr, flush=True)
    loop.run_forever()
    return 0


def _reset_signals() -> None:
    """Children inherit ignored and blocked signals: a run that inherits an ignored SIGINT could not be interrupted."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    # A handler, unlike SIG_IGN, is not inherited.
    signal.signal(signal.SIGINT, lambda number, frame: None)


async def _listen(agent: Agent, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # The umask gives the socket its mode at once: sandbox code must never be able to connect.
    previous = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(previous)
    await agent.loop.create_unix_server(lambda: Connection(agent), sock=listener, backlog=64)
