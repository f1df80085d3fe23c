"""What has to hold when user code starts other processes."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from dormouse_kernel import interrupts, wakes
from dormouse_kernel.control import Control
from dormouse_kernel.streams import Lanes


def name_process(name: str) -> None:
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


def prepare_for_children(control: Control, lanes: Lanes) -> None:
    def in_child() -> None:
        control.leave()
        lanes.enter_child()
        interrupts.restore_in_child()
        wakes.restore_in_child()
        # `pkill python` spares the kernel, not its children.
        name_process(os.path.basename(sys.executable)[:15])

    os.register_at_fork(before=lanes.flush_text, after_in_child=in_child)
    # These start programs without the fork hooks; unfinished lines must still come before their output.
    subprocess._fork_exec = _after(lanes.flush_text, subprocess._fork_exec)  # type: ignore[attr-defined]
    os.posix_spawn = _after(lanes.flush_text, os.posix_spawn)
    os.system = functools.wraps(os.system)(run_in_shell)


def run_in_shell(command: str | bytes) -> int:
    """os.system, except that it can be interrupted: the C function ignores SIGINT while it waits."""
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
