"""Starts processes for the sandbox: as its user, with its environment, first in line for the OOM killer."""

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dormouse_agent.errors import op_error_of
from dormouse_agent.programs import PATH, login_shell, with_shell
from dormouse_agent.users import User, require_directory

GUARD_LIBRARY = "/.dormouse/lib/libdormouse-guard.so"
# Above the agent's 0: when memory runs out, the OOM killer must not pick the agent.
OOM_SCORE_ADJ = b"500"


@dataclass
class Spawn:
    args: Sequence[str]
    user: User
    env: dict[str, str]
    cwd: str
    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.DEVNULL
    stderr: int = subprocess.DEVNULL
    pass_fds: tuple[int, ...] = ()
    in_child: Callable[[], None] | None = field(default=None)


def base_environment(user: User, sandbox_id: str, *more: dict[str, str]) -> dict[str, str]:
    env = {
        "HOME": user.home,
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": login_shell(),
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONUNBUFFERED": "1",
        # What code leaves behind is what it wrote, not what Python caches beside it.
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        "DORMOUSE_SANDBOX_ID": sandbox_id,
    }
    for added in more:
        env.update(added)
    if os.path.exists(GUARD_LIBRARY):
        # ld.so accepts colons and spaces. Programs that pass on a kernel's environment pass on the guard with it. The
        # guard comes last: it calls the kernel, not the next library, and would hide the stat of fakeroot or faketime.
        given = env.get("LD_PRELOAD", "").replace(" ", ":").split(":")
        others = [name for name in given if name and name != GUARD_LIBRARY]
        env["LD_PRELOAD"] = ":".join([*others, GUARD_LIBRARY])
    return env


def spawn(what: Spawn) -> subprocess.Popen[bytes]:
    """Starts the process in a session of its own, so that signals to its group reach only its children."""
    try:
        require_directory(what.user, what.cwd)
        child = subprocess.Popen(
            with_shell(what.args, what.env),
            stdin=what.stdin,
            stdout=what.stdout,
            stderr=what.stderr,
            cwd=what.cwd,
            env=what.env,
            user=what.user.uid,
            group=what.user.gid,
            extra_groups=what.user.groups,
            start_new_session=True,
            pass_fds=what.pass_fds,
            close_fds=True,
            preexec_fn=what.in_child,
        )
    except OSError as error:
        raise op_error_of(error) from error
    try:
        with open(f"/proc/{child.pid}/oom_score_adj", "wb", buffering=0) as file:
            file.write(OOM_SCORE_ADJ)
    except OSError:
        # The process has already ended.
        pass
    return child
