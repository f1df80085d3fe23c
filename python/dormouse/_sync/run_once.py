# Written by tools/make_sync.py from _async/run_once.py: change that one.
"""A run in a sandbox that the server deletes afterwards."""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import DormouseError, error_from_answer, error_of
from .._execution import Execution, RunCollector, read_event
from .follow import SSE, EventLines
from .http import Http
from .io import call_handler


def run_once(http: Http, body: Mapping[str, Any], handlers: Mapping[str, Any]) -> Execution:
    """Reads events while the code runs: a proxy could time out waiting for an answer at the end.

    It cannot reconnect, because the server deletes the sandbox with the first connection.
    """
    lines = EventLines(http.begin("POST", "/v1/run", json_body=body, headers=SSE))
    collector = RunCollector()
    is_over = False
    try:
        # To the end of the stream, not only of the run: the sandbox is deleted then.
        while True:
            answer = lines.next()
            if answer is None:
                break
            if answer["type"] == "failed":
                raise error_from_answer(answer["error"])
            event = read_event(answer)
            is_over = event.type == "exit"
            collector.add(event)
            call_handler(handlers.get(event.type), event.data)
    except DormouseError:
        if not is_over:
            raise
    finally:
        lines.close()
    if not is_over:
        hint = "The code may have run, and its sandbox is deleted. Run it again if running it twice does no harm."
        raise error_of("server_unreachable", "The connection was lost before the end of the run.", hint=hint)
    return collector.execution()
