"""IPython's shell as the kernel's front."""

from __future__ import annotations

import builtins
from types import ModuleType
from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

from dormouse_kernel.cell import CellRunner
from dormouse_kernel.figures import Figures
from dormouse_kernel.magics import register_shell_magics
from dormouse_kernel.result_data import RESULT_DATA
from dormouse_kernel.results import ResultSender
from dormouse_kernel.shell import make_shell
from dormouse_kernel.user_loop import UserLoop


class IPythonFront:
    def __init__(self, main: ModuleType, sender: ResultSender, loop: UserLoop) -> None:
        shell = make_shell(main)
        shell.displayhook.sender = shell.display_pub.sender = sender
        # Never exited: user code always has get_ipython() and IPython's display hook.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        builtins.exit = builtins.quit = shell.exiter
        register_shell_magics(shell)
        self._shell = shell
        self.figures = Figures(shell, _print_figure)
        _add_result_data(shell)
        self.namespace: dict[str, Any] = shell.user_ns
        self.hidden = shell.user_ns_hidden
        cells = CellRunner(shell, loop)
        self.run = cells.run
        self.rehearse = cells.rehearse
        self.next_cell = cells.next_cell
        self.start_over = cells.start_over

    def complete(self, code: str) -> tuple[list[str], str]:
        with provisionalcompleter():
            completer = self._shell.Completer
            found = list(rectify_completions(code, completer.completions(code, len(code))))
        texts = [one.text for one in found]
        replaces = code[found[0].start :] if found else ""
        if replaces.startswith(".") and all(text.startswith(".") for text in texts):
            # IPython's matches of attributes begin with the dot.
            texts, replaces = [text[1:] for text in texts], replaces[1:]
        return texts, replaces


def _print_figure(figure: Any) -> bytes | None:
    from IPython.core.pylabtools import print_figure

    return print_figure(figure, fmt="png", base64=False)


class DataFormatter(BaseFormatter):
    print_method = ObjectName("_repr_dormouse_data_")
    _return_type = (dict,)


def _add_result_data(shell: Any) -> None:
    for mime, sources in RESULT_DATA.items():
        formatter = type("ResultDataFormatter", (DataFormatter,), {"format_type": Unicode(mime)})
        shell.display_formatter.formatters[mime] = formatter(parent=shell.display_formatter)
        for module, name, describe in sources:
            shell.display_formatter.formatters[mime].for_type_by_name(module, name, describe)
