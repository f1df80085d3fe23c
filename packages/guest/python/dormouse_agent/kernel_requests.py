"""Requests that a kernel answers between runs. No run begins while one is open, so its output is not part of a run."""

import asyncio
from collections.abc import Callable
from typing import Any

from dormouse_agent.kernel_process import KernelProcess

Answer = asyncio.Future[dict[str, Any] | None]


class KernelRequests:
    def __init__(self, loop: asyncio.AbstractEventLoop, on_all_answered: Callable[[], None]) -> None:
        self._loop = loop
        self._on_all_answered = on_all_answered
        self._last_id = 0
        self._open: dict[int, Answer] = {}

    @property
    def any_open(self) -> bool:
        return bool(self._open)

    def unanswered(self) -> list[Answer]:
        return list(self._open.values())

    def send(self, kernel: KernelProcess, message: dict[str, Any], timeout_s: float | None = None) -> Answer:
        """The answer is None when the kernel ends first, or does not answer within `timeout_s`."""
        self._last_id += 1
        request_id = self._last_id
        answer: Answer = self._loop.create_future()
        self._open[request_id] = answer
        kernel.send({**message, "request": request_id})
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, self._close, request_id, None)
            answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def on_answer(self, message: dict[str, Any]) -> None:
        request_id = message["request"]
        assert isinstance(request_id, int)
        self._close(request_id, message)

    def on_kernel_exit(self) -> None:
        for request_id in list(self._open):
            _settle(self._open.pop(request_id), None)

    def _close(self, request_id: int, message: dict[str, Any] | None) -> None:
        answer = self._open.pop(request_id, None)
        if answer is not None:
            _settle(answer, message)
            if not self._open:
                self._on_all_answered()


def _settle(answer: Answer, message: dict[str, Any] | None) -> None:
    # The task that awaits the answer may have been cancelled, which cancels the future.
    if not answer.done():
        answer.set_result(message)
