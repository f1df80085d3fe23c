"""HTTP/1.1 without sockets: how a request begins, what an answer's head says, where its body ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional
from urllib.parse import quote, urlencode

HEAD_MAX_BYTES = 64 * 1024


class ProtocolError(Exception):
    """What came is not HTTP."""


@dataclass(frozen=True)
class Head:
    status: int
    headers: Mapping[str, str]
    keeps_alive: bool
    # None: until the connection ends. -1: in chunks.
    length: Optional[int]


CHUNKED = -1


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ProtocolError("a header must not have line breaks")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def path_part(value: object) -> str:
    """As one part of a path: no slash in it leads anywhere else."""
    text = quote(str(value), safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(text, text)


def with_query(path: str, query: Optional[Mapping[str, object]]) -> str:
    pairs = [(name, _text(value)) for name, value in (query or {}).items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def parse_head(raw: bytes, method: str) -> Head:
    """`raw` is all before the empty line."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise ProtocolError(f"not an answer in HTTP/1.1: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolError(f"not a header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    keeps_alive = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
    return Head(int(status), headers, keeps_alive, _length(int(status), headers, method))


def _length(status: int, headers: Mapping[str, str], method: str) -> Optional[int]:
    if method == "HEAD" or status in (204, 304) or 100 <= status < 200:
        return 0
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return CHUNKED
    length = headers.get("content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise ProtocolError(f"not a length: {length[:80]!r}")
    return int(length)


def chunk_length(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip()
    try:
        length = int(digits, 16)
    except ValueError:
        length = -1
    if length < 0 or digits[:1] in (b"+", b"-"):
        raise ProtocolError(f"not the length of a chunk: {line[:80]!r}")
    return length


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
