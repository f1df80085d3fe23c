"""IPython's shell without its terminal, files, threads and colours."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

from IPython.core.autocall import ExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.profiledir import ProfileDir
from traitlets import Type, default, observe
from traitlets.config import Config

from dormouse_kernel.cell_sources import unused_cell_name
from dormouse_kernel.ipython_display import KernelDisplayHook, KernelDisplayPublisher
from dormouse_kernel.report import remember, report_of

BASHES = ("/bin/bash", "/usr/bin/bash", "/.dormouse/runtime/bin/bash")


class Exit(ExitAutocall):
    """exit and quit: end the run, never the kernel."""

    rewrite = False

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)

    def __repr__(self) -> str:
        return "exit() ends this run; the context and its variables stay"


class CellCompiler(CachingCompiler):
    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return unused_cell_name(number)


class NoProfileDir(ProfileDir):
    """IPython would otherwise make a dozen directories in the user's home."""

    @observe("location")
    def _location_changed(self, change: Any) -> None:
        pass


class KernelShell(InteractiveShell):
    displayhook_class = Type(KernelDisplayHook)
    display_pub_class = Type(KernelDisplayPublisher)
    compiler_class = Type(CellCompiler)

    @default("exiter")
    def _exiter_default(self) -> Exit:
        return Exit(self)

    @observe("ipython_dir")
    def _ipython_dir_changed(self, change: Any) -> None:
        pass

    def init_profile_dir(self, profile_dir: Any) -> None:
        self.profile_dir = NoProfileDir(location="/nonexistent")

    def init_user_ns(self) -> None:
        super().init_user_ns()
        # IPython's own open() refuses descriptors 0 to 2.
        self.user_ns.pop("open", None)

    def init_virtualenv(self) -> None:
        pass

    def init_prompts(self) -> None:
        pass

    def init_completer(self) -> None:
        super().init_completer()
        self.Completer.use_jedi = False

    def enable_matplotlib(self, gui: Any = None) -> tuple[str, str]:
        """Ignores the requested backend: figures are always shown on the agg backend."""
        return "inline", "agg"

    def system(self, cmd: str) -> None:
        """The program writes to the kernel's own descriptors, so its output streams and keeps its order."""
        line = self.var_expand(cmd, depth=1)
        code = subprocess.call(line, shell=True, executable=_find_bash())
        self.user_ns["_exit_code"] = code

    def ask_exit(self) -> None:
        raise SystemExit

    # IPython calls these for errors in formatters, magics and nested cells.

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            remember(error)
            print(report_of(error).traceback, end="", file=sys.stderr)

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        self.showtraceback()

    def showindentationerror(self) -> None:
        self.showtraceback()


def _find_bash() -> str | None:
    """That of the sandbox. An image without one has the runtime's, and else what `subprocess` takes."""
    return next((path for path in BASHES if os.path.exists(path)), None)


def make_shell(main: ModuleType) -> KernelShell:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.autocall = 0
    config.InteractiveShell.history_load_length = 0
    config.Completer.use_jedi = False
    return KernelShell.instance(config=config, user_module=main, ipython_dir="/nonexistent")
