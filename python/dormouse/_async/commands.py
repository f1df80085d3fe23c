"""Commands of a sandbox."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Union

from .._arguments import bytes_of, milliseconds, require_count
from .._json import decode, decode_all, given
from .._errors import DormouseError
from .._execution import Event, read_event
from .._paths import path_part
from .._process import CommandCollector, CommandResult
from .._values import ProcessInfo
from .follow import SSE, Follower, limited
from .http import Http
from .io import call_handler, clean_up, run_concurrently, uninterrupted

# A line for `bash -c`, or a program and its arguments without a shell.
CommandLine = Union[str, Sequence[str]]
KILL_SECONDS = 5.0


class AsyncCommands:
    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def run(
        self,
        command: CommandLine,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        input: Union[str, bytes, None] = None,
        on_stdout: Any = None,
        on_stderr: Any = None,
    ) -> CommandResult:
        """Runs a command to its end, with `input` as its stdin. Cancelling the task, or Ctrl-C, kills it."""
        known: List[AsyncCommand] = []
        content = None if input is None else bytes_of("input", input)

        async def start() -> None:
            known.append(
                await self.start(
                    command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=content is not None
                )
            )

        try:
            # Without its id, a command that was started could not be killed.
            await uninterrupted(start)
            if content is None:
                return await known[0].wait(on_stdout=on_stdout, on_stderr=on_stderr)
            return await self._feed(known[0], content, on_stdout, on_stderr)
        except Exception:
            raise
        except BaseException:
            for started in known:
                await clean_up(started.kill, KILL_SECONDS)
            raise

    async def start(
        self,
        command: CommandLine,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: bool = False,
        keep_awake: Optional[bool] = None,
    ) -> AsyncCommand:
        """Starts a command in the background. It ends by itself, by a signal or by its time-out.

        `stdin` keeps its stdin open for `send_stdin`; otherwise it is empty. The command keeps the sandbox awake until
        it ends; with `keep_awake=False`, which suits servers, it does not.
        """
        options = given(
            cwd=cwd,
            env=env,
            user=user,
            stdin=stdin or None,
            timeout_ms=milliseconds("timeout", timeout),
            keep_awake=keep_awake,
        )
        return await self._start({**command_body(command), **options})

    async def connect(self, id: Union[str, int]) -> AsyncCommand:
        """A command that was started before, by its id, or by its pid while it runs."""
        answer = await self._http.json("GET", await self._sandbox._at("processes", path_part(id)))
        return AsyncCommand(self._http, self._sandbox, answer["processId"], answer["pid"])

    async def list(self) -> List[ProcessInfo]:
        """The commands that run, and the last ones that have ended."""
        answer = await self._http.json("GET", await self._sandbox._at("processes"))
        return decode_all(ProcessInfo, answer["items"])

    async def _start(self, body: Mapping[str, Any]) -> AsyncCommand:
        answer = await self._http.json("POST", await self._sandbox._at("processes"), body=body)
        return AsyncCommand(self._http, self._sandbox, answer["processId"], answer["pid"])

    async def _feed(
        self, started: AsyncCommand, content: bytes, on_stdout: Any, on_stderr: Any
    ) -> CommandResult:
        # Both at once: it may fill its output before it has read all input.
        async def feed() -> None:
            try:
                await started.send_stdin(content, close=True)
            except DormouseError:
                # A command may end without reading all of its input.
                pass

        async def wait() -> CommandResult:
            return await started.wait(on_stdout=on_stdout, on_stderr=on_stderr)

        results: list[Any] = await run_concurrently([wait, feed], 2)
        result: CommandResult = results[0]
        return result


class AsyncCommand:
    """A process in a sandbox. It does not end with this object; `connect(id)` returns another one."""

    def __init__(self, http: Http, sandbox: Any, id: str, pid: int) -> None:
        self._http = http
        self._sandbox = sandbox
        # Names the process for good: pids start again after a sleep.
        self.id = id
        # Inside the sandbox. Another process may get it after this one has ended.
        self.pid = pid

    async def info(self) -> ProcessInfo:
        """Its command, user and state, and its exit code."""
        return decode(ProcessInfo, await self._http.json("GET", await self._at()))

    def events(self, *, after: int = -1) -> AsyncEvents:
        """Its events from the start, or those after `after`, until it ends. Reading keeps the sandbox awake."""

        async def open(seen: int) -> Any:
            return await self._http.open("GET", await self._at("events"), query={"after": seen}, headers=SSE)

        return AsyncEvents(Follower(open, after))

    async def wait(
        self, *, timeout: Optional[float] = None, on_stdout: Any = None, on_stderr: Any = None
    ) -> CommandResult:
        """Waits for its end and returns its output. An exit code other than 0 raises nothing; `check()` does.

        Raises `timed_out` after `timeout` seconds; the command continues.
        """
        collector = CommandCollector(self.id, self.pid)
        handlers = {"stdout": on_stdout, "stderr": on_stderr}
        async with self.events() as events:
            with limited(timeout, events._follower.fail):
                async for event in events:
                    collector.add(event)
                    await call_handler(handlers.get(event.type), event.data)
        return collector.result()

    async def send_stdin(self, data: Union[str, bytes], *, close: bool = False) -> None:
        """Writes to its stdin, as fast as it reads. `close` ends its input."""
        content = bytes_of("data", data)
        await self._http.json(
            "POST", await self._at("stdin"), query={"close": close}, content=content, timeout=None
        )

    async def kill(self, signal: str = "SIGKILL") -> None:
        """Sends a signal to it and its process group. Does nothing if it has ended."""
        try:
            await self._http.json("POST", await self._at("signal"), body={"signal": signal})
        except DormouseError as error:
            if error.code != "conflict":
                raise

    async def resize(self, cols: int, rows: int) -> None:
        """Resizes its terminal."""
        body = {"cols": require_count("cols", cols), "rows": require_count("rows", rows)}
        await self._http.json("POST", await self._at("resize"), body=body, repeatable=True)

    async def _at(self, *what: str) -> str:
        path: str = await self._sandbox._at("processes", path_part(self.id), *what)
        return path

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncEvents:
    """Events as they come, over as many connections as needed. Leaving the loop early does not end the process."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        answer = await self._follower.next()
        if answer is None:
            raise StopAsyncIteration
        return read_event(answer)

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        self._follower.drop()


def command_body(command: CommandLine) -> dict[str, Any]:
    return {"command": command} if isinstance(command, str) else {"args": [*command]}
