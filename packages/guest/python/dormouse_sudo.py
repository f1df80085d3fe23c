"""sudo for sandboxes: asks the agent to start a program as another user, without a password."""

import json
import os
import signal
import socket
import sys

ADDRESS = "\0dormouse-sudo"
ANSWER_BYTES = 64 * 1024
USAGE = "usage: sudo [-EHiknSs] [-u user] [VAR=value] [command [arg ...]]"
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
# Options without effect here: there is no password, nothing is cached, and HOME is always that of the target.
IGNORED = frozenset("AbBHknPS")
LONG = {
    "--preserve-env": "E",
    "--login": "i",
    "--shell": "s",
    "--non-interactive": "n",
    "--stdin": "S",
    "--set-home": "H",
    "--reset-timestamp": "k",
    "--validate": "v",
    "--list": "l",
}


class Request:
    def __init__(self) -> None:
        self.user = "root"
        self.options: set[str] = set()
        self.env: dict[str, str] = {}
        self.args: list[str] = []


def fail(message: str) -> int:
    print(f"sudo: {message}", file=sys.stderr)
    return 1


def parse(argv: list[str]) -> Request:
    request = Request()
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        if option.startswith("--"):
            name, _, value = option.partition("=")
            if name == "--user":
                request.user = value or rest.pop(0)
            elif name == "--preserve-env" and value:
                request.env.update({key: os.environ[key] for key in value.split(",") if key in os.environ})
            elif name in LONG:
                request.options.add(LONG[name])
            else:
                raise ValueError(USAGE)
            continue
        letters = option[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in "ugpCDhrRtTU":
                value = letters or rest.pop(0)
                letters = ""
                if letter == "u":
                    request.user = value
            elif letter in "Eislv" or letter in IGNORED:
                request.options.add(letter)
            else:
                raise ValueError(USAGE)
    while rest and "=" in rest[0] and not rest[0].startswith(("/", "=")):
        name, _, value = rest.pop(0).partition("=")
        request.env[name] = value
    request.args = rest
    return request


def command(request: Request) -> list[str]:
    shell = os.environ.get("SHELL", "/bin/bash")
    if "i" in request.options:
        script = " ".join(request.args)
        return [shell, "-l", "-c", script] if request.args else [shell, "-l"]
    if "s" in request.options:
        return [shell, "-c", " ".join(request.args)] if request.args else [shell]
    return request.args


def environment(request: Request) -> dict[str, str]:
    kept = ("TERM", "LANG", "DISPLAY", "DEBIAN_FRONTEND", "COLUMNS", "LINES")
    names = os.environ if "E" in request.options else [name for name in kept if name in os.environ]
    env = {name: os.environ[name] for name in names if name not in ("HOME", "USER", "LOGNAME", "LD_PRELOAD")}
    caller = {"SUDO_USER": os.environ.get("USER", str(os.getuid())), "SUDO_UID": str(os.getuid())}
    return {**env, **caller, "SUDO_GID": str(os.getgid()), **request.env}


def main() -> int:
    try:
        request = parse(sys.argv[1:])
    except (ValueError, IndexError):
        return fail(USAGE)
    if "v" in request.options or ("k" in request.options and not request.args):
        return 0
    if "l" in request.options:
        print("User may run the following commands: (ALL : ALL) NOPASSWD: ALL")
        return 0
    args = command(request)
    if not args:
        return fail(USAGE)
    what = {"args": args, "user": request.user, "cwd": os.getcwd(), "env": environment(request)}
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        agent.connect(ADDRESS)
        socket.send_fds(agent, [json.dumps(what).encode()], [0, 1, 2])
    except OSError as error:
        return fail(f"the agent of the sandbox does not answer: {error}")
    for number in FORWARDED:
        signal.signal(number, lambda given, frame: agent.send(bytes([given])) and None)
    answer = json.loads(agent.recv(ANSWER_BYTES) or b'{"error": "the agent of the sandbox has ended"}')
    if "error" in answer:
        return fail(answer["error"])
    return int(answer["exitCode"])


if __name__ == "__main__":
    sys.exit(main())
