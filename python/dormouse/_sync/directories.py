# Written by tools/make_sync.py from _async/directories.py: change that one.
"""Copies of whole directories, from this machine to a sandbox and back."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import Any, Callable, List, Optional, Tuple, Union

from .._arguments import invalid_argument
from .._errors import DormouseError, error_of, is_transient
from .io import run_concurrently

LocalPath = Union[str, "os.PathLike[str]"]
# Gets a path below the directory. False leaves it out.
Filter = Callable[[str], bool]
# Files at once.
CONCURRENCY = 8
PERMISSIONS = 0o777


def upload_directory(
    files: Any, local: LocalPath, remote: str, filter: Optional[Filter], user: Optional[str]
) -> None:
    directories, found = _read_tree(os.fspath(local), filter)
    for below in directories:
        files.mkdir(_join(remote, below), user=user)

    def job(path: str, below: str, mode: int) -> Callable[[], None]:
        def one() -> None:
            with open(path, "rb") as content:
                files.write(_join(remote, below), content, mode=mode, user=user)

        return one

    run_concurrently([job(*each) for each in found], CONCURRENCY)


def download_directory(
    files: Any, remote: str, local: LocalPath, filter: Optional[Filter], user: Optional[str]
) -> None:
    found: List[Tuple[str, str, int]] = []
    pending = [""]
    while pending:
        directory = pending.pop()
        entries = files.list(_join(remote, directory), user=user)
        _make_directory(os.fspath(local), directory)
        for entry in entries:
            name = _local_name(entry.name)
            below = _join(directory, name) if directory else name
            if filter is not None and not filter(below):
                continue
            if entry.type == "directory":
                pending.append(below)
                continue
            if entry.type == "symlink":
                entry = _target_of(files, _join(remote, below), user)
            if entry is not None and entry.type == "file":
                path = os.path.join(os.fspath(local), *below.split("/"))
                found.append((_join(remote, below), path, int(entry.mode, 8) & PERMISSIONS))

    def job(source: str, path: str, mode: int) -> Callable[[], None]:
        def one() -> None:
            # A file of its own first, so that a link of this machine is replaced and not followed.
            temporary = os.path.join(os.path.dirname(path), f".dormouse-{secrets.token_hex(8)}")
            try:
                with open(temporary, "xb") as content:
                    with files.stream(source, user=user) as pieces:
                        for piece in pieces:
                            content.write(piece)
                os.chmod(temporary, mode)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise

        return one

    run_concurrently([job(*each) for each in found], CONCURRENCY)


def _target_of(files: Any, source: str, user: Optional[str]) -> Any:
    """None for a link that leads nowhere."""
    try:
        return files.stat(source, user=user)
    except DormouseError as error:
        if is_transient(error):
            raise
        return None


def _read_tree(local: str, filter: Optional[Filter]) -> Tuple[List[str], List[Tuple[str, str, int]]]:
    """Directories, parents first, and files: each with its path below `local`."""
    if not os.path.isdir(local):
        raise invalid_argument("local", f"is not a directory (saw {local!r})", hint="`files.write` writes one file.")
    directories: List[str] = []
    found: List[Tuple[str, str, int]] = []

    def is_wanted(below: str) -> bool:
        return filter is None or filter(below)

    for directory, names, file_names in os.walk(local, onerror=_raise):
        below = os.path.relpath(directory, local).replace(os.sep, "/")
        below = "" if below == "." else below
        directories.append(below)
        # `os.walk` goes into those that are left.
        names[:] = [name for name in sorted(names) if is_wanted(_join(below, name) if below else name)]
        for name in sorted(file_names):
            path = os.path.join(directory, name)
            # A link that leads nowhere is not a file.
            mode = os.stat(path).st_mode if os.path.exists(path) else 0
            file_below = _join(below, name) if below else name
            if stat.S_ISREG(mode) and is_wanted(file_below):
                found.append((path, file_below, mode & PERMISSIONS))
    return directories, found


def _make_directory(local: str, below: str) -> None:
    if not below:
        os.makedirs(local, exist_ok=True)
        return
    path = os.path.join(local, *below.split("/"))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    # Writing below a link would write to another place of this machine.
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise error_of(
            "conflict",
            f"local: {path} is not a directory, but the sandbox has one of this name",
            hint="Download into an empty directory.",
        )


def _raise(error: OSError) -> None:
    raise error


def _join(directory: str, name: str) -> str:
    if not name:
        return directory
    return f"{directory}{name}" if directory.endswith("/") else f"{directory}/{name}"


def _local_name(name: str) -> str:
    """The sandbox chose the name: it must not lead out of the directory."""
    if name in ("", ".", "..") or any(each in name for each in ("/", "\0", os.sep, os.altsep or os.sep)):
        raise error_of("conflict", f"remote: a file has the name {name!r}, which this machine cannot use")
    return name
