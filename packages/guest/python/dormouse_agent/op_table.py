"""The table of operations. A handler gives a dict (END), a coroutine of one, or None when it streams."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import Field, parse

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent
    from dormouse_agent.channel import Channel

Answer = dict[str, Any] | Coroutine[Any, Any, dict[str, Any]] | None
Handler = Callable[["Agent", "Channel", dict[str, Any]], Answer]


@dataclass(frozen=True)
class Op:
    handler: Handler
    fields: dict[str, Field]
    takes_data: bool


OPS: dict[str, Op] = {}


def op(name: str, fields: dict[str, Field], takes_data: bool = False) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        OPS[name] = Op(handler, fields, takes_data)
        return handler

    return register


def resolve(request: Any) -> tuple[Op, dict[str, Any]]:
    if not isinstance(request, dict):
        raise OpError("invalid_argument", "a request is a JSON object")
    name = request.get("op")
    found = OPS.get(name) if isinstance(name, str) else None
    if found is None:
        raise invalid("op", f"unknown operation {str(name)[:64]!r}")
    return found, parse(found.fields, request)
