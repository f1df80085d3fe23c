"""Collects every dead child: processes that the agent started, and orphans that it adopts as subreaper."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable

OnExit = Callable[[int], None]


class Reaper:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._started: dict[int, tuple[subprocess.Popen[bytes], OnExit]] = {}
        loop.add_signal_handler(signal.SIGCHLD, self._collect)

    def watch(self, child: subprocess.Popen[bytes], on_exit: OnExit) -> None:
        """Calls `on_exit` with the exit code, or minus the signal. Pre: no await since the child was started."""
        self._started[child.pid] = (child, on_exit)

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if (entry := self._started.pop(pid, None)) is not None:
                child, on_exit = entry
                # Popen must never wait for this pid again: it may belong to another process by then.
                child.returncode = code
                on_exit(code)


def exit_code_of(code: int) -> int:
    """The shell's convention: 128 + n for signal n."""
    return code if code >= 0 else 128 - code


def signal_name(code: int) -> str | None:
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"SIG{-code}"
