"""process.*"""

import re
import shlex
import signal
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import USER, Arguments, Choice, Environment, Flag, PathText, Record, Text, Whole
from dormouse_agent.follower import follow
from dormouse_agent.operations import operation
from dormouse_agent.ops_runs import AFTER
from dormouse_agent.process import StartedProcess
from dormouse_agent.process_relay import ProcessRelay
from dormouse_agent.spawn import Spawn, base_environment

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# The id of a process, or the pid of one that runs.
PROCESS = re.compile(r"pr-[2-9a-z]{16}|[1-9][0-9]{0,9}")
SIZE = {"cols": Whole(1, 65535), "rows": Whole(1, 65535)}
SIGNALS = tuple(known.name for known in signal.Signals)
# The program to start, and its surroundings.
PROGRAM = {
    "args": Arguments(default=None),
    "shell": Text(max_bytes=limits.ARGUMENT_BYTES - 1, default=None),
    "cwd": PathText(default=None),
    "env": Environment(default=None),
    "user": Text(USER, default=None),
    "pty": Record(SIZE, default=None),
}


@operation(
    "process.start",
    {
        **PROGRAM,
        "stdin": Flag(default=False),
        "timeoutMs": Whole(1, limits.TIMEOUT_MAX_MS, default=None),
        "follow": Flag(default=True),
    },
)
def start(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any] | None:
    program = _spawn_of(agent, args)
    process = StartedProcess(agent.loop, args["shell"] or shlex.join(program.args), agent.process_ended)
    process.start(agent.reaper, program, args["stdin"], args["pty"])
    agent.process_started(process)
    if args["timeoutMs"] is not None:
        process.limit_time(args["timeoutMs"])
    if not args["follow"]:
        return {"processId": process.id, "pid": process.pid}
    follow(process.journal, channel)
    return None


@operation("process.connect", PROGRAM, takes_data=True)
async def connect(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    program = _spawn_of(agent, args)
    process = StartedProcess(agent.loop, args["shell"] or shlex.join(program.args), agent.process_ended)
    process.start_connected(agent.reaper, program, args["pty"])
    agent.process_started(process)
    process.relay = ProcessRelay(agent.loop, process, agent.hang_up)
    return await process.relay.serve(channel, 0)


@operation(
    "process.reconnect",
    {"process": Text(PROCESS), "receivedBytes": Whole(0, limits.POSITION_MAX)},
    takes_data=True,
)
async def reconnect(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    relay = _get_process(agent, args["process"]).relay
    if relay is None:
        raise OpError("conflict", f"process {args['process']} was not started by process.connect")
    return await relay.serve(channel, args["receivedBytes"])


def _spawn_of(agent: "Agent", args: dict[str, Any]) -> Spawn:
    if (args["args"] is None) == (args["shell"] is None):
        raise invalid("args", "give either args or shell")
    if len(agent.processes) >= limits.LIVE_PROCESSES:
        raise OpError("limit_reached", f"{limits.LIVE_PROCESSES} started processes are alive already")
    user = agent.user(args["user"])
    return Spawn(
        args["args"] or ["/bin/bash", "-c", args["shell"]],
        user,
        base_environment(user, agent.sandbox_id, agent.env, args["env"] or {}),
        agent.start_directory(user) if args["cwd"] is None else user.resolve(args["cwd"]),
    )


@operation("process.events", {"process": Text(PROCESS), "after": AFTER, "follow": Flag(default=True)})
def events(agent: "Agent", channel: Channel, args: dict[str, Any]) -> None:
    follow(_get_process(agent, args["process"]).journal, channel, args["after"], args["follow"])


@operation("process.list", {})
def list_processes(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    known = [*agent.finished_processes.all(), *agent.processes.values()]
    # Oldest first, so that none changes its place when it ends.
    known.sort(key=lambda process: (process.started_at_ms, process.pid))
    return {"processes": [process.info() for process in known]}


@operation("process.signal", {"process": Text(PROCESS), "signal": Choice(SIGNALS)})
def send_signal(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    _get_process(agent, args["process"]).signal(signal.Signals[args["signal"]])
    return {}


@operation("process.resize", {"process": Text(PROCESS), **SIZE})
def resize(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    _get_process(agent, args["process"]).resize(args["cols"], args["rows"])
    return {}


@operation("process.stdin", {"process": Text(PROCESS), "close": Flag(default=True)}, takes_data=True)
async def write_stdin(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    target = _get_process(agent, args["process"]).get_input()
    total = 0
    while (data := await channel.next_data()) is not None:
        await target.write(data)
        total += len(data)
        channel.consumed(len(data))
    if args["close"]:
        await target.end()
    return {"bytes": total}


def _get_process(agent: "Agent", name: str) -> StartedProcess:
    process = agent.processes.get(name) or agent.finished_processes.find(name)
    if process is None and name.isdecimal():
        # The pid of an ended process may belong to another one by now.
        process = next((each for each in agent.processes.values() if each.pid == int(name)), None)
    if process is None:
        raise OpError("not_found", f"process {name} was not started through this protocol")
    return process


OPERATIONS = (
    start,
    connect,
    reconnect,
    events,
    list_processes,
    send_signal,
    resize,
    write_stdin,
)
