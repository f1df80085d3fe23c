"""What a kernel is asked between runs. No run begins before it has answered, so its output is not a run's."""

import asyncio
from collections.abc import Callable
from typing import Any

from dormouse_agent.kernel_process import KernelProcess

Answer = asyncio.Future[dict[str, Any] | None]


class KernelQuestions:
    def __init__(self, loop: asyncio.AbstractEventLoop, on_all_answered: Callable[[], None]) -> None:
        self._loop = loop
        self._on_all_answered = on_all_answered
        self._last = 0
        self._open: dict[int, Answer] = {}

    @property
    def open(self) -> bool:
        return bool(self._open)

    def ask(self, kernel: KernelProcess, message: dict[str, Any], limit_s: float | None = None) -> Answer:
        """The answer is None when the kernel ends first, or takes longer than the limit."""
        self._last += 1
        number = self._last
        answer: Answer = self._loop.create_future()
        self._open[number] = answer
        kernel.send({**message, "question": number})
        if limit_s is not None:
            timer = self._loop.call_later(limit_s, self._close, number, None)
            answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def answered(self, message: dict[str, Any]) -> None:
        number = message["question"]
        assert isinstance(number, int)
        self._close(number, message)

    def give_up(self) -> None:
        """The kernel has ended."""
        for number in list(self._open):
            _settle(self._open.pop(number), None)

    def _close(self, number: int, message: dict[str, Any] | None) -> None:
        answer = self._open.pop(number, None)
        if answer is not None:
            _settle(answer, message)
            if not self._open:
                self._on_all_answered()


def _settle(answer: Answer, message: dict[str, Any] | None) -> None:
    # Whoever waited may have been cancelled.
    if not answer.done():
        answer.set_result(message)
