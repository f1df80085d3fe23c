"""The default of arguments for which None has a meaning."""

from __future__ import annotations

import enum


class Unset(enum.Enum):
    UNSET = "…"

    def __repr__(self) -> str:
        return self.value


UNSET = Unset.UNSET
