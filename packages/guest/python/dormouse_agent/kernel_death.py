"""Describes how a kernel ended."""

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
