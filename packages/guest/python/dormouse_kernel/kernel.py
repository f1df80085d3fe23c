"""The kernel's start and its main loop: one message at a time, in the main thread, no other threads."""

from __future__ import annotations

import gc
import os
import sys
import types
from typing import Any

from dormouse_gather import CodeGatherer
from dormouse_kernel.children import name_process, prepare_for_children
from dormouse_kernel.chosen_front import WHY_PLAIN, ChosenFront
from dormouse_kernel.completion import Completion
from dormouse_kernel.control import Control
from dormouse_kernel.definitions import forget_definitions
from dormouse_kernel.hooks import HookRunner
from dormouse_kernel.inspection_requests import InspectionRequests
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.multiprocessing_start import prepare_multiprocessing
from dormouse_kernel.output_streams import OutputStreams
from dormouse_kernel.preload import preload, settle
from dormouse_kernel.questions import Questions
from dormouse_kernel.report import remember, report_of
from dormouse_kernel.results import ResultSender
from dormouse_kernel.user_loop import UserLoop
from dormouse_kernel.user_module import UserModule
from dormouse_kernel.variables import largest_variables
from dormouse_kernel.wakes import Wakes

PLAIN = (
    "IPython does not load in this Python ({version}: {why}). Code runs without it: "
    "there are no magics and no ! commands."
)


class Kernel:
    def __init__(self, control_fd: int, notes: list[str]) -> None:
        # Shown with the first run, to the person who can do something about them.
        self._notes = notes
        if WHY_PLAIN is not None:
            self._notes.append(PLAIN.format(version=sys.version.split()[0], why=WHY_PLAIN))
        self._interrupts = Interrupts()
        self._interrupts.establish()
        self._control = Control(control_fd, self._interrupts)
        self._streams = OutputStreams()
        self._loop = UserLoop(self._interrupts)
        sender = ResultSender(self._control, self._streams)
        self._front = ChosenFront(types.ModuleType("__main__"), sender, self._loop)
        self._figures = self._front.figures
        self._namespace = self._front.namespace
        self._inspection = InspectionRequests(self._control, self._namespace, self._front.hidden)
        self._names_at_start = dict(self._namespace)
        self._gatherer = CodeGatherer()
        self._largest: list[dict[str, Any]] = []
        self._user_module = UserModule()
        self._user_module.install()
        hooks = HookRunner(self._control, self._streams, self._interrupts, self._loop, self._user_module)
        self._wakes = Wakes(self._control, self._streams, self._interrupts, hooks, self._user_module)
        self._wakes.establish()
        self._questions = Questions(self._control, self._streams, self._interrupts, self._wakes)
        self._questions.install()
        self._completion = Completion(self._front, self._control, self._streams, self._interrupts)
        prepare_for_children(self._control, self._streams)
        prepare_multiprocessing()

    def serve(self) -> None:
        self._control.send({"type": "ready"})
        while True:
            self._wakes.finish()
            if not self._control.waiting:
                self._loop.idle_until_readable(self._control.fileno())
            message = self._control.receive()
            if message is None:
                os._exit(0)
            kind = message["type"]
            if kind == "run":
                self._questions.are_answered = message["input"]
                self._run(message["id"], message["code"])
                self._questions.are_answered = False
            elif kind == "env":
                self._user_module.update_environment(message["env"])
            elif kind == "wake":
                self._wakes.take(message)
            elif kind == "preload":
                self._preload(message)
            elif kind == "settle":
                self._settle(message)
            elif kind == "rehearse":
                self._rehearse(message)
            elif kind == "complete":
                self._completion.answer(message)
            elif kind == "variables":
                self._inspection.list(message)
            elif kind == "rows":
                self._inspection.rows(message)

    def _run(self, run_id: str, code: str) -> None:
        self._streams.repair()
        self._inspection.forget()
        self._interrupts.establish()
        self._wakes.establish()
        self._show_notes()
        exit_code = self._execute(run_id, code)
        self._interrupts.disarm()
        if self._control.in_child:
            # This is a forked child that returned from the cell.
            self._streams.flush()
            os._exit(exit_code)
        self._interrupts.take_pending()
        self._loop.make_current()
        self._streams.flush()
        self._control.send({"type": "done", "code": exit_code})
        # The caller has its answer and does not wait for what follows.
        self._front.next_cell()
        self._report_variables()

    def _show_notes(self) -> None:
        for note in self._notes:
            print(f"dormouse: {note}", file=sys.stderr)
        self._notes.clear()

    def _report_variables(self) -> None:
        """The agent names them if the next run exhausts the memory."""
        largest = largest_variables(self._namespace)
        if largest != self._largest:
            self._largest = largest
            self._control.send({"type": "variables", "largest": largest})

    def _execute(self, run_id: str, code: str) -> int:
        try:
            try:
                self._interrupts.arm()
                if self._interrupts.take_pending() and self._control.has_interrupt(run_id):
                    raise KeyboardInterrupt
                self._wakes.enter_run()
                self._run_cell(code)
                return 0
            finally:
                self._interrupts.disarm()
                self._wakes.leave_run()
        except SystemExit as error:
            return _exit_code(error)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            self._report(error)
            return 1

    def _preload(self, message: dict[str, Any]) -> None:
        self._control.wait_until_read()
        failed = preload(message["modules"])
        self._loop.make_current()
        self._streams.flush()
        self._control.send({"type": "answer", "request": message["request"], "failed": failed})

    def _settle(self, message: dict[str, Any]) -> None:
        self._control.wait_until_read()
        self._front.start_over()
        self._namespace.clear()
        self._namespace.update(self._names_at_start)
        forget_definitions()
        gc.unfreeze()
        if message["gather"]:
            self._gatherer.gather()
        else:
            self._gatherer.remember()
        settle()
        self._control.send({"type": "answer", "request": message["request"]})

    def _rehearse(self, message: dict[str, Any]) -> None:
        try:
            self._front.rehearse()
            self._report_variables()
        except Exception:  # noqa: BLE001 - user code may have changed IPython, and nothing is lost without a rehearsal
            pass
        self._control.send({"type": "answer", "request": message["request"]})

    def _run_cell(self, code: str) -> None:
        try:
            self._front.run(code)
        except KeyboardInterrupt:
            self._figures.close_open()
            raise
        except BaseException:
            self._show_figures()
            raise
        self._show_figures()

    def _show_figures(self) -> None:
        if not self._control.in_child:
            self._figures.show_open()

    def _report(self, error: BaseException) -> None:
        remember(error)
        report = report_of(error)
        try:
            sys.stderr.write(report.traceback)
        except Exception:  # noqa: BLE001 - user code may have replaced stderr
            self._streams.stderr.write(report.traceback)
        self._streams.flush()
        self._control.send(
            {"type": "error", "name": report.name, "message": report.message, "traceback": report.traceback}
        )


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def main(control_fd: int, notes: list[str]) -> Any:
    name_process("dormouse-kernel")
    sys.argv = [""]
    Kernel(control_fd, notes).serve()
