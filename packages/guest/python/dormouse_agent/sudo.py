"""Starts programs as root for the default user: `no_new_privs` keeps set-user-ID programs from doing it.

A client (`dormouse_sudo.py`) passes its standard streams and says what to start. Then each byte that it sends is a
signal for the program, and the one line that it gets is the exit code.
"""

import json
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, Any

from dormouse_agent.errors import OpError
from dormouse_agent.reaper import exit_code_of
from dormouse_agent.spawn import Spawn, base_environment, spawn
from dormouse_agent.users import get_user

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# Abstract: there is no file that code could replace, and the agent has the name before any code runs.
ADDRESS = "\0dormouse-sudo"
REQUEST_BYTES = 256 * 1024
STREAMS = 3
CREDENTIALS = struct.Struct("3i")
FORWARDED = frozenset((signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2))


def serve_sudo(agent: "Agent") -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    listener.bind(ADDRESS)
    listener.listen(64)
    agent.loop.add_reader(listener.fileno(), _accept, agent, listener)


def _accept(agent: "Agent", listener: socket.socket) -> None:
    try:
        client, _ = listener.accept()
    except OSError:
        return
    client.setblocking(False)
    SudoClient(agent, client)


class SudoClient:
    def __init__(self, agent: "Agent", client: socket.socket) -> None:
        self._agent = agent
        self._client = client
        self._pid: int | None = None
        agent.loop.add_reader(client.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            data, streams, _, _ = socket.recv_fds(self._client, REQUEST_BYTES, STREAMS)
        except BlockingIOError:
            return
        except OSError:
            data, streams = b"", []
        try:
            if not data:
                self._close()
            elif self._pid is not None:
                self._forward(data)
            else:
                self._start(data, streams)
        finally:
            for fd in streams:
                os.close(fd)

    def _start(self, data: bytes, streams: list[int]) -> None:
        try:
            self._pid = self._spawn(json.loads(data), streams)
        except (OpError, ValueError, KeyError, TypeError, OSError) as error:
            self._answer({"error": str(error)})

    def _spawn(self, request: dict[str, Any], streams: list[int]) -> int:
        _, uid, _ = CREDENTIALS.unpack(self._client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        if uid not in (0, self._agent.default_user.uid):
            raise OpError("permission_denied", "only the default user of the sandbox may use sudo")
        if len(streams) != STREAMS:
            raise ValueError("the standard streams are missing")
        user = get_user(str(request["user"]))
        args = [str(arg) for arg in request["args"]]
        given = {str(name): str(value) for name, value in request["env"].items()}
        env = base_environment(user, self._agent.sandbox_id, self._agent.env, given)
        program = Spawn(args, user, env, str(request["cwd"]), *streams)
        child = spawn(program)
        self._agent.reaper.watch(child, self._on_exit)
        return child.pid

    def _forward(self, data: bytes) -> None:
        for number in data:
            if number not in FORWARDED or self._pid is None:
                continue
            try:
                os.killpg(self._pid, number)
            except ProcessLookupError:
                pass

    def _on_exit(self, code: int) -> None:
        self._answer({"exitCode": exit_code_of(code)})

    def _answer(self, answer: dict[str, Any]) -> None:
        try:
            self._client.send(json.dumps(answer).encode())
        except OSError:
            # The client has been killed.
            pass
        self._close()

    def _close(self) -> None:
        if self._client.fileno() < 0:
            return
        self._agent.loop.remove_reader(self._client.fileno())
        self._client.close()
