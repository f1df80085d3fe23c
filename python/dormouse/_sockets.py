"""Socket options of both halves."""

from __future__ import annotations

import socket
from typing import Any

# A peer that disappeared is noticed after about two minutes.
_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES = 30, 15, 6


def tune(raw: Any) -> None:
    """Sends small writes at once, and notices a peer that disappeared."""
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)


def shut_down(raw: Any) -> None:
    """Ends a connection without closing its descriptor: a thread that reads from it wakes up."""
    try:
        raw.shutdown(socket.SHUT_RDWR)
    except Exception:
        # It has ended already, or the event loop does not hand out its sockets.
        pass
