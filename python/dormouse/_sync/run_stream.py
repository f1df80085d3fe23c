# Written by tools/make_sync.py from _async/run_stream.py: change that one.
"""The events of a run."""

from __future__ import annotations

import uuid
from typing import Any, Mapping, Optional

from .._errors import ConflictError, NotFoundError
from .._execution import Event, Execution, RunCollector, read_event
from .._json import given
from .follow import SSE, Follower
from .http import Http
from .io import call_handler, clean_up

# How long a cancelled caller waits until the run is interrupted.
INTERRUPT_SECONDS = 5.0


class RunStream:
    """The events of a run as they come. The run starts with the first read.

    Leaving the loop early (`break`) does not end the run; `interrupt()` does. So does cancelling the task, or Ctrl-C,
    while it waits for an event. It reconnects after a lost connection and misses no event.
    """

    def __init__(self, http: Http, sandbox: Any, body: Mapping[str, Any]) -> None:
        self._http = http
        self._sandbox = sandbox
        # With a key, a request whose answer was lost can be repeated without running twice.
        self._body = {"idempotencyKey": uuid.uuid4().hex, **body}
        self._follower = Follower(self._open)
        self._collector = RunCollector()
        self.run_id: Optional[str] = None

    def __iter__(self) -> RunStream:
        return self

    def __next__(self) -> Event:
        event = self._next()
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> RunStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def wait(
        self, on_stdout: Any = None, on_stderr: Any = None, on_result: Any = None, on_input: Any = None
    ) -> Execution:
        """Reads the remaining events. Returns the whole run, including events read before."""
        handlers = {"stdout": on_stdout, "stderr": on_stderr, "result": on_result}
        while True:
            event = self._next()
            if event is None:
                return self._collector.execution()
            if event.type == "input" and on_input is not None:
                self._answer(event, on_input)
            call_handler(handlers.get(event.type), event.data)

    def answer(self, event: Event, text: Optional[str]) -> None:
        """Answers an `input` event. None ends the input: the code gets an EOFError."""
        path = self._sandbox._at("runs", self.run_id, "input")
        self._http.json("POST", path, body=given(seq=event.seq, text=text))

    def _answer(self, event: Event, on_input: Any) -> None:
        try:
            self.answer(event, call_handler(on_input, event))
        except ConflictError:
            # The run was interrupted, or another program answered.
            pass
        except BaseException:
            # Without an answer the run would wait.
            clean_up(self.interrupt, INTERRUPT_SECONDS)
            raise

    def interrupt(self) -> None:
        """Raises KeyboardInterrupt in the run; the REPL keeps its variables. A run in the queue never starts."""
        if self._follower.is_over:
            return
        if self.run_id is not None:
            path = self._sandbox._at("runs", self.run_id, "interrupt")
            self._http.json("POST", path, repeatable=True)
            return
        # In the queue it has no id yet. A request with its key joins it, and interrupts it on disconnect.
        path = self._sandbox._at("run")
        body = {**self._body, "onDisconnect": "interrupt"}
        response = self._http.open("POST", path, headers=SSE, json_body=body)
        response.close()

    def close(self) -> None:
        """Closes the connection. The run continues, and so can reading."""
        self._follower.drop()

    def _next(self) -> Optional[Event]:
        try:
            answer = self._follower.next()
        except Exception:
            raise
        except BaseException:
            # Cancelled, or Ctrl-C: the caller does not want this run any more.
            self._follower.drop()
            clean_up(self.interrupt, INTERRUPT_SECONDS)
            raise
        if answer is None:
            return None
        event = read_event(answer)
        if event.type == "start":
            self.run_id = event.run_id
        self._collector.add(event)
        return event

    def _open(self, after: int) -> Any:
        if self.run_id is None:
            response = self._start()
            self.run_id = response.headers.get("x-run-id")
            return response
        path = self._sandbox._at("runs", self.run_id, "events")
        return self._http.open("GET", path, query={"after": after}, headers=SSE)

    def _start(self) -> Any:
        path = self._sandbox._at("run")
        try:
            return self._http.open("POST", path, headers=SSE, json_body=self._body)
        except NotFoundError:
            if self._body.get("context") is None:
                raise
        try:
            # Raises `not_found` if it is the sandbox that does not exist.
            self._sandbox.contexts.create(self._body["context"])
        except ConflictError as error:
            if error.code != "already_exists":
                raise
        return self._http.open("POST", path, headers=SSE, json_body=self._body)
