"""What is done in forks, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Union

from ._errors import error_of

# Code to run in a child, or a function of `(child, index)` that does what it likes with one.
Candidate = Union[str, Callable[[Any, int], Any]]
# For n children: one for all of them, a list whose members take turns, or a function of the index that makes each.
Candidates = Union[str, Sequence[Candidate], Callable[[int], Candidate]]


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


def candidates_of(
    wanted: Union[int, Candidates, None], given: Optional[Candidates], run: Optional[Candidate]
) -> Sequence[Candidate]:
    """`race(candidates)`, `race(n, candidates)` and `race(n, run=…)`: one candidate for each child."""
    if not isinstance(wanted, int):
        listed = given if wanted is None else wanted
        if isinstance(listed, str) or callable(listed) or (wanted is not None and given is not None):
            hint = "Give a list of candidates, or their number first."
            raise error_of("invalid_argument", f"n: must be a whole number from 1 (saw {wanted!r})", hint=hint)
        return _some(listed)
    require_count("n", wanted)
    if given is not None:
        return _for_each(wanted, given)
    if run is not None:
        return [run] * wanted
    hint = "Give candidates too, or `run`: what each of the n children does."
    raise error_of("invalid_argument", f"n: {wanted} says how many, and nothing what each does", hint=hint)


def require_count(name: str, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise error_of("invalid_argument", f"{name}: must be a whole number from 1 (saw {count!r})")


def _for_each(n: int, given: Candidates) -> List[Candidate]:
    if isinstance(given, str):
        return [given] * n
    if callable(given):
        made = [given(index) for index in range(n)]
    else:
        listed = _some(given)
        # Who is left out could have been the best.
        if len(listed) > n:
            hint = (
                "Give as many children as candidates, or leave the number out; "
                "`concurrency` says how many there are at a time."
            )
            raise error_of("invalid_argument", f"candidates: {len(listed)} candidates for n = {n}", hint=hint)
        made = [listed[index % len(listed)] for index in range(n)]
    for each in made:
        if not isinstance(each, str) and not callable(each):
            said = f"candidates: must be code, or functions of a child (saw {each!r})"
            raise error_of("invalid_argument", said)
    return made


def _some(listed: Optional[Sequence[Candidate]]) -> Sequence[Candidate]:
    if not listed:
        raise error_of("invalid_argument", "candidates: there are none")
    return listed
