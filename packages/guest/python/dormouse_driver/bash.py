"""bash as a context. It is interactive, because only then an interrupt ends the code and not the shell."""

import os
import re
import shlex
import subprocess
from typing import Any

from dormouse_driver.interpreter import Interpreter

# `exit` ends the run, and in a subshell the subshell. The signal unwinds to the next command of the driver; bash then
# writes an empty line to stderr.
PREPARE = """
PS1= PS2=
set +o history +H
unset DORMOUSE_KEEP_AWAKE
exit() {{
  [ "$BASHPID" = "$$" ] || builtin exit "$@"
  __dormouse_exit=${{1:-0}}
  exec 2>/dev/null
  kill -INT "$$"
  while :; do :; done
}}
__dormouse_report() {{
  local status=$?
  [ -z "$__dormouse_exit" ] || exec 2>&{stderr_fd}
  printf '%s\\0' "${{__dormouse_exit:-$status}}" >&{report_fd}
  unset __dormouse_exit
}}
exec 2>&{stderr_fd}
__dormouse_report
"""
# Programs that the code starts do not get the descriptors of the driver.
EXECUTE = """eval "$(</proc/self/fd/{code_fd})" </dev/null {code_fd}>&- {report_fd}>&- {stderr_fd}>&- {variables_fd}>&-
__dormouse_report
"""
# In a subshell, where no trap of the user runs. The limit, in KiB, ends it when there is more than a list shows.
VARIABLES = """( builtin trap '' XFSZ; builtin ulimit -f 1024; builtin declare -p ) >&{variables_fd} 2>/dev/null
__dormouse_report
"""
DECLARED = re.compile(r"declare -(\S+) ([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?", re.DOTALL)
VARIABLES_MAX = 500
VARIABLES_BYTES = 1 << 20
PREVIEW_CHARS = 120
# Beside those that a new bash has: what an interactive one and the driver set.
INTERACTIVE = {"FUNCNAME", "HISTFILE", "HISTFILESIZE", "HISTSIZE", "MAILCHECK", "PS1", "PS2", "COLUMNS", "LINES"}
OWN_NAMES = frozenset({"BASHPID", "OLDPWD", "PIPESTATUS", "REPLY", "_", *INTERACTIVE})


class Bash(Interpreter):
    lists_variables = True

    def command(self) -> list[str]:
        return [self.program, "--noprofile", "--norc", "--noediting", "-i"]

    def prepare(self) -> str:
        return PREPARE.format(**self.descriptors)

    def execute(self) -> str:
        return EXECUTE.format(**self.descriptors)

    def set_variables(self, env: dict[str, str], seed: int | None) -> str:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items() if name.isidentifier()]
        return "\n".join(lines if seed is None else [*lines, f"RANDOM={seed}"])

    def dump_variables(self) -> str:
        return VARIABLES.format(**self.descriptors)

    def variables(self) -> dict[str, Any]:
        text = os.pread(self.variables_fd, VARIABLES_BYTES, 0).decode(errors="replace")
        os.ftruncate(self.variables_fd, 0)
        known = self._names_of_new_bash()
        found = []
        # A value may have lines that look like a declaration: bash writes them within quotes.
        for entry in re.split(r"\n(?=declare -\S+ [A-Za-z_])", text):
            match = DECLARED.fullmatch(entry.rstrip("\n"))
            if match is not None and match[2] not in known and not match[2].startswith("__dormouse"):
                found.append(_described(match[2], match[1], match[3] or ""))
        return {"variables": found[:VARIABLES_MAX], "more": len(found) > VARIABLES_MAX or len(text) >= VARIABLES_BYTES}

    def _names_of_new_bash(self) -> frozenset[str]:
        """What bash and the environment define: not the work of the user."""
        command = [self.program, "--noprofile", "--norc", "-c", "compgen -v"]
        try:
            names = subprocess.run(command, capture_output=True, timeout=1, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            return OWN_NAMES
        return OWN_NAMES | frozenset(names.decode(errors="replace").split())


def _described(name: str, flags: str, value: str) -> dict[str, Any]:
    kind = "array" if "a" in flags else "map" if "A" in flags else "integer" if "i" in flags else "string"
    preview = value if len(value) <= PREVIEW_CHARS else value[: PREVIEW_CHARS - 1] + "…"
    found: dict[str, Any] = {"name": name[:100], "type": kind, "preview": preview, "bytes": len(value.encode())}
    if kind in ("array", "map"):
        found["shape"] = [len(re.findall(r"\[[^\]]*\]=", value))]
    return found
