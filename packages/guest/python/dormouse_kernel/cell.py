"""Executes the code of one run: resolves magics, compiles, executes, shows the value of the last expression."""

import ast
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from IPython.core.autocall import IPyAutocall
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from dormouse_kernel.cell_execution import as_syntax_error, execute, large_without_gc, may_hold_magics
from dormouse_kernel.cell_sources import CellSources, unused_cell_name
from dormouse_kernel.definitions import record_definitions
from dormouse_kernel.limits import NAMED_INPUTS, REHEARSED, TRANSFORM_CHARS
from dormouse_kernel.shell import KernelShell
from dormouse_kernel.user_loop import UserLoop


class CellRunner:
    def __init__(self, shell: KernelShell, loop: UserLoop) -> None:
        self._shell = shell
        self._loop = loop
        # Reading these from the shell is slow, because they are traits. They stay the same objects.
        self._namespace: dict[str, Any] = shell.user_ns
        self._parsed = shell.history_manager.input_hist_parsed
        self._raw = shell.history_manager.input_hist_raw
        self._callbacks = shell.events.callbacks
        self._recent = ("", "", "")
        self._sources = CellSources()
        shell.events.unregister("pre_execute", shell._clear_warning_registry)

    def run(self, code: str) -> None:
        """Raises what the code raises."""
        shell = self._shell
        name = unused_cell_name(shell.execution_count)
        with large_without_gc(code):
            parts = self._prepare(code, name)
        self._namespace.pop("__warningregistry__", None)
        info = ExecutionInfo(code, True, False, True, None)
        self._trigger("pre_execute")
        self._trigger("pre_run_cell", info)
        try:
            for compiled, shows in parts:
                value = execute(compiled, self._namespace, self._loop)
                if shows:
                    shell.displayhook(value)
        finally:
            self._trigger("post_execute")
            self._trigger("post_run_cell", ExecutionResult(info))

    def _prepare(self, code: str, name: str) -> list[tuple[CodeType, bool]]:
        try:
            source, tree = self._parse(code, name)
        except SyntaxError as error:
            self._sources.add(name, code if error.filename == name else "")
            self._record(code, code)
            raise
        self._sources.add(name, source)
        self._record(source, code)
        record_definitions(tree, source)
        tree = self._shell.transform_ast(tree)
        try:
            return self._compiled(tree, name)
        except SyntaxError as error:
            # The compiler has only the tree and cannot quote the line.
            error.text = error.text or linecache.getline(name, error.lineno or 0)
            raise

    def rehearse(self) -> None:
        shell = self._shell
        if shell.ast_transformers or self._is_shorthand(REHEARSED):
            return
        name = unused_cell_name(shell.execution_count)
        _, tree = self._parse(REHEARSED, name)
        namespace: dict[str, Any] = {}
        for compiled, _shows in self._compiled(tree, name):
            execute(compiled, namespace, self._loop)

    def next_cell(self) -> None:
        self._shell.execution_count += 1

    def start_over(self) -> None:
        shell = self._shell
        shell.displayhook.flush()
        shell.history_manager.reset()
        shell.execution_count = 1
        self._recent = ("", "", "")
        self._sources.drop_all()

    def _parse(self, code: str, name: str) -> tuple[str, ast.Module]:
        shell = self._shell
        try:
            tree = self._with_await(lambda: shell.compile.ast_parse(code, name))
        except (SyntaxError, ValueError) as error:
            if len(code) > TRANSFORM_CHARS and not may_hold_magics(code):
                raise as_syntax_error(error) from None
        else:
            if len(code) > TRANSFORM_CHARS or not self._is_shorthand(code):
                return code, tree
        source = shell.transform_cell(code)
        try:
            return source, self._with_await(lambda: shell.compile.ast_parse(source, name))
        except ValueError as error:
            raise as_syntax_error(error) from None

    def _is_shorthand(self, code: str) -> bool:
        """Whether IPython gives valid Python another meaning: `ls`, `cd ..`, a bare `exit`."""
        shell = self._shell
        if shell.input_transformers_post or shell.input_transformers_cleanup != self._cleanup_at_start:
            return True
        stripped = code.strip()
        if "\n" in stripped:
            return False
        word = stripped.split(None, 1)[0] if stripped else ""
        if not word.isidentifier():
            return False
        if word in shell.user_ns:
            return isinstance(shell.user_ns[word], IPyAutocall)
        return shell.find_line_magic(word) is not None or shell.alias_manager.is_alias(word)

    @property
    def _cleanup_at_start(self) -> list[Any]:
        return self._shell.input_transformer_manager.cleanup_transforms

    def _with_await(self, compile_: Callable[[], Any]) -> Any:
        compiler = self._shell.compile
        had = compiler.flags & ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            return compile_()
        finally:
            if not had:
                compiler.flags &= ~ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def _compiled(self, tree: ast.Module, name: str) -> list[tuple[CodeType, bool]]:
        """Compiles all parts before the first one runs, so that a compile error changes nothing."""
        body = tree.body
        if self._shell.ast_node_interactivity == "all":
            groups = [[node] for node in body]
        else:
            groups = [body[:-1], body[-1:]] if body and isinstance(body[-1], ast.Expr) else [body]
        parts = []
        compiler = self._shell.compile
        for group in groups:
            shows = len(group) == 1 and isinstance(group[0], ast.Expr) and group is groups[-1]
            if self._shell.ast_node_interactivity == "all":
                shows = isinstance(group[0], ast.Expr)
            if shows:
                expression = ast.Expression(group[0].value)
                parts.append((self._with_await(lambda: compiler(expression, name, "eval")), True))
            elif group:
                module = ast.Module(group, [])
                parts.append((self._with_await(lambda: compiler(module, name, "exec")), False))
        return parts

    def _record(self, source: str, raw: str) -> None:
        """Updates In, _ih, _i, _ii and _iii."""
        namespace = self._namespace
        self._parsed.append(source)
        self._raw.append(raw)
        namespace["_i"], namespace["_ii"], namespace["_iii"] = self._recent
        count = self._shell.execution_count
        namespace[f"_i{count}"] = raw
        # `In` has them all. A name for each of thousands of runs would slow down everything that looks at all names.
        namespace.pop(f"_i{count - NAMED_INPUTS}", None)
        self._recent = (raw, *self._recent[:2])

    def _trigger(self, event: str, *args: Any) -> None:
        if self._callbacks[event]:
            self._shell.events.trigger(event, *args)
