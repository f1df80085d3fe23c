"""What both halves do with a socket."""

from __future__ import annotations

import socket

# A peer that vanished without a word is noticed after about two minutes.
_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES = 30, 15, 6


def keep_alive(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
