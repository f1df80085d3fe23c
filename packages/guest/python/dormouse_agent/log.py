"""The agent's log: a file in the sandbox that is open only during a write.

Every wake restores a file that is open for writing, and overlayfs then copies it and waits for the disk.
"""

import io
import os
import sys

PATH = "/var/log/dormouse-agent.log"
# Sandbox code may have put anything there: follow no link, and wait for no pipe.
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Log(io.TextIOBase):
    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        try:
            fd = os.open(PATH, FLAGS, 0o600)
            try:
                os.write(fd, text.encode("utf-8", "replace"))
            finally:
                os.close(fd)
        except OSError:
            # A full disk must not stop the agent.
            pass
        return len(text)


def close_log() -> None:
    """From here on `sys.stderr` writes to the log file. Writes to descriptors 1 and 2 are discarded."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)
    sys.stdout = sys.stderr = Log()
