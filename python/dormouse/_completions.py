"""What fits half-typed code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Completions:
    """Names that fit half-typed code. Each replaces the end of the code, `replaces`."""

    matches: list[str]
    replaces: str
    # There are more matches than these.
    more: bool = False
