"""Programs of the sandbox, and what the agent uses where an image has none: see packages/engine-linux/src/runtime."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

RUNTIME_PROGRAMS = "/.dormouse/runtime/bin"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASH = "/bin/bash"
SHELLS = ("bash", BASH, "sh", "/bin/sh")
# Without a PATH, Python does not know its own executable.
OWN_PYTHON = sys.executable or os.readlink("/proc/self/exe")
IS_RUNTIME = OWN_PYTHON.startswith(RUNTIME_PROGRAMS)
# The kernel runs from this version on: with IPython where that loads, else without (dormouse_kernel/plain_front.py).
OLDEST = (3, 9)
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
PYTHON_START_SECONDS = 10.0
TOO_OLD = (
    "{path} is Python {version}, and contexts need {oldest} or later. "
    "Code runs on Dormouse's own Python {own}, which does not see the libraries of the image."
)
BROKEN = (
    "{path} does not start. Code runs on Dormouse's own Python {own}, which does not see the libraries of the image."
)


@dataclass(frozen=True)
class FoundPython:
    path: str
    # Why it is not that of the image, though the image has one.
    note: str | None = None


def with_shell(args: Sequence[str], env: dict[str, str]) -> Sequence[str]:
    """The same command. An image without this shell gets its bash, or the one of the runtime."""
    if args[0] not in SHELLS or shutil.which(args[0], path=env.get("PATH", PATH)) is not None:
        return args
    return [shutil.which("bash", path=PATH) or f"{RUNTIME_PROGRAMS}/bash", *args[1:]]


def login_shell() -> str:
    for shell in (BASH, "/bin/sh"):
        if os.path.exists(shell):
            return shell
    return f"{RUNTIME_PROGRAMS}/bash"


def kernel_python(env: dict[str, str]) -> str:
    """The Python for user code: that of the image, so that code finds the image's packages, or else the runtime's."""
    return find_python(env).path


def find_python(env: dict[str, str]) -> FoundPython:
    return _find_python(env.get("PATH", PATH)) if IS_RUNTIME else FoundPython(OWN_PYTHON)


@lru_cache(maxsize=16)
def _find_python(path: str) -> FoundPython:
    note = None
    for name in ("python3", "python"):
        found = shutil.which(name, path=path)
        if found is None:
            continue
        version = _version_of(found, path)
        if version is not None and version >= OLDEST:
            return FoundPython(found)
        if note is None:
            note = _describe(found, version)
    return FoundPython(OWN_PYTHON, note)


def _describe(found: str, version: tuple[int, ...] | None) -> str:
    own = ".".join(map(str, sys.version_info[:2]))
    if version is None:
        return BROKEN.format(path=found, own=own)
    shown, oldest = (".".join(map(str, each)) for each in (version, OLDEST))
    return TOO_OLD.format(path=found, version=shown, oldest=oldest, own=own)


def _version_of(python: str, path: str) -> tuple[int, ...] | None:
    try:
        ended = subprocess.run(
            [python, "-E", "-S", "-c", VERSION],
            env={"PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PYTHON_START_SECONDS,
            check=True,
        )
        return tuple(int(part) for part in ended.stdout.decode("ascii")[:20].split("."))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
