"""A PTY for a started process."""

import fcntl
import os
import struct
import termios

from dormouse_agent.users import User


def open_terminal(user: User, cols: int, rows: int) -> tuple[int, int]:
    """Returns the agent's end and the process's end."""
    ours, theirs = os.openpty()
    try:
        os.fchown(theirs, user.uid, -1)
        os.fchmod(theirs, 0o620)
        resize_terminal(ours, cols, rows)
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    return ours, theirs


def resize_terminal(fd: int, cols: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def take_control() -> None:
    """Runs in the child, a session leader: gives it job control and Ctrl-C."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
