"""The files of a directory as an archive, without those that its .dockerignore names."""

from __future__ import annotations

import io
import os
import re
import tarfile
from typing import Callable


def pack_context(directory: str) -> bytes:
    is_ignored = docker_ignore(_read_ignore_file(directory))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as archive:
        for parent, directories, files in os.walk(directory):
            directories.sort()
            for name in sorted([*directories, *files]):
                path = os.path.join(parent, name)
                below = os.path.relpath(path, directory).replace(os.sep, "/")
                if not is_ignored(below):
                    archive.add(path, below, recursive=False, filter=_plain)
    return buffer.getvalue()


def docker_ignore(text: str) -> Callable[[str], bool]:
    """Whether a path below the context is left out."""
    lines = [line.strip() for line in text.splitlines()]
    rules = [
        (line.startswith("!"), _regex(line.lstrip("!").strip("/").removeprefix("./")))
        for line in lines
        if line and not line.startswith("#")
    ]

    def is_ignored(path: str) -> bool:
        ignored = False
        for is_exception, regex in rules:
            if regex.fullmatch(path):
                ignored = not is_exception
        return ignored

    return is_ignored


def _regex(pattern: str) -> re.Pattern[str]:
    """`*` and `?` within a name, `**` across names. A pattern also matches everything below what it names."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts) + "(?:/.*)?", re.DOTALL)


def _read_ignore_file(directory: str) -> str:
    try:
        with open(os.path.join(directory, ".dockerignore"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Owners and times of this machine mean nothing in a sandbox."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member
