"""Candidates of `race`, and the outcomes of `race` and `map`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Union

from ._arguments import invalid_argument, require_count

# Code to run in a child, or a function of `(child, index)`.
Candidate = Union[str, Callable[[Any, int], Any]]
# For n children: one candidate for all, a list that is repeated, or a function that returns the candidate of an index.
Candidates = Union[str, Sequence[Candidate], Callable[[int], Candidate]]


@dataclass(frozen=True)
class MapOutcome:
    """The outcome of one input. `value` is the run, or what the function returned; `error` is set if `ok` is false."""

    index: int
    input: Any
    ok: bool
    value: Any = None
    error: Optional[Exception] = None


@dataclass
class RaceEntry:
    """The outcome of a candidate. `rank` starts at 1; failed candidates, with `error`, come last."""

    rank: int
    index: int
    candidate: Any
    score: Optional[float] = None
    value: Any = None
    error: Optional[Exception] = None
    duration_ms: float = 0


def ranked(entries: Sequence[RaceEntry], best: str) -> list[RaceEntry]:
    """Sorts by score. Equal scores keep the order of the candidates."""

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
    """Returns one candidate per child, for `race(candidates)`, `race(n, candidates)` and `race(n, run=…)`."""
    if not isinstance(wanted, int):
        listed = given if wanted is None else wanted
        if isinstance(listed, str) or callable(listed) or (wanted is not None and given is not None):
            hint = "Give a list of candidates, or their number first."
            raise invalid_argument("n", f"must be a whole number from 1 (saw {wanted!r})", hint=hint)
        return _require_some(listed)
    require_count("n", wanted)
    if given is not None:
        return _for_each_child(wanted, given)
    if run is not None:
        return [run] * wanted
    hint = "Give `candidates`, or `run` for all children."
    raise invalid_argument("n", f"there are {wanted} children, but no candidates", hint=hint)


def _for_each_child(n: int, given: Candidates) -> List[Candidate]:
    if isinstance(given, str):
        return [given] * n
    if callable(given):
        made = [given(index) for index in range(n)]
    else:
        listed = _require_some(given)
        # A candidate without a child could have been the best.
        if len(listed) > n:
            hint = (
                "Make n at least the number of candidates, or leave it out; "
                "`concurrency` limits how many children exist at once."
            )
            raise invalid_argument("candidates", f"{len(listed)} candidates for n = {n}", hint=hint)
        made = [listed[index % len(listed)] for index in range(n)]
    for each in made:
        if not isinstance(each, str) and not callable(each):
            raise invalid_argument("candidates", f"must be code, or functions of a child (saw {each!r})")
    return made


def _require_some(listed: Optional[Sequence[Candidate]]) -> Sequence[Candidate]:
    if not listed:
        raise invalid_argument("candidates", "must not be empty")
    return listed
