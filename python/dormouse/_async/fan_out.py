"""Work in forks: `map` over inputs, `race` for the best."""

from __future__ import annotations

import json
import math
import time
from typing import Any, Awaitable, Callable, List, Mapping, Optional, Sequence, Union

from .._errors import DormouseError, error_of
from .._fan_out import Candidate, Candidates, MapOutcome, RaceEntry, candidates_of, ranked, require_count
from .io import call_all, finish, new_lock, run_all, unbroken

# A Python expression that is evaluated in the child, or a function of `(value, child)`.
Score = Union[str, Callable[[Any, Any], Any]]
# Code that finds its input in a variable, or a function of `(child, input)`.
Work = Union[str, Callable[[Any, Any], Any]]

FORK_MAX = 100
# Should this process die, its children delete themselves so long after their last work.
ORPHAN_SECONDS = 600.0
DROP_SECONDS = 30.0


class RaceOutcome:
    """`winner` is the best child, as it came out, treated like its parent from now on. `ranking` has the best first."""

    def __init__(self, winner: Any, ranking: Sequence[RaceEntry]) -> None:
        self.winner = winner
        self.ranking = ranking

    def __repr__(self) -> str:
        return f"RaceOutcome(winner={self.winner!r}, ranking={self.ranking!r})"


class Forks:
    """Children on demand, as many at once as there is work for: a fork costs the same for many as for one."""

    def __init__(self, parent: Any, wanted: int, batch: int) -> None:
        self._parent = parent
        self._wanted = wanted
        self._batch = min(batch, FORK_MAX)
        self._ready: List[Any] = []
        self._lock = new_lock()
        self._failures = 0
        self._failure: Optional[Exception] = None
        self._is_over = False
        # Whatever happens, nothing of these stays.
        self.alive: List[Any] = []

    async def take(self) -> Any:
        """Those who wait for a fork that fails, fail with it; who comes afterwards tries anew."""
        failures = self._failures
        async with self._lock:
            self._wanted -= 1
            if not self._ready:
                if self._failure is not None and self._failures > failures:
                    raise self._failure
                await unbroken(self._fork)
            child = self._ready.pop(0)
        await child.update(ephemeral=True, idle_timeout=ORPHAN_SECONDS)
        return child

    async def _fork(self) -> None:
        try:
            # For who asks, and those who have not asked yet.
            children = await self._parent.fork(min(self._batch, self._wanted + 1))
        except Exception as error:
            self._failures += 1
            self._failure = error
            raise
        self.alive += children
        if self._is_over:
            await self.drop_all()
            raise error_of("cancelled", "The caller gave up before the end.")
        self._ready += children

    async def drop(self, child: Any) -> None:
        """One that is gone already is fine, and one that cannot be deleted now will delete itself."""
        try:
            self.alive.remove(child)
        except ValueError:
            pass
        try:
            await child.delete()
        except DormouseError:
            pass

    async def drop_all(self) -> None:
        """Also those of a fork that is still under way."""
        self._is_over = True
        for child in [*self.alive]:
            await self.drop(child)


async def map_over_forks(
    parent: Any,
    inputs: Sequence[Any],
    work: Work,
    concurrency: int,
    variable: str,
    options: Mapping[str, Any],
) -> List[MapOutcome]:
    require_count("concurrency", concurrency)
    if not variable.isidentifier():
        raise error_of("invalid_argument", f"variable: {variable!r} is not a name of Python")
    forks = Forks(parent, len(inputs), concurrency)

    def job(index: int, value: Any) -> Callable[[], Awaitable[MapOutcome]]:
        async def one() -> MapOutcome:
            try:
                child = await forks.take()
                try:
                    if isinstance(work, str):
                        await _bind(child, variable, value, options)
                        done = (await child.run_code(work, **options)).check()
                    else:
                        done = await call_all(work, child, value)
                finally:
                    await finish(lambda: forks.drop(child), DROP_SECONDS)
                return MapOutcome(index, value, True, done)
            except Exception as error:
                return MapOutcome(index, value, False, None, error)

        return one

    try:
        return await run_all([job(index, value) for index, value in enumerate(inputs)], concurrency)
    finally:
        await finish(forks.drop_all, DROP_SECONDS)


