"""Runs a program in a pseudo-terminal of its own: what is typed comes as JSON lines, what is shown goes out as it is."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios


def resize(terminal: int, rows: int, cols: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def modes(terminal: int) -> dict[str, bool]:
    local = termios.tcgetattr(terminal)[3]
    return {"echo": bool(local & termios.ECHO), "canonical": bool(local & termios.ICANON)}


def main() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    rows, cols = os.environ.get("TEST_TERMINAL_SIZE", "24 80").split()
    resize(terminal, int(rows), int(cols))
    rest = b""
    while True:
        ready, _, _ = select.select([terminal, 0], [], [])
        if terminal in ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                data = b""
            if not data:
                break
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                os.kill(pid, signal.SIGHUP)
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "type" in order:
                    os.write(terminal, order["type"].encode())
                elif "size" in order:
                    resize(terminal, *order["size"])
                elif "signal" in order:
                    os.kill(pid, getattr(signal, order["signal"]))
                elif "hang_up" in order:
                    # The kernel sends SIGHUP to the program, unless the terminal does not control it.
                    os.close(terminal)
                    return wait(pid)
                elif "modes" in order:
                    print(json.dumps({"modes": modes(terminal)}), file=sys.stderr, flush=True)
    wait(pid)


def wait(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), file=sys.stderr, flush=True)


main()
