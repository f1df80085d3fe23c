"""A run in a sandbox that lives for it alone."""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import DormouseError, error_from_answer, error_of
from .._execution import Execution, RunCollector, read_event
from .follow import SSE, EventLines
from .http import Http
from .io import call


async def run_once(http: Http, body: Mapping[str, Any], handlers: Mapping[str, Any]) -> Execution:
    """As events, which come as long as the code runs: an answer that comes at the end is given up by what is in between.

    There is no second connection to them, as the sandbox goes with the first.
    """
    lines = EventLines(await http.begin("POST", "/v1/run", json_body=body, headers=SSE))
    collector = RunCollector()
    is_over = False
    try:
        # To the end of the stream, and not of the run: then the sandbox is gone.
        while True:
            answer = await lines.next()
            if answer is None:
                break
            if answer["type"] == "failed":
                raise error_from_answer(answer["error"])
            event = read_event(answer)
            is_over = event.type == "exit"
            collector.add(event)
            await call(handlers.get(event.type), event.data)
    except DormouseError:
        if not is_over:
            raise
    finally:
        lines.close()
    if not is_over:
        hint = "The run may have been done, and its sandbox is deleted. Run it again if that is as good as once."
        raise error_of("server_unreachable", "The connection was lost before the end of the run.", hint=hint)
    return collector.execution()
