"""run.*"""

from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.context import Context, ContextOptions
from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import ID, Choice, Flag, Text, Whole
from dormouse_agent.follower import follow
from dormouse_agent.languages.registry import BASH, NAMES, get_language, require_program
from dormouse_agent.operations import operation
from dormouse_agent.run import Run
from dormouse_agent.spawn import base_environment

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

AFTER = Whole(-1, 2**53, default=-1)


@operation(
    "run.start",
    {
        "runId": Text(ID),
        "code": Text(max_bytes=limits.CODE_BYTES, nul=True),
        "language": Choice(NAMES, default=None),
        "context": Text(ID, default="default"),
        "timeoutMs": Whole(1, limits.TIMEOUT_MAX_MS, default=None),
        "input": Flag(default=False),
    },
)
def start(agent: "Agent", channel: Channel, args: dict[str, Any]) -> None:
    context = agent.contexts.get(args["context"])
    language = _language_of(context, args)
    if agent.runs.find(args["runId"]) is not None:
        raise OpError("already_exists", f"run {args['runId']!r} exists")
    if context is None:
        if len(agent.contexts) >= limits.CONTEXTS:
            raise OpError("limit_reached", f"a sandbox has at most {limits.CONTEXTS} contexts")
        context = _add_context(agent, args["context"], language)
    run = Run(args["runId"], context, language, args["code"], args["timeoutMs"], args["input"])
    context.enqueue(run)
    follow(run.journal, channel)


def _language_of(context: Context | None, args: dict[str, Any]) -> str:
    asked: str | None = args["language"]
    language = context.language_of(asked) if context is not None else asked or "python"
    if language in BASH.names and "\0" in args["code"]:
        raise invalid("code", "holds a NUL character, which bash cannot read")
    if args["input"] and not get_language(language).answers_input:
        raise invalid("input", f"code in {language} cannot ask for input")
    return language


def _add_context(agent: "Agent", name: str, language: str) -> Context:
    # A run of bash keeps nothing, so it says nothing about the context.
    options = ContextOptions("python" if language in BASH.names else language)
    env = base_environment(agent.default_user, agent.sandbox_id, agent.env)
    require_program(get_language(options.language), env)
    return agent.add_context(name, options=options)


@operation("run.events", {"runId": Text(ID), "after": AFTER, "follow": Flag(default=True)})
def events(agent: "Agent", channel: Channel, args: dict[str, Any]) -> None:
    follow(_get_run(agent, args["runId"]).journal, channel, args["after"], args["follow"])


@operation("run.interrupt", {"runId": Text(ID)})
def interrupt(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    run = _get_run(agent, args["runId"])
    return {"state": run.context.interrupt(run)}


@operation(
    "run.input",
    {
        "runId": Text(ID),
        "seq": Whole(0, 2**53),
        "text": Text(max_bytes=limits.ANSWER_BYTES, nul=True, default=None),
    },
)
def answer(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    run = _get_run(agent, args["runId"])
    request = run.take_question(args["seq"])
    if request is None:
        raise OpError("conflict", f"run {run.id!r} does not wait for an answer to event {args['seq']}")
    run.context.answer(request, args["text"])
    return {}


def _get_run(agent: "Agent", run_id: str) -> Run:
    run = agent.runs.find(run_id)
    if run is None:
        raise OpError("not_found", f"there is no run {run_id!r}")
    return run


OPERATIONS = (
    start,
    events,
    interrupt,
    answer,
)
