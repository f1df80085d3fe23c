"""The operations of the protocol: name, fields and handler of each."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dormouse_agent.errors import OpError, invalid
from dormouse_agent.fields import Field, parse

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent
    from dormouse_agent.channel import Channel

# A dict is the result, a coroutine computes it, None means that the handler streams and ends the channel itself.
Answer = dict[str, Any] | Coroutine[Any, Any, dict[str, Any]] | None
Handler = Callable[["Agent", "Channel", dict[str, Any]], Answer]


@dataclass(frozen=True)
class Operation:
    name: str
    fields: dict[str, Field]
    takes_data: bool
    handler: Handler


def operation(name: str, fields: dict[str, Field], takes_data: bool = False) -> Callable[[Handler], Operation]:
    """Declares a handler as an operation of the protocol."""
    return lambda handler: Operation(name, fields, takes_data, handler)


class OperationTable:
    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._operations = {each.name: each for each in operations}

    def resolve(self, request: Any) -> tuple[Operation, dict[str, Any]]:
        """The operation that a request names, and its checked fields."""
        if not isinstance(request, dict):
            raise OpError("invalid_argument", "a request must be a JSON object")
        name = request.get("op")
        found = self._operations.get(name) if isinstance(name, str) else None
        if found is None:
            raise invalid("op", f"unknown operation {str(name)[:64]!r}")
        return found, parse(found.fields, request)
