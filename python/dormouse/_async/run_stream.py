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


class AsyncRunStream:
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

    def __aiter__(self) -> AsyncRunStream:
        return self

    async def __anext__(self) -> Event:
        event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> AsyncRunStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def wait(
        self, on_stdout: Any = None, on_stderr: Any = None, on_result: Any = None, on_input: Any = None
    ) -> Execution:
        """Reads the remaining events. Returns the whole run, including events read before."""
        handlers = {"stdout": on_stdout, "stderr": on_stderr, "result": on_result}
        while True:
            event = await self._next()
            if event is None:
                return self._collector.execution()
            if event.type == "input" and on_input is not None:
                await self._answer(event, on_input)
            await call_handler(handlers.get(event.type), event.data)

    async def answer(self, event: Event, text: Optional[str]) -> None:
        """Answers an `input` event. None ends the input: the code gets an EOFError."""
        path = await self._sandbox._at("runs", self.run_id, "input")
        await self._http.json("POST", path, body=given(seq=event.seq, text=text))

    async def _answer(self, event: Event, on_input: Any) -> None:
        try:
            await self.answer(event, await call_handler(on_input, event))
        except ConflictError:
            # The run was interrupted, or another program answered.
            pass
        except BaseException:
            # Without an answer the run would wait.
            await clean_up(self.interrupt, INTERRUPT_SECONDS)
            raise

    async def interrupt(self) -> None:
        """Raises KeyboardInterrupt in the run; the REPL keeps its variables. A run in the queue never starts."""
        if self._follower.is_over:
            return
        if self.run_id is not None:
            path = await self._sandbox._at("runs", self.run_id, "interrupt")
            await self._http.json("POST", path, repeatable=True)
            return
        # In the queue it has no id yet. A request with its key joins it, and interrupts it on disconnect.
        path = await self._sandbox._at("run")
        body = {**self._body, "onDisconnect": "interrupt"}
        response = await self._http.open("POST", path, headers=SSE, json_body=body)
        response.close()

    async def close(self) -> None:
        """Closes the connection. The run continues, and so can reading."""
        self._follower.drop()

    async def _next(self) -> Optional[Event]:
        try:
            answer = await self._follower.next()
        except Exception:
            raise
        except BaseException:
            # Cancelled, or Ctrl-C: the caller does not want this run any more.
            self._follower.drop()
            await clean_up(self.interrupt, INTERRUPT_SECONDS)
            raise
        if answer is None:
            return None
        event = read_event(answer)
        if event.type == "start":
            self.run_id = event.run_id
        self._collector.add(event)
        return event

    async def _open(self, after: int) -> Any:
        if self.run_id is None:
            response = await self._start()
            self.run_id = response.headers.get("x-run-id")
            return response
        path = await self._sandbox._at("runs", self.run_id, "events")
        return await self._http.open("GET", path, query={"after": after}, headers=SSE)

    async def _start(self) -> Any:
        path = await self._sandbox._at("run")
        try:
            return await self._http.open("POST", path, headers=SSE, json_body=self._body)
        except NotFoundError:
            if self._body.get("context") is None:
                raise
        try:
            # Raises `not_found` if it is the sandbox that does not exist.
            await self._sandbox.contexts.create(self._body["context"])
        except ConflictError as error:
            if error.code != "already_exists":
                raise
        return await self._http.open("POST", path, headers=SSE, json_body=self._body)
