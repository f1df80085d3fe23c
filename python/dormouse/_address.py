"""The address of the server, and the API key."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Optional
from urllib.parse import urlsplit

from ._errors import error_of

DEFAULT_URL = "http://127.0.0.1:7070"
DEFAULT_DATA_DIR = "/var/lib/dormouse"


@dataclass(frozen=True)
class Address:
    url: str
    api_key: str
    host: str
    port: int
    is_tls: bool
    # The path under which a proxy serves the API.
    prefix: str
    # From the file that a local server writes whenever it starts.
    is_from_file: bool

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


def find_address(
    url: Optional[str] = None, api_key: Optional[str] = None, data_dir: Optional[str] = None
) -> Address:
    """From the arguments, then the environment, then the file of a local server."""
    asked = url or os.environ.get("DORMOUSE_URL") or None
    key = api_key or os.environ.get("DORMOUSE_API_KEY") or None
    is_from_file = False
    if asked is None or key is None:
        local = _local_server(data_dir or os.environ.get("DORMOUSE_DATA") or DEFAULT_DATA_DIR)
        if local is not None:
            is_from_file = asked is None
            asked = asked or local[0]
            # The key in the file is only for the server that wrote it.
            if key is None and _origin(local[0]) == _origin(asked):
                key = local[1]
    asked = asked or DEFAULT_URL
    scheme, host, port = _origin(asked)
    if key is None:
        raise error_of(
            "unauthorized",
            f"No API key for {asked} was found",
            hint="Give `api_key`, or set DORMOUSE_API_KEY. On the machine of the server, a user who may read its file "
            "needs neither.",
        )
    if not key.isascii() or any(ord(character) <= 32 for character in key):
        # Other characters could end the header or start another one.
        raise error_of("unauthorized", "The API key contains characters that are not allowed")
    prefix = urlsplit(asked).path.rstrip("/")
    return Address(asked.rstrip("/"), key, host, port, scheme == "https", prefix, is_from_file)


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("http", "https") or not host:
        raise error_of(
            "invalid_argument",
            f"url: {url!r} is not a URL of a server",
            hint=f"Give one like {DEFAULT_URL}.",
        )
    return scheme, host, port or (443 if scheme == "https" else 80)


def _local_server(data_dir: str) -> Optional[tuple[str, str]]:
    path = os.path.join(data_dir, "client.json")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    try:
        client = json.loads(text)
        if isinstance(client["url"], str) and isinstance(client["key"], str):
            return client["url"], client["key"]
    except (ValueError, KeyError, TypeError):
        pass
    raise error_of(
        "setup_failed",
        f'{path} cannot be used: it is not {{"url": …, "key": …}}',
        hint="Delete it, stop the server, then run `dormouse key create NAME --scope admin --save`.",
    )
