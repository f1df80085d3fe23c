"""The files of a directory as an archive, without those that its .dockerignore names."""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from typing import IO, Iterator

from ._arguments import invalid_argument


def pack_context(directory: str) -> IO[bytes]:
    """An open temporary file with the archive, at its beginning."""
    ignored = DockerIgnore(_read_ignore_file(directory))
    file = tempfile.TemporaryFile()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as archive:
        for path in _paths(directory, ignored):
            _add(archive, path, _below(path, directory))
    file.seek(0)
    return file


def open_image(path: str) -> IO[bytes]:
    """The archive of an image on this machine, or its OCI layout as an archive in a temporary file."""
    if not os.path.isdir(path):
        if os.path.isfile(path):
            return open(path, "rb")
        raise _not_an_image(path)
    if not os.path.isfile(os.path.join(path, "oci-layout")):
        raise _not_an_image(path)
    file = tempfile.TemporaryFile()
    # Its blobs are compressed. A layout may be of links to blobs that it shares with others.
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as archive:
        for name in sorted(os.listdir(path)):
            archive.add(os.path.join(path, name), name)
    file.seek(0)
    return file


def _not_an_image(path: str) -> Exception:
    hint = "Name an archive (`docker save`, or OCI) or the directory of an OCI layout."
    return invalid_argument("path", f"{path} is no image of this machine", hint=hint)


def _paths(directory: str, ignored: DockerIgnore) -> Iterator[str]:
    for parent, directories, files in os.walk(directory):
        paths = [os.path.join(parent, name) for name in sorted([*directories, *files])]
        sent = {path for path in paths if not ignored.matches(_below(path, directory))}
        if not ignored.has_exceptions:
            directories[:] = [name for name in directories if os.path.join(parent, name) in sent]
        yield from sorted(sent)


def _below(path: str, directory: str) -> str:
    return os.path.relpath(path, directory).replace(os.sep, "/")


def _add(archive: tarfile.TarFile, path: str, below: str) -> None:
    member = archive.gettarinfo(path, below)
    # None is a socket.
    if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return
    # Owners and times of this machine mean nothing in a sandbox.
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    if member.islnk():
        # A step may copy one of two hard links only, so each has its content.
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.path.getsize(path)
    if not member.isreg():
        archive.addfile(member)
        return
    with open(path, "rb") as content:
        archive.addfile(member, content)


class DockerIgnore:
    """Reads a .dockerignore, as `packages/sdk/src/build-context/docker-ignore.ts` does."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.split("\n")]
        self._rules = [
            (line.startswith("!"), _regex(line[line.startswith("!") :].strip()))
            for line in lines
            if line and not line.startswith("#")
        ]
        # Otherwise nothing below a directory that is left out is sent.
        self.has_exceptions = any(is_exception for is_exception, _ in self._rules)

    def matches(self, path: str) -> bool:
        """Whether a path below the context is left out."""
        ignored = False
        for is_exception, regex in self._rules:
            if regex.fullmatch(path):
                ignored = not is_exception
        return ignored


def _regex(pattern: str) -> re.Pattern[str]:
    """`*`, `?` and `[a-z]` within a name, `**` across names, and a backslash before a character that is meant as such.

    A pattern also matches everything below what it names.
    """
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\\.|\[[^\]]+\])", _clean(pattern))
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    source = "".join(meaning.get(part, _literal(part)) for part in parts)
    try:
        return re.compile(f"{source}(?:/.*)?", re.DOTALL)
    except re.error:
        raise invalid_argument(".dockerignore", f'"{pattern}" is no pattern') from None


def _literal(part: str) -> str:
    if part.startswith("\\"):
        return re.escape(part[1:])
    return part if len(part) > 2 and part.startswith("[") and part.endswith("]") else re.escape(part)


def _clean(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _read_ignore_file(directory: str) -> str:
    try:
        with open(os.path.join(directory, ".dockerignore"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
