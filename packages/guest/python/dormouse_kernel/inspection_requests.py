"""Answers what the agent asks about variables. Runs no user code, so it needs neither interrupts nor a time limit."""

import gc
from collections.abc import Callable
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.inspection.variable_list import list_variables
from dormouse_kernel.inspection.variable_rows import RowReader


class InspectionRequests:
    def __init__(self, control: Control, namespace: dict[str, Any], hidden: dict[str, Any]) -> None:
        self._control = control
        self._namespace = namespace
        self._hidden = hidden
        self._rows = RowReader()

    def list(self, message: dict[str, Any]) -> None:
        self._answer(message, lambda: list_variables(self._namespace, self._hidden))

    def rows(self, message: dict[str, Any]) -> None:
        self._answer(message, lambda: self._rows.read(self._namespace, message))

    def forget(self) -> None:
        self._rows.forget()

    def _answer(self, message: dict[str, Any], look: Callable[[], dict[str, Any]]) -> None:
        # A collection would call finalizers of user code.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            found = look()
        except (Exception, MemoryError) as error:  # noqa: BLE001 - looking must not end the kernel
            found = {"error": "conflict", "message": f"the variables could not be read: {type(error).__name__}"}
        finally:
            if was_enabled:
                gc.enable()
        self._control.send({"type": "answer", "request": message["request"], **found})
