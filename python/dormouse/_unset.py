"""An argument that was not given, where None says something."""

from __future__ import annotations

import enum


class Unset(enum.Enum):
    UNSET = "…"

    def __repr__(self) -> str:
        return self.value


UNSET = Unset.UNSET
