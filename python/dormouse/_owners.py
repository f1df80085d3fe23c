"""Which host of a cluster has which sandbox, as answers say. Calls that go straight there save a hop."""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import replace
from typing import Mapping, Optional

from ._address import Address, _origin
from ._errors import DormouseError

# On answers that another host of the cluster gave: its address.
OWNER_HEADER = "dormouse-host"
SANDBOX = re.compile(r"/v1/sandboxes/([^/?]+)")
OWNER = re.compile(r"https?://[^\s/,]+")
OWNERS_MAX = 10_000
# A host that clients cannot reach is found out before a call goes there.
CHECK_SECONDS = 2.0
# How long an address that did not answer is not used.
AVOID_SECONDS = 60.0


class Owners:
    def __init__(self) -> None:
        self._owners: dict[str, Address] = {}
        self._reachable: set[str] = set()
        self._avoided: dict[str, float] = {}

    def find(self, path: str) -> Optional[Address]:
        """None: the call goes to the server that the client was given."""
        found = SANDBOX.match(path)
        owner = self._owners.get(found[1]) if found else None
        return owner if owner is not None and owner.origin in self._reachable else None

    def learn(self, path: str, headers: Mapping[str, str], base: Address) -> None:
        """Only from answers of the API: a program in a sandbox may send any header."""
        found, url = SANDBOX.match(path), headers.get(OWNER_HEADER)
        if found is None or url is None or OWNER.fullmatch(url) is None:
            return
        try:
            scheme, host, port = _origin(url)
        except DormouseError:
            return
        # A key that was given for an encrypted address is not sent in the clear.
        if base.is_tls and scheme != "https":
            return
        owner = replace(
            base, url=url, host=host, port=port, is_tls=scheme == "https", prefix="", is_from_file=False
        )
        if len(self._owners) >= OWNERS_MAX:
            self._owners.clear()
        self._owners[found[1]] = owner
        if owner.origin in self._reachable or self._avoided.get(owner.origin, 0) > time.monotonic():
            return
        self._avoided[owner.origin] = time.monotonic() + AVOID_SECONDS
        threading.Thread(target=self._check, args=(owner,), daemon=True).start()

    def knows(self, origin: str) -> bool:
        return origin in self._reachable

    def forget(self, owner: Address) -> None:
        """The host does not answer: calls go to the server that the client was given."""
        self._reachable.discard(owner.origin)
        self._avoided[owner.origin] = time.monotonic() + AVOID_SECONDS

    def _check(self, owner: Address) -> None:
        try:
            with socket.create_connection((owner.host, owner.port), timeout=CHECK_SECONDS):
                self._reachable.add(owner.origin)
        except OSError:
            # Calls continue to go to the server that the client was given.
            pass
