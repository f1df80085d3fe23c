"""The kernel's start and its main loop: one message at a time, in the main thread, no other threads."""

import builtins
import os
import sys
import types
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.ipython_import import import_ipython
from dormouse_kernel.output_streams import OutputStreams

import_ipython()

from dormouse_kernel.cell import CellRunner  # noqa: E402
from dormouse_kernel.children import name_process, prepare_for_children  # noqa: E402
from dormouse_kernel.completion import Completion  # noqa: E402
from dormouse_kernel.figures import Figures  # noqa: E402
from dormouse_kernel.hooks import HookRunner  # noqa: E402
from dormouse_kernel.inspection_requests import InspectionRequests  # noqa: E402
from dormouse_kernel.magics import register_shell_magics  # noqa: E402
from dormouse_kernel.multiprocessing_start import prepare_multiprocessing  # noqa: E402
from dormouse_kernel.preload import preload  # noqa: E402
from dormouse_kernel.questions import Questions  # noqa: E402
from dormouse_kernel.report import remember, report_of  # noqa: E402
from dormouse_kernel.result_data import add_result_data  # noqa: E402
from dormouse_kernel.results import ResultSender  # noqa: E402
from dormouse_kernel.shell import make_shell  # noqa: E402
from dormouse_kernel.user_loop import UserLoop  # noqa: E402
from dormouse_kernel.user_module import UserModule  # noqa: E402
from dormouse_kernel.variables import largest_variables  # noqa: E402
from dormouse_kernel.wakes import Wakes  # noqa: E402


class Kernel:
    def __init__(self, control_fd: int) -> None:
        self._interrupts = Interrupts()
        self._interrupts.establish()
        self._control = Control(control_fd, self._interrupts)
        self._streams = OutputStreams()
        main_module = types.ModuleType("__main__")
        shell = make_shell(main_module)
        sender = ResultSender(self._control, self._streams)
        shell.displayhook.sender = shell.display_pub.sender = sender
        # Never exited: user code always has get_ipython() and IPython's display hook.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        builtins.exit = builtins.quit = shell.exiter
        register_shell_magics(shell)
        self._figures = Figures(shell)
        add_result_data(shell)
        self._namespace: dict[str, Any] = shell.user_ns
        self._inspection = InspectionRequests(self._control, self._namespace, shell.user_ns_hidden)
        self._largest: list[dict[str, Any]] = []
        self._loop = UserLoop(self._interrupts)
        self._cells = CellRunner(shell, self._loop)
        self._user_module = UserModule()
        self._user_module.install()
        hooks = HookRunner(self._control, self._streams, self._interrupts, self._loop, self._user_module)
        self._wakes = Wakes(self._control, self._streams, self._interrupts, hooks, self._user_module)
        self._wakes.establish()
        self._questions = Questions(self._control, self._streams, self._interrupts, self._wakes)
        self._questions.install()
        self._completion = Completion(shell, self._control, self._streams, self._interrupts)
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
        exit_code = self._execute(run_id, code)
        self._interrupts.disarm()
        if self._control.in_child:
            # This is a forked child that returned from the cell.
            self._streams.flush()
            os._exit(exit_code)
        self._interrupts.take_pending()
        self._loop.make_current()
        self._cells.next_cell()
        self._streams.flush()
        self._control.send({"type": "done", "code": exit_code})
        self._report_variables()

    def _report_variables(self) -> None:
        """The agent names them if the next run exhausts the memory. After `done`, so that no caller waits for it."""
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

    def _run_cell(self, code: str) -> None:
        try:
            self._cells.run(code)
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


def main(control_fd: int) -> Any:
    name_process("dormouse-kernel")
    sys.argv = [""]
    Kernel(control_fd).serve()
