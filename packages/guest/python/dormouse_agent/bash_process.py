"""The process of one bash run."""

import asyncio
import os
import signal
from collections.abc import Callable

from dormouse_agent.limits import BASH_ARGUMENT_BYTES
from dormouse_agent.output_pipe import LingeringPipes, OutputPipe
from dormouse_agent.reaper import Reaper
from dormouse_agent.spawn import Spawn, spawn
from dormouse_agent.text_events import TextEvents
from dormouse_agent.users import User


class BashProcess:
    def __init__(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_exit = on_exit

    def start(self, reaper: Reaper, code: str, user: User, env: dict[str, str], cwd: str) -> None:
        source = code.encode()
        script: tuple[int, ...] = ()
        if len(source) < BASH_ARGUMENT_BYTES:
            args = ["bash", "-c", code]
        else:
            script = (_memory_file(source),)
            args = ["bash", f"/proc/self/fd/{script[0]}"]
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        try:
            child = spawn(Spawn(args, user, env, cwd, stdout=out_write, stderr=err_write, pass_fds=script))
        except BaseException:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            for fd in (out_write, err_write, *script):
                os.close(fd)
        self.pid = child.pid
        self.stdout = OutputPipe(self._loop, out_read)
        self.stderr = OutputPipe(self._loop, err_read)
        reaper.watch(child, self._on_exit)

    def redirect(self, stdout: TextEvents, stderr: TextEvents) -> None:
        self.stdout.switch_to(stdout)
        self.stderr.switch_to(stderr)

    def linger(self, pipes: LingeringPipes) -> None:
        pipes.keep(self.stdout)
        pipes.keep(self.stderr)

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass


def _memory_file(source: bytes) -> int:
    fd = os.memfd_create("bash-run")
    view = memoryview(source)
    while view:
        view = view[os.write(fd, view) :]
    return fd
