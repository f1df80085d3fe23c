"""Running code in a sandbox, and in forks of it."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence, Union

from .._arguments import milliseconds
from .._json import given
from .._execution import Event, Execution
from .._fan_out import Candidate, Candidates, MapOutcome
from .client import AsyncClient
from .fan_out import RaceOutcome, Score, Work, map_over_forks, race_forks
from .run_stream import AsyncRunStream


class AsyncRunning:
    """The calls that run code. They wake the sandbox."""

    client: AsyncClient

    async def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        *,
        context: Optional[str] = None,
        timeout: Optional[float] = None,
        idempotency_key: Optional[str] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_result: Optional[Callable[[Any], Any]] = None,
        on_input: Optional[Callable[[Event], Any]] = None,
    ) -> Execution:
        """Runs code in a REPL that keeps its variables. An exception in the code is in `error` of the result.

        The default `language` is that of the context. `javascript` and `typescript` share a context of their own. `bash`
        runs in any context and keeps nothing, unless the context is a `bash`.

        After `timeout` seconds the run is interrupted, and `check()` raises RunTimeoutError. The run is also interrupted
        when the task is cancelled, or by Ctrl-C. The REPL continues. A `context` that does not exist is created. With
        the `idempotency_key` of an earlier run, returns that run and runs nothing.

        `on_input` gets an event with `prompt` and `hidden` when the code calls `input()` or `getpass()`, and returns the
        answer; None ends the input. Without it they raise EOFError.
        """
        stream = self.run_code_stream(
            code,
            language,
            context=context,
            timeout=timeout,
            idempotency_key=idempotency_key,
            input=on_input is not None,
        )
        return await stream.wait(on_stdout, on_stderr, on_result, on_input)

    def run_code_stream(
        self,
        code: str,
        language: Optional[str] = None,
        *,
        context: Optional[str] = None,
        timeout: Optional[float] = None,
        idempotency_key: Optional[str] = None,
        input: bool = False,
    ) -> AsyncRunStream:
        """Like `run_code`, event by event. Leaving the loop early does not end the run.

        With `input`, answer `input` events with `answer()` of the stream.
        """
        body = given(
            code=code,
            language=language,
            context=context,
            timeout_ms=milliseconds("timeout", timeout),
            idempotency_key=idempotency_key,
            input=input or None,
        )
        return AsyncRunStream(self.client.http, self, body)

    async def race(
        self,
        n: Union[int, Candidates, None] = None,
        candidates: Optional[Candidates] = None,
        *,
        score: Score,
        run: Optional[Candidate] = None,
        best: str = "highest",
        concurrency: Optional[int] = None,
        language: str = "python",
        context: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> RaceOutcome:
        """Best of n: runs each candidate in its own fork, scores them, keeps the best child, deletes the others.

        A candidate is code, or a function of `(child, index)`. `race(n, candidates, …)` makes n children: a shorter
        list is repeated, a function returns the candidate of an index, and one string, or `race(n, run=…)`, is for all.
        `score` is a Python expression for the child, or a function of `(value, child)`. This sandbox does not change.
        """
        options = {"language": language, "context": context, "timeout": timeout}
        return await race_forks(self, n, candidates, score, run, best, concurrency, options)

    async def map(
        self,
        inputs: Iterable[Any],
        work: Work,
        *,
        concurrency: int = 4,
        variable: str = "item",
        context: Optional[str] = None,
        timeout: Optional[float] = None,
        retries: int = 0,
    ) -> Sequence[MapOutcome]:
        """Runs code, or a function of `(child, input)`, once per input, each in its own fork, and deletes the fork.

        Code finds its input, which must be JSON, in `variable`. Outcomes are in the order of the inputs; a failure does
        not stop the others. Code runs as a job of the server (`client.jobs`); `retries` is for code that fails.
        """
        options = {"context": context, "timeout": timeout}
        return await map_over_forks(self, [*inputs], work, concurrency, variable, retries, options)
