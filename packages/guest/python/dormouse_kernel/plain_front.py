"""The kernel's front where IPython cannot be loaded: the same cells, results and figures, without magics."""

from __future__ import annotations

import __future__
import ast
import builtins
import io
import linecache
import re
import rlcompleter
import sys
from types import CodeType, ModuleType
from typing import Any

from dormouse_kernel.cell_execution import as_syntax_error, execute, large_without_gc, may_hold_magics
from dormouse_kernel.cell_sources import CellSources, unused_cell_name
from dormouse_kernel.definitions import record_definitions
from dormouse_kernel.figures import Figures
from dormouse_kernel.limits import REHEARSED
from dormouse_kernel.plain_display import PlainDisplay
from dormouse_kernel.result_data import RESULT_DATA
from dormouse_kernel.results import ResultSender
from dormouse_kernel.user_loop import UserLoop

FUTURES = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
NAME_AT_END = re.compile(r"[^\W\d][\w.]*$")


class PlainFront:
    def __init__(self, main: ModuleType, sender: ResultSender, loop: UserLoop) -> None:
        self._loop = loop
        self._sender = sender
        self._sources = CellSources()
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._number = 1
        self._display = PlainDisplay(sender)
        for mime, sources in RESULT_DATA.items():
            for module, name, describe in sources:
                self._display.formatters[mime].for_type_by_name(module, name, describe)
        self.figures = Figures(self._display, _print_figure)
        sys.modules["__main__"] = main
        main.__dict__.setdefault("__builtins__", builtins)
        self.namespace: dict[str, Any] = main.__dict__
        self.hidden: Any = dict(main.__dict__)
        builtins.exit = builtins.quit = Exit()
        builtins.display = self._display.display  # type: ignore[attr-defined]

    def run(self, code: str) -> None:
        with large_without_gc(code):
            parts = self._prepare(code, unused_cell_name(self._number))
        self.namespace.pop("__warningregistry__", None)
        for compiled, shows in parts:
            value = execute(compiled, self.namespace, self._loop)
            if shows and value is not None:
                self._show(value)

    def rehearse(self) -> None:
        name = unused_cell_name(self._number)
        tree = compile(REHEARSED, name, "exec", self._flags | ast.PyCF_ONLY_AST, True)
        namespace: dict[str, Any] = {}
        for compiled, _shows in self._compiled(tree, name):
            execute(compiled, namespace, self._loop)

    def next_cell(self) -> None:
        self._number += 1

    def start_over(self) -> None:
        self._sources.drop_all()
        self._number = 1

    def complete(self, code: str) -> tuple[list[str], str]:
        found = NAME_AT_END.search(code)
        if found is None:
            return [], ""
        word = found.group()
        completer = rlcompleter.Completer(self.namespace)
        matches = completer.attr_matches(word) if "." in word else completer.global_matches(word)
        before = word.rfind(".") + 1
        return [text[before:].rstrip("( :") for text in matches], word[before:]

    def _prepare(self, code: str, name: str) -> list[tuple[CodeType, bool]]:
        self._sources.add(name, code)
        try:
            tree = compile(code, name, "exec", self._flags | ast.PyCF_ONLY_AST, True)
            record_definitions(tree, code)
            return self._compiled(tree, name)
        except (SyntaxError, ValueError) as error:
            failed = as_syntax_error(error)
            failed.text = failed.text or linecache.getline(name, failed.lineno or 0)
            if may_hold_magics(code):
                failed.msg = f"{failed.msg} (magics and ! need IPython, which this Python cannot load)"
            raise failed from None

    def _compiled(self, tree: ast.Module, name: str) -> list[tuple[CodeType, bool]]:
        """Compiles all parts before the first one runs, so that a compile error changes nothing."""
        last = tree.body[-1] if tree.body else None
        shown = last if isinstance(last, ast.Expr) else None
        before = ast.Module(tree.body[:-1] if shown else tree.body, [])
        parts = [(compile(before, name, "exec", self._flags, True), False)]
        if shown:
            self._keep_futures(parts[0][0])
            parts.append((compile(ast.Expression(shown.value), name, "eval", self._flags, True), True))
        self._keep_futures(parts[0][0])
        return parts

    def _keep_futures(self, compiled: CodeType) -> None:
        """`from __future__ import …` counts in the cells after it, as at a prompt."""
        for flag in FUTURES:
            self._flags |= compiled.co_flags & flag

    def _show(self, value: Any) -> None:
        names = self.namespace
        names["_"], names["__"], names["___"] = value, names.get("_"), names.get("__")
        data, _ = self._display.format(value)
        self._sender.send(data, main=True)


class Exit:
    """exit and quit: end the run, never the kernel."""

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)

    def __repr__(self) -> str:
        return "exit() ends this run; the context and its variables stay"


def _print_figure(figure: Any) -> bytes | None:
    if not figure.axes and not figure.lines:
        return None
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=figure.dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
    return target.getvalue()
