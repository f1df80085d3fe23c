"""The agent's end of a kernel: a control socket and two pipes, read in order (PROTOCOL.md, Agent and kernel)."""

import asyncio
import os
import signal
import socket
import struct
from typing import Any, Protocol

from dormouse_agent.frames import encode_json
from dormouse_agent.languages.language import Language
from dormouse_agent.limits import KERNEL_MESSAGE_BYTES
from dormouse_agent.output_pipe import OutputPipe, pending_bytes
from dormouse_agent.reaper import Reaper
from dormouse_agent.spawn import Spawn, spawn
from dormouse_agent.text_events import TextEvents
from dormouse_agent.users import User
from dormouse_json import decode

LENGTH = struct.Struct(">I")


class KernelOwner(Protocol):
    def on_kernel_message(self, message: dict[str, Any]) -> None: ...

    def on_kernel_exit(self, code: int) -> None: ...


class KernelProcess:
    def __init__(self, loop: asyncio.AbstractEventLoop, owner: KernelOwner) -> None:
        self._loop = loop
        self._owner = owner
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._interrupt_pipe: int | None = None
        self.killed = False
        self.untrusted = False

    def start(
        self, reaper: Reaper, language: Language, program: str, user: User, env: dict[str, str], cwd: str
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        interrupt_read: int | None = None
        if language.has_interrupt_pipe:
            interrupt_read, self._interrupt_pipe = os.pipe2(os.O_CLOEXEC)
            # A kernel that does not read must not block the agent.
            os.set_blocking(self._interrupt_pipe, False)
        passed = tuple(fd for fd in (theirs.fileno(), interrupt_read) if fd is not None)
        try:
            command = language.command(program, env, theirs.fileno(), interrupt_read)
            child = spawn(
                Spawn(
                    command.args, user, {**env, **command.env}, cwd,
                    stdout=out_write, stderr=err_write, pass_fds=passed,
                )  # fmt: skip
            )
        except BaseException:
            ours.close()
            os.close(out_read)
            os.close(err_read)
            self._close_interrupt_pipe()
            raise
        finally:
            theirs.close()
            os.close(out_write)
            os.close(err_write)
            if interrupt_read is not None:
                os.close(interrupt_read)
        self.pid = child.pid
        ours.setblocking(False)
        self._socket = ours
        self.stdout = OutputPipe(self._loop, out_read)
        self.stderr = OutputPipe(self._loop, err_read)
        self._loop.add_reader(ours.fileno(), self._on_readable)
        reaper.watch(child, self._on_exit)

    def redirect(self, stdout: TextEvents, stderr: TextEvents, drained: bool = False) -> None:
        """`drained`: called for a message, so all output from before it has been read."""
        self.stdout.switch_to(stdout, drained)
        self.stderr.switch_to(stderr, drained)

    def send(self, message: dict[str, Any]) -> None:
        payload = encode_json(message)
        data = LENGTH.pack(len(payload)) + payload
        if not self._outgoing:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                # The kernel is dying; the reaper will report its exit.
                return
            if data:
                self._loop.add_writer(self._socket.fileno(), self._on_writable)
        self._outgoing += data

    def interrupt(self) -> None:
        if self._interrupt_pipe is None:
            self._signal(signal.SIGINT)
            return
        try:
            os.write(self._interrupt_pipe, b"\0")
        except OSError:
            # It is full of interrupts that the kernel has not read, or the kernel is dying.
            pass

    def notify(self) -> None:
        """Makes the kernel read its control socket in the middle of a run. Without a handler the signal is ignored."""
        self._signal(signal.SIGURG)

    def kill(self) -> None:
        """Kills only the kernel: child processes of user code continue."""
        self.killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(memoryview(self._outgoing)[: 1 << 18])
        except BlockingIOError:
            return
        except OSError:
            sent = len(self._outgoing)
        del self._outgoing[:sent]
        if not self._outgoing:
            self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        # The size is taken first: output written before the messages read below is then in the pipes and is drained.
        waiting = pending_bytes(self._socket.fileno())
        self.stdout.drain()
        self.stderr.drain()
        try:
            data = self._socket.recv(max(waiting, 1))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket.fileno())
            return
        self._incoming += data
        self._take_messages()

    def _take_messages(self) -> None:
        incoming = self._incoming
        while len(incoming) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(incoming)
            if length > KERNEL_MESSAGE_BYTES:
                self._stop_trusting()
                return
            if len(incoming) < LENGTH.size + length:
                return
            payload = bytes(memoryview(incoming)[LENGTH.size : LENGTH.size + length])
            del incoming[: LENGTH.size + length]
            try:
                message = decode(payload)
                assert isinstance(message, dict)
                self._take(message)
            except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
                self._stop_trusting()
                return

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind in ("stdout", "stderr"):
            # Kernels that cannot see how far a pipe was read send their output here, where it keeps its order.
            pipe = self.stdout if kind == "stdout" else self.stderr
            if pipe.target is not None:
                pipe.target.write(str(message["data"]).encode("utf-8", "replace"))
        else:
            self._owner.on_kernel_message(message)

    def _close_interrupt_pipe(self) -> None:
        if self._interrupt_pipe is not None:
            os.close(self._interrupt_pipe)
            self._interrupt_pipe = None

    def _stop_trusting(self) -> None:
        """User code wrote to the control socket, so no message on it can be trusted."""
        self.untrusted = True
        self._incoming.clear()
        self._signal(signal.SIGKILL)

    def _on_exit(self, code: int) -> None:
        fd = self._socket.fileno()
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        self._outgoing.clear()
        self._read_last_messages()
        self._socket.close()
        self._close_interrupt_pipe()
        self._owner.on_kernel_exit(code)

    def _read_last_messages(self) -> None:
        """Reads messages that the kernel sent before it died, for example the end of its run."""
        while True:
            waiting = pending_bytes(self._socket.fileno())
            self.stdout.drain()
            self.stderr.drain()
            try:
                data = self._socket.recv(waiting) if waiting else b""
            except OSError:
                data = b""
            if not data:
                return
            self._incoming += data
            self._take_messages()
