"""context.*"""

import gc
import os
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.context import Context, ContextOptions
from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import ID, USER, Choice, Environment, Flag, Modules, PathText, Text
from dormouse_agent.follower import follow
from dormouse_agent.languages.python import interpreter_in
from dormouse_agent.languages.registry import NAMES, PYTHON, get_language, require_program
from dormouse_agent.operations import operation
from dormouse_agent.ops_runs import AFTER
from dormouse_agent.spawn import base_environment
from dormouse_agent.users import User, acting_as, require_directory
from dormouse_immortal import make_immortal

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent


@operation(
    "context.create",
    {
        "context": Text(ID),
        "user": Text(USER, default=None),
        "cwd": PathText(default=None),
        "env": Environment(default=None),
        "language": Choice(NAMES, default="python"),
        "python": PathText(default=None),
    },
)
def create(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    name = args["context"]
    if name in agent.contexts:
        raise OpError("already_exists", f"context {name!r} exists")
    if len(agent.contexts) >= limits.CONTEXTS:
        raise OpError("limit_reached", f"a sandbox has at most {limits.CONTEXTS} contexts")
    user = agent.user(args["user"])
    cwd = None if args["cwd"] is None else user.resolve(args["cwd"])
    if cwd is not None:
        require_directory(user, cwd)
    options = ContextOptions(args["language"], cwd, args["env"] or {}, _interpreter(user, args))
    env = base_environment(user, agent.sandbox_id, agent.env, options.env)
    if options.program is None:
        require_program(get_language(options.language), env)
    return agent.add_context(name, user, options).info()


def _interpreter(user: User, args: dict[str, Any]) -> str | None:
    if args["python"] is None:
        return None
    if args["language"] not in PYTHON.names:
        raise invalid("python", f"a context for {args['language']} has no Python interpreter")
    path = interpreter_in(user.resolve(args["python"]))
    with acting_as(user):
        is_program = os.path.isfile(path) and os.access(path, os.X_OK, effective_ids=True)
    if not is_program:
        raise invalid("python", f"{path} is no program that {user.name} may execute")
    return path


@operation("context.list", {})
def list_contexts(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    return {"contexts": [context.info() for context in agent.contexts.values()]}


@operation("context.delete", {"context": Text(ID)})
def delete(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    context = get_context(agent, args["context"])
    del agent.contexts[context.name]
    context.delete()
    if context.name == "default":
        agent.add_context("default")
    return {}


@operation("context.output", {"context": Text(ID), "after": AFTER, "follow": Flag(default=False)})
def output(agent: "Agent", channel: Channel, args: dict[str, Any]) -> None:
    follow(get_context(agent, args["context"]).between_runs, channel, args["after"], args["follow"])


@operation("context.preload", {"modules": Modules()})
async def preload(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    failed = await get_context(agent, "default").preload(args["modules"])
    if args["modules"]:
        _make_lasting()
    return {"failed": failed}


def _make_lasting() -> None:
    """As in the kernel: the collector writes to every object that it visits, and then sandboxes do not share it."""
    gc.collect()
    make_immortal()
    gc.freeze()


@operation("context.settle", {"gather": Flag(default=False)})
async def settle(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    await get_context(agent, "default").settle(args["gather"])
    agent.runs.forget_finished()
    gc.unfreeze()
    if args["gather"]:
        agent.gatherer.gather()
    else:
        agent.gatherer.remember()
    _make_lasting()
    return {}


@operation("context.complete", {"context": Text(ID), "code": Text(max_bytes=limits.COMPLETE_BYTES, nul=True)})
async def complete(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    return await get_context(agent, args["context"]).complete(args["code"])


def get_context(agent: "Agent", name: str) -> Context:
    context = agent.contexts.get(name)
    if context is None and name == "default":
        return agent.add_context(name)
    if context is None:
        raise OpError("not_found", f"there is no context {name!r}")
    return context


OPERATIONS = (
    create,
    list_contexts,
    delete,
    output,
    preload,
    settle,
    complete,
)
