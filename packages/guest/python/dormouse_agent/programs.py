"""Programs of the sandbox, and what the agent uses where an image has none: see packages/engine-linux/src/runtime."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache

RUNTIME_PROGRAMS = "/.dormouse/runtime/bin"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASH = "/bin/bash"
# Without a PATH, Python does not know its own executable.
OWN_PYTHON = sys.executable or os.readlink("/proc/self/exe")
IS_RUNTIME = OWN_PYTHON.startswith(RUNTIME_PROGRAMS)
# IPython, which the kernel needs, runs from this version on.
SUPPORTED = "import sys; sys.exit(sys.version_info < (3, 10))"
PYTHON_START_SECONDS = 10.0


def with_shell(args: Sequence[str], env: dict[str, str]) -> Sequence[str]:
    """The same command. An image without bash gets the one of the runtime."""
    if args[0] not in ("bash", BASH) or shutil.which(args[0], path=env.get("PATH", PATH)) is not None:
        return args
    return [shutil.which("bash", path=PATH) or f"{RUNTIME_PROGRAMS}/bash", *args[1:]]


def login_shell() -> str:
    for shell in (BASH, "/bin/sh"):
        if os.path.exists(shell):
            return shell
    return f"{RUNTIME_PROGRAMS}/bash"


def kernel_python(env: dict[str, str]) -> str:
    """The Python for user code: that of the image, so that code finds the image's packages, or else the runtime's."""
    return _find_python(env.get("PATH", PATH)) if IS_RUNTIME else OWN_PYTHON


@lru_cache(maxsize=16)
def _find_python(path: str) -> str:
    for name in ("python3", "python"):
        found = shutil.which(name, path=path)
        if found is not None and _is_supported(found, path):
            return found
    return OWN_PYTHON


def _is_supported(python: str, path: str) -> bool:
    try:
        ended = subprocess.run(
            [python, "-I", "-c", SUPPORTED],
            env={"PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PYTHON_START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
