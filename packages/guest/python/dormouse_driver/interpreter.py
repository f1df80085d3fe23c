"""An interpreter that a driver steers: commands on a pipe, code in a file, reports on another pipe."""

import ctypes
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from typing import Any

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


class Interpreter(ABC):
    """
    After every command it writes an exit code and a NUL to the report pipe. Before that it may report values and errors,
    as `reports.py` reads them.
    """

    # Otherwise on the descriptor `command_fd`, and its stdin is empty.
    commands_on_stdin = True
    # Whether it can write its variables to the descriptor `variables_fd`.
    lists_variables = False

    def __init__(self, program: str) -> None:
        self.program = program
        # A file in memory: code may be larger than a pipe holds.
        self.code_fd = os.memfd_create("code")
        self.variables_fd = os.memfd_create("variables")
        self.report_fd, self._report_write = os.pipe()
        # What it gets, by name.
        self.descriptors: dict[str, int] = {}
        self._commands_read, self._commands = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        """Added to the environment of the context."""
        return {}

    @abstractmethod
    def prepare(self) -> str:
        """Commands that make it ready. It reports when it is."""

    @abstractmethod
    def execute(self) -> str:
        """Commands that execute the code file and report."""

    @abstractmethod
    def set_variables(self, env: dict[str, str], seed: int | None) -> str:
        """Code that sets environment variables, and gives random numbers a new seed."""

    def dump_variables(self) -> str:
        """Commands that write all variables to their descriptor and report."""
        raise NotImplementedError

    def variables(self) -> dict[str, Any]:
        """What the last dump says: `variables`, each with name, type and preview, and whether there are `more`."""
        return {"variables": [], "more": False}

    def start(self) -> None:
        stderr_fd = os.dup(2)
        self.descriptors = {"code_fd": self.code_fd, "report_fd": self._report_write, "stderr_fd": stderr_fd}
        if self.lists_variables:
            self.descriptors["variables_fd"] = self.variables_fd
        if not self.commands_on_stdin:
            self.descriptors["command_fd"] = self._commands_read
        self._process = subprocess.Popen(
            self.command(),
            stdin=self._commands_read if self.commands_on_stdin else subprocess.DEVNULL,
            # What it says about a missing terminal is of no interest. `prepare` connects the real one.
            stderr=subprocess.DEVNULL if self.commands_on_stdin else None,
            pass_fds=tuple(self.descriptors.values()),
            # A group of its own: an interrupt reaches the programs that it runs, not the driver.
            start_new_session=True,
            preexec_fn=_die_with_parent,
            # Waits for commands, and so is no work that keeps a sandbox awake. Programs that it starts do not get this.
            env={**os.environ, **self.environment(), "DORMOUSE_KEEP_AWAKE": "0"},
        )
        os.close(self._report_write)
        os.close(stderr_fd)
        os.close(self._commands_read)
        self._send(self.prepare())

    def run(self, code: str) -> None:
        os.ftruncate(self.code_fd, 0)
        os.lseek(self.code_fd, 0, os.SEEK_SET)
        view = memoryview(code.encode("utf-8", "replace"))
        while view:
            view = view[os.write(self.code_fd, view) :]
        self._send(self.execute())

    def write_variables(self) -> None:
        os.ftruncate(self.variables_fd, 0)
        os.lseek(self.variables_fd, 0, os.SEEK_SET)
        self._send(self.dump_variables())

    def interrupt(self) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def _send(self, commands: str) -> None:
        view = memoryview(commands.encode())
        try:
            while view:
                view = view[os.write(self._commands, view) :]
        except BrokenPipeError:
            # It has ended, which the report pipe says as well.
            pass


def _die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
