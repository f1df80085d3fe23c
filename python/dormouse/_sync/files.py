# Written by tools/make_sync.py from _async/files.py: change that one.
"""Files of a sandbox."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

from .._arguments import require_count
from .._json import decode, decode_all, given
from .._errors import DormouseError, error_of, is_transient
from .._backoff import Backoff
from .._values import FileStat
from .directories import Filter, LocalPath, download_directory, upload_directory
from .session import Response
from .content import Content, body_of
from .http import RESTART_SECONDS, Http
from .io import sleep
from .watch import Watch


class Files:
    """Paths are absolute, or relative to the home of `user`, a user of the sandbox. None is its default user."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    def read(
        self, path: str, *, encoding: str = "utf-8", user: Optional[str] = None, wake: bool = True
    ) -> str:
        """Returns the file as text. `wake=False` reads the snapshot of a sleeping sandbox instead of waking it."""
        return (self.read_bytes(path, user=user, wake=wake)).decode(encoding)

    def read_bytes(self, path: str, *, user: Optional[str] = None, wake: bool = True) -> bytes:
        """Returns the file."""
        pieces = []
        for piece in self.stream(path, user=user, wake=wake):
            pieces.append(piece)
        return b"".join(pieces)

    def stream(self, path: str, *, user: Optional[str] = None, wake: bool = True) -> FileStream:
        """Reads a file of any size in pieces. Raises `conflict` if the file changes after a lost connection."""
        return FileStream(self._http, self._sandbox, path, user, wake)

    def write(
        self,
        path: str,
        data: Content,
        *,
        mode: Optional[int] = None,
        parents: bool = True,
        append: bool = False,
        user: Optional[str] = None,
    ) -> FileStat:
        """Replaces the file: readers see the old one or the new one. Streams an open file or an iterable.

        Makes missing directories above it, unless `parents` is false.
        """
        query = {"path": path, "mode": _octal(mode), "parents": parents, "append": append, "user": user}
        content = body_of("data", data)
        repeatable = not append
        target = self._sandbox._at("files")
        # A big file may take long.
        answer = self._http.json(
            "PUT", target, query=query, content=content, repeatable=repeatable, timeout=None
        )
        return decode(FileStat, answer)

    def upload_dir(
        self, local: LocalPath, remote: str, *, filter: Optional[Filter] = None, user: Optional[str] = None
    ) -> None:
        """Copies what is in a directory of this machine to the directory `remote`, with the permissions of files.

        Links to files become files. Other links and special files are left out. Does not remove other files. `filter`
        gets each path below the directory, such as `src/main.py`; False leaves it out, with all that is below it.
        """
        upload_directory(self, local, remote, filter, user)

    def download_dir(
        self, remote: str, local: LocalPath, *, filter: Optional[Filter] = None, user: Optional[str] = None
    ) -> None:
        """Copies what is in the directory `remote` to a directory of this machine, as `upload_dir` does.

        Never writes through a link: replaces a link in place of a file, and raises `conflict` for one in place of a
        directory.
        """
        download_directory(self, remote, local, filter, user)

    def list(
        self, path: str, *, depth: int = 1, user: Optional[str] = None, wake: bool = True
    ) -> List[FileStat]:
        """Sorted by name, directories before their contents. Does not follow links."""
        query = {"path": path, "depth": require_count("depth", depth), "user": user, "wake": None if wake else False}
        return decode_all(FileStat, (self._get("list", query))["items"])

    def stat(
        self, path: str, *, follow: bool = True, user: Optional[str] = None, wake: bool = True
    ) -> FileStat:
        """`follow=False` describes a link itself."""
        query = {"path": path, "follow": follow, "user": user, "wake": None if wake else False}
        return decode(FileStat, self._get("stat", query))

    def exists(self, path: str, *, user: Optional[str] = None, wake: bool = True) -> bool:
        try:
            self.stat(path, user=user, wake=wake)
            return True
        except DormouseError as error:
            if error.code not in ("not_found", "not_a_directory"):
                raise
        # Raises `not_found` if it is the sandbox that does not exist.
        self._http.json("GET", self._sandbox._at())
        return False

    def mkdir(
        self, path: str, *, parents: bool = True, mode: Optional[int] = None, user: Optional[str] = None
    ) -> FileStat:
        """With `parents`, makes missing parents and accepts an existing directory."""
        body = given(path=path, parents=parents, mode=_octal(mode), user=user)
        return decode(FileStat, self._post("mkdir", body, repeatable=parents))

    def move(
        self, source: str, target: str, *, overwrite: bool = True, user: Optional[str] = None
    ) -> FileStat:
        body = {"from": source, "to": target, **given(overwrite=overwrite, user=user)}
        return decode(FileStat, self._post("move", body))

    def remove(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """Removes a symbolic link itself, not its target."""
        query = {"path": path, "recursive": recursive, "user": user}
        self._http.json("DELETE", self._sandbox._at("files"), query=query)

    def watch(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> Watch:
        """Watches for changes from now on. Keeps the sandbox awake until it is closed."""
        query = {"path": path, "recursive": recursive, "user": user}
        target = self._sandbox._at("files", "watch")
        watch = Watch(self._http, target, query)
        watch._connect()
        return watch

    def _get(self, what: str, query: Any) -> Any:
        return self._http.json("GET", self._sandbox._at("files", what), query=query)

    def _post(self, what: str, body: Any, repeatable: bool = False) -> Any:
        path = self._sandbox._at("files", what)
        return self._http.json("POST", path, body=body, repeatable=repeatable)


class FileStream:
    """The content of a file in pieces. Continues after a lost connection if the file is still the same."""

    def __init__(self, http: Http, sandbox: Any, path: str, user: Optional[str], wake: bool) -> None:
        self._http = http
        self._sandbox = sandbox
        self._query = {"path": path, "user": user, "wake": None if wake else False}
        self._response: Optional[Response] = None
        self._is_over = False
        self._read_bytes = 0
        self._backoff = Backoff(RESTART_SECONDS)
        # The ETag of the file: after a lost connection, only the same file is continued.
        self._tag: Optional[str] = None
        # A file without a length, as in /proc, cannot be continued in the middle.
        self._has_length = True

    def __iter__(self) -> FileStream:
        return self

    def __next__(self) -> bytes:
        while not self._is_over:
            try:
                if self._response is None:
                    self._response = self._open()
                piece = self._response.piece()
            except (OSError, DormouseError) as cause:
                self._drop()
                error = cause if isinstance(cause, DormouseError) else self._http.lost(cause)
                if not is_transient(error) or (self._read_bytes > 0 and not self._has_length):
                    self._is_over = True
                    raise error
                sleep(self._backoff.next_delay(error))
                continue
            self._backoff.reset()
            self._read_bytes += len(piece)
            if piece:
                return piece
            self._is_over = True
        raise StopIteration

    def __enter__(self) -> FileStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._is_over = True
        self._drop()

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _open(self) -> Response:
        path = self._sandbox._at("files")
        # Not If-Range: it does not allow weak ETags, and a date has a resolution of one second.
        headers = {"range": f"bytes={self._read_bytes}-"} if self._read_bytes > 0 else {}
        try:
            response = self._http.open("GET", path, query=self._query, headers=headers)
        except DormouseError as error:
            if self._read_bytes == 0 or error.code != "range_not_satisfiable":
                raise
            raise self._changed() from None
        tag = response.headers.get("etag")
        if self._read_bytes > 0 and (response.status != 206 or tag != self._tag):
            response.close()
            raise self._changed()
        self._tag = tag
        self._has_length = "content-length" in response.headers
        return response

    def _changed(self) -> DormouseError:
        message = f"{self._query['path']}: changed while it was read"
        return error_of("conflict", message, hint="Read it again, or read a copy.")


def _octal(mode: Optional[int]) -> Optional[str]:
    return None if mode is None else f"{require_count('mode', mode, 0):04o}"