async def race_forks(
    parent: Any,
    wanted: Union[int, Candidates, None],
    given: Optional[Candidates],
    score: Score,
    run: Optional[Candidate],
    best: str,
    concurrency: Optional[int],
    options: Mapping[str, Any],
) -> RaceOutcome:
    """Raises `run_failed`, with the ranking in `details`, when no candidate came through."""
    candidates = candidates_of(wanted, given, run)
    if best not in ("highest", "lowest"):
        raise error_of("invalid_argument", f'best: must be "highest" or "lowest" (saw {best!r})')
    at_once = len(candidates) if concurrency is None else concurrency
    require_count("concurrency", at_once)
    forks = Forks(parent, len(candidates), at_once)
    leading: dict[str, Any] = {}
    deciding = new_lock()

    def job(index: int, candidate: Candidate) -> Callable[[], Awaitable[RaceEntry]]:
        async def one() -> RaceEntry:
            began = time.monotonic()
            child: Any = None
            loser: Any = None
            entry = RaceEntry(0, index, candidate)
            try:
                child = loser = await forks.take()
                entry.value = await _perform(child, candidate, index, options)
                entry.score = await _score_of(child, entry.value, score, options)
                async with deciding:
                    if not leading or _is_better(entry.score, leading["score"], best):
                        loser = leading.get("child")
                        leading.update(child=child, score=entry.score)
            except Exception as error:
                entry.error = error
            finally:
                entry.duration_ms = (time.monotonic() - began) * 1000
                if loser is not None:
                    await finish(lambda: forks.drop(loser), DROP_SECONDS)
            return entry

        return one

    try:
        entries = await run_all([job(index, each) for index, each in enumerate(candidates)], at_once)
        ranking = ranked(entries, best)
        if not leading:
            raise _nobody(ranking)
        winner = leading["child"]
        forks.alive.remove(winner)
    finally:
        await finish(forks.drop_all, DROP_SECONDS)
    was = parent.last_info
    await winner.update(ephemeral=was.ephemeral, idle_timeout=was.idle_timeout_ms / 1000)
    return RaceOutcome(winner, ranking)


async def _perform(child: Any, candidate: Candidate, index: int, options: Mapping[str, Any]) -> Any:
    if isinstance(candidate, str):
        return (await child.run_code(candidate, **options)).check()
    return await call_all(candidate, child, index)


async def _score_of(child: Any, value: Any, score: Score, options: Mapping[str, Any]) -> float:
    if isinstance(score, str):
        how = {name: each for name, each in options.items() if name != "language"}
        found = float((await child.run_code(f"float((\n{score}\n))", **how)).check().text or "nan")
    else:
        found = float(await call_all(score, value, child))
    if math.isnan(found):
        hint = "A score has to be a number that can be compared; NaN is none."
        raise error_of("run_failed", "The score is not a number", hint=hint)
    return found


async def _bind(child: Any, variable: str, value: Any, options: Mapping[str, Any]) -> None:
    # A JSON text is a Python string as well when it is written as JSON once more.
    text = json.dumps(json.dumps(value))
    code = f"import json as _json; {variable} = _json.loads({text}); del _json"
    (await child.run_code(code, context=options.get("context"))).check()


def _is_better(score: float, than: float, best: str) -> bool:
    return score < than if best == "lowest" else score > than


def _nobody(ranking: Sequence[RaceEntry]) -> DormouseError:
    error = error_of(
        "run_failed",
        f"None of {len(ranking)} candidates came through: {ranking[0].error}",
        hint='What each failed with is in `details["ranking"]`.',
        details={"ranking": ranking},
    )
    error.__cause__ = ranking[0].error
    return error
