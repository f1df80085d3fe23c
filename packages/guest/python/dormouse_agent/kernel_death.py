"""Describes how a kernel ended."""

from typing import Any

from dormouse_agent.limits import LARGEST_VARIABLES, VARIABLE_NAME_CHARS
from dormouse_agent.reaper import signal_name

# The OOM kill counters of cgroup v2 and v1.
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def oom_kills() -> int | None:
    for path in OOM_COUNTERS:
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return None


def describe_death(code: int, oom_kills_before: int | None) -> str:
    name = signal_name(code)
    if name is None:
        return f"the kernel exited with code {code}"
    if name != "SIGKILL":
        return f"the kernel was ended by {name}"
    now = oom_kills()
    if now is not None and oom_kills_before is not None and now > oom_kills_before:
        return "the kernel was ended by SIGKILL because the sandbox ran out of memory"
    return "the kernel was ended by SIGKILL, possibly out of memory"


def describe_variables(message: dict[str, Any]) -> str:
    """The largest variables that a kernel reported, in words. User code may have written the message."""
    largest = message["largest"]
    assert isinstance(largest, list)
    return ", ".join(_describe_variable(one) for one in largest[:LARGEST_VARIABLES])


def _describe_variable(variable: dict[str, Any]) -> str:
    name, kind = (str(variable[key])[:VARIABLE_NAME_CHARS] for key in ("name", "type"))
    mebibytes = min(int(variable["bytes"]), 2**62) // 2**20
    return f"{name} ({kind}, {mebibytes} MiB)"
