"""Prepares the kernel for child processes that user code starts."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from dormouse_kernel import interrupts, wakes
from dormouse_kernel.control import Control
from dormouse_kernel.output_streams import OutputStreams


def name_process(name: str) -> None:
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


def prepare_for_children(control: Control, streams: OutputStreams) -> None:
    def in_child() -> None:
        control.leave()
        streams.enter_child()
        interrupts.restore_in_child()
        wakes.restore_in_child()
        # The kernel's own name protects it from `pkill python`; its children do not need that.
        name_process(os.path.basename(sys.executable)[:15])

    os.register_at_fork(before=streams.flush_text, after_in_child=in_child)
    # These start programs without running fork hooks. Buffered text must still come before the program's output.
    # Before Python 3.11, `subprocess` calls it by another name.
    has_name = hasattr(subprocess, "_fork_exec")
    owner: Any = subprocess if has_name else sys.modules["_posixsubprocess"]
    name = "_fork_exec" if has_name else "fork_exec"
    setattr(owner, name, _after(streams.flush_text, getattr(owner, name)))
    os.posix_spawn = _after(streams.flush_text, os.posix_spawn)
    os.system = functools.wraps(os.system)(run_in_shell)


def run_in_shell(command: str | bytes) -> int:
    """Replaces os.system, which ignores SIGINT while it waits."""
    sys.audit("os.system", command)
    child = subprocess.Popen(command, shell=True, close_fds=False)
    try:
        code = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    return code << 8 if code >= 0 else -code


def _after(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(then)
    def both(*args: Any, **kwargs: Any) -> Any:
        first()
        return then(*args, **kwargs)

    return both
