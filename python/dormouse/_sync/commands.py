# Written by tools/make_sync.py from _async/commands.py: change that one.
"""Commands of a sandbox, beside its REPLs."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Union

from .._json import decode, decode_all, given, milliseconds
from .._errors import DormouseError
from .._execution import Event, read_event
from .._paths import path_part
from .._process import CommandCollector, CommandResult
from .._values import ProcessInfo
from .follow import SSE, Follower
from .http import Http
from .io import call, finish, run_all, unbroken

# A line for `bash -c`, or a program with its arguments and no shell.
CommandLine = Union[str, Sequence[str]]
KILL_SECONDS = 5.0


class Commands:
    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    def run(
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
        """Runs it to its end, with `input` to read. Being cancelled, or Ctrl-C, kills it."""
        known: List[Command] = []

        def start() -> None:
            known.append(
                self.start(
                    command, cwd=cwd, env=env, user=user, timeout=timeout, stdin=input is not None
                )
            )

        try:
            # A command whose pid nobody has heard could not be killed.
            unbroken(start)
            if input is None:
                return known[0].wait(on_stdout=on_stdout, on_stderr=on_stderr)
            return self._feed(known[0], input, on_stdout, on_stderr)
        except Exception:
            raise
        except BaseException:
            for started in known:
                finish(started.kill, KILL_SECONDS)
            raise

    def start(
        self,
        command: CommandLine,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: bool = False,
    ) -> Command:
        """Starts it in the background. It ends by itself, by a signal or by its time-out.

        `stdin` keeps its input open for `send_stdin`; otherwise it is empty.
        """
        options = given(cwd=cwd, env=env, user=user, stdin=stdin or None, timeout_ms=milliseconds(timeout))
        return self._start({**command_body(command), **options})

    def connect(self, pid: int) -> Command:
        """One that was started before."""
        found = Command(self._http, self._sandbox, pid)
        found.info()
        return found

    def list(self) -> List[ProcessInfo]:
        """Those that were started here and run, and the last that have ended."""
        answer = self._http.json("GET", self._sandbox._at("processes"))
        return decode_all(ProcessInfo, answer["items"])

    def _start(self, body: Mapping[str, Any]) -> Command:
        answer = self._http.json("POST", self._sandbox._at("processes"), body=body)
        return Command(self._http, self._sandbox, answer["pid"])

    def _feed(
        self, started: Command, input: Union[str, bytes], on_stdout: Any, on_stderr: Any
    ) -> CommandResult:
        # Both at once: it may write more than anybody holds before it has read all.
        def feed() -> None:
            try:
                started.send_stdin(input, close=True)
            except DormouseError:
                # A command that does not read all of its input is no failure.
                pass

        def wait() -> CommandResult:
            return started.wait(on_stdout=on_stdout, on_stderr=on_stderr)

        results: list[Any] = run_all([wait, feed], 2)
        result: CommandResult = results[0]
        return result


class Command:
    """A process in a sandbox. It does not depend on this object: nobody's leaving ends it, and `connect(pid)` finds it again."""

    def __init__(self, http: Http, sandbox: Any, pid: int) -> None:
        self._http = http
        self._sandbox = sandbox
        self.pid = pid

    def info(self) -> ProcessInfo:
        """What it is, and how it ended."""
        return decode(ProcessInfo, self._http.json("GET", self._at()))

    def events(self, *, after: int = -1) -> Events:
        """What it says, from the beginning or behind `after`, until it ends. Keeps the sandbox awake while it is read."""

        def open(seen: int) -> Any:
            return self._http.open("GET", self._at("events"), query={"after": seen}, headers=SSE)

        return Events(Follower(open, after))

    def wait(self, *, on_stdout: Any = None, on_stderr: Any = None) -> CommandResult:
        """Its end, with all that it wrote. An exit code other than 0 is a result, and nothing is raised."""
        collector = CommandCollector(self.pid)
        handlers = {"stdout": on_stdout, "stderr": on_stderr}
        with self.events() as events:
            for event in events:
                collector.add(event)
                call(handlers.get(event.type), event.data)
        return collector.result()

    def send_stdin(self, data: Union[str, bytes], *, close: bool = False) -> None:
        """Writes to its input, as fast as it reads. `close`: that was all."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        self._http.json(
            "POST", self._at("stdin"), query={"close": close}, content=content, timeout=None
        )

    def kill(self, signal: str = "SIGKILL") -> None:
        """A signal to it and its group. One that has ended already is fine."""
        try:
            self._http.json("POST", self._at("signal"), body={"signal": signal})
        except DormouseError as error:
            if error.code != "conflict":
                raise

    def resize(self, cols: int, rows: int) -> None:
        """Of one with a terminal."""
        body = {"cols": cols, "rows": rows}
        self._http.json("POST", self._at("resize"), body=body, repeatable=True)

    def _at(self, *what: str) -> str:
        path: str = self._sandbox._at("processes", path_part(self.pid), *what)
        return path

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pid}>"


class Events:
    """Events as they come, over as many connections as it takes. Leaving early ends nothing."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        answer = self._follower.next()
        if answer is None:
            raise StopIteration
        return read_event(answer)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._follower.drop()


def command_body(command: CommandLine) -> dict[str, Any]:
    return {"command": command} if isinstance(command, str) else {"args": [*command]}
