"""agent.*"""

import os
import socket
from typing import TYPE_CHECKING, Any

from dormouse_agent.channel import Channel
from dormouse_agent.fields import HOSTNAME, ID, USER, Environment, Text
from dormouse_agent.op_table import op

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent


@op(
    "agent.configure",
    {
        "sandboxId": Text(ID),
        "hostname": Text(HOSTNAME, default=None),
        "user": Text(USER, default=None),
        "env": Environment(default=None),
    },
)
def configure(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    env = args["env"] or {}
    if args["hostname"] is not None:
        _set_hostname(args["hostname"])
    agent.sandbox_id = args["sandboxId"]
    agent.default_user = user
    agent.env.update(env)
    default = agent.contexts.get("default")
    for context in agent.contexts.values():
        if context is default and not context.used and context.user != user:
            context.change_user(user)
        else:
            context.update_env([*env, "DORMOUSE_SANDBOX_ID"])
    return {}


@op("agent.info", {})
def info(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return {
        "contexts": len(agent.contexts),
        "processes": len(agent.processes),
        "runs": len(agent.runs.live),
        "rssBytes": pages * os.sysconf("SC_PAGESIZE"),
    }


def _set_hostname(name: str) -> None:
    try:
        socket.sethostname(name)
    except PermissionError:
        # Without CAP_SYS_ADMIN only the burrow's builder can set it, and it has the same name to set.
        pass
