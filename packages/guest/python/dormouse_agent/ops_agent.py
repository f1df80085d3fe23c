"""agent.*"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.context import Context
from dormouse_agent.fields import ID, USER, Choice, Environment, Flag, Text
from dormouse_agent.operations import operation
from dormouse_agent.programs import kernel_python
from dormouse_agent.quiesce import quiesce
from dormouse_agent.users import User

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent


@operation(
    "agent.configure",
    {
        "sandboxId": Text(ID),
        "user": Text(USER, default=None),
        "env": Environment(default=None),
        "cwd": Text(default=None),
    },
)
def configure(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    moved = args["cwd"] not in (None, agent.cwd)
    if moved:
        agent.cwd = args["cwd"]
    names = _take_identity(agent, args["sandboxId"], user, args["env"] or {}, moved)
    for context in agent.contexts.values():
        context.update_env(names)
    return {}


@operation(
    "agent.wake",
    {
        "sandboxId": Text(ID),
        "reason": Choice(("create", "resume", "fork", "rollback")),
        "reseed": Flag(default=True),
        "user": Text(USER, default=None),
        "env": Environment(default=None),
    },
)
def wake(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    # A rollback, and a copy: no host comes back to the processes that were connected.
    if args["reason"] == "rollback" or args["sandboxId"] != agent.sandbox_id:
        agent.hang_up_all()
    names = _take_identity(agent, args["sandboxId"], user, args["env"] or {})
    for context in agent.contexts.values():
        context.wake(names, args["reason"], args["reseed"])
    if args["reseed"] and args["reason"] != "resume":
        for process in agent.processes.values():
            process.tell_copied()
    return {}


@operation("agent.settle", {})
async def settle(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    """Ends when the kernels have done what a wake asks of them, so that it does not have to be done after a thaw.

    Then a run is rehearsed: the first run after a restore copies each page that it writes to, and these copies are
    made here instead of after the thaw.
    """
    contexts = list(agent.contexts.values())
    for ask in (Context.unsettled, Context.rehearse):
        waiting = [answer for context in contexts for answer in ask(context)]
        if waiting:
            await asyncio.wait(waiting, timeout=limits.SETTLE_S)
    return {}


@operation("agent.quiesce", {})
async def quiesce_agent(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    await quiesce(agent, channel)
    return {}


@operation("agent.info", {})
def info(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return {
        "contexts": len(agent.contexts),
        "processes": len(agent.processes),
        "runs": len(agent.runs.live),
        "rssBytes": pages * os.sysconf("SC_PAGESIZE"),
    }


def _take_identity(
    agent: "Agent", sandbox_id: str, user: User, env: dict[str, str], moved: bool = False
) -> list[str]:
    """Returns the names of the variables that running kernels must update."""
    agent.sandbox_id = sandbox_id
    agent.default_user = user
    python = kernel_python(agent.env)
    agent.env.update(env)
    default = agent.contexts.get("default")
    if default is not None and not default.used:
        if moved or default.user != user or kernel_python(agent.env) != python:
            default.change_user(user)
    return [*env, "DORMOUSE_SANDBOX_ID"]


OPERATIONS = (
    configure,
    wake,
    settle,
    quiesce_agent,
    info,
)
