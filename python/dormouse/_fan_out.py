"""What comes of work in forks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence


@dataclass(frozen=True)
class MapOutcome:
    """What became of one input. `value` is the run, or what the function returned; `error` is set where `ok` is false."""

    index: int
    input: Any
    ok: bool
    value: Any = None
    error: Optional[Exception] = None


@dataclass
class RaceEntry:
    """How a candidate came out. `rank` counts from 1; those that failed, with `error`, come last."""

    rank: int
    index: int
    candidate: Any
    score: Optional[float] = None
    value: Any = None
    error: Optional[Exception] = None
    duration_ms: float = 0


def ranked(entries: Sequence[RaceEntry], best: str) -> list[RaceEntry]:
    """Equals in the order in which they were given."""

    def order(entry: RaceEntry) -> tuple[bool, float, int]:
        score = entry.score or 0.0
        return entry.error is not None, score if best == "lowest" else -score, entry.index

    ranking = sorted(entries, key=order)
    for position, entry in enumerate(ranking):
        entry.rank = position + 1
    return ranking
