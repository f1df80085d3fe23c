"""variable.*"""

import asyncio
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.context import Context
from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import ID, Filters, Flag, Text, Whole
from dormouse_agent.operations import operation
from dormouse_agent.ops_contexts import get_context

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# Codes that a kernel may answer with.
REFUSALS = ("not_found", "too_large", "conflict")


@operation("variable.list", {})
async def list_variables(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    used = [context for context in agent.contexts.values() if context.used]
    return {"contexts": await asyncio.gather(*(_listed(context) for context in used))}


async def _listed(context: Context) -> dict[str, Any]:
    answer = await context.ask_between_runs({"type": "variables"}, limits.VARIABLES_S)
    found: dict[str, Any] = {"context": context.name, "language": context.info()["language"], "variables": []}
    if answer is None:
        return {**found, "state": "busy", "more": False}
    variables = answer.get("variables")
    listed = variables if isinstance(variables, list) else []
    return {**found, "state": "idle", "variables": listed, "more": answer.get("more") is True}


@operation(
    "variable.rows",
    {
        "context": Text(ID),
        "name": Text(max_bytes=limits.VARIABLE_NAME_BYTES),
        "offset": Whole(0, limits.POSITION_MAX, default=0),
        "limit": Whole(0, limits.ROWS, default=100),
        "columnOffset": Whole(0, limits.POSITION_MAX, default=0),
        "columns": Whole(1, limits.COLUMNS, default=50),
        "sort": Whole(0, limits.POSITION_MAX, default=None),
        "descending": Flag(default=False),
        "filters": Filters(default=()),
    },
)
async def rows(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    if args["limit"] * args["columns"] > limits.CELLS:
        raise invalid("limit", f"asks for more than {limits.CELLS} cells")
    context = get_context(agent, args["context"])
    answer = await context.ask_between_runs({**args, "type": "rows"}, limits.VARIABLE_ROWS_S)
    if answer is None:
        raise OpError("conflict", f"context {context.name!r} is busy with a run")
    if answer.get("error") in REFUSALS:
        raise OpError(str(answer["error"]), str(answer.get("message")))
    if not isinstance(answer.get("variable"), dict):
        raise OpError("conflict", f"the language of context {context.name!r} does not show single variables")
    return {name: answer[name] for name in ("variable", "table", "image", "text") if name in answer}


OPERATIONS = (list_variables, rows)
