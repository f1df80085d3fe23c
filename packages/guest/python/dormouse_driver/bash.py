"""bash as a context. It is interactive, because only then an interrupt ends the code and not the shell."""

import shlex

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
EXECUTE = """eval "$(</proc/self/fd/{code_fd})" </dev/null {code_fd}>&- {report_fd}>&- {stderr_fd}>&-
__dormouse_report
"""


class Bash(Interpreter):
    def command(self) -> list[str]:
        return [self.program, "--noprofile", "--norc", "--noediting", "-i"]

    def prepare(self) -> str:
        return PREPARE.format(**self.descriptors)

    def execute(self) -> str:
        return EXECUTE.format(**self.descriptors)

    def set_variables(self, env: dict[str, str], seed: int | None) -> str:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items() if name.isidentifier()]
        return "\n".join(lines if seed is None else [*lines, f"RANDOM={seed}"])
