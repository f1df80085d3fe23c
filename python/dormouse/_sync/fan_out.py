# Written by tools/make_sync.py from _async/fan_out.py: change that one.
"""Work in forks: `map` and `race`."""

from __future__ import annotations

import math
import time
import uuid
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union

from .._arguments import invalid_argument, require_count
from .._errors import DormouseError, error_of
from .._fan_out import Candidate, Candidates, MapOutcome, RaceEntry, candidates_of, ranked
from .io import call_function, clean_up, new_lock, run_concurrently, uninterrupted

# A Python expression to evaluate in the child, or a function of `(value, child)`.
Score = Union[str, Callable[[Any, Any], Any]]
# Code that finds its input in a variable, or a function of `(child, input)`.
Work = Union[str, Callable[[Any, Any], Any]]

FORK_MAX = 100
# If this process dies, the server deletes its children this long after their last work.
ORPHAN_SECONDS = 600.0
DROP_SECONDS = 30.0
# Runs in forks had no time-out before they were tasks of a job.
NO_TIMEOUT_SECONDS = 24 * 3600.0


class RaceOutcome:
    """`winner` is the best child, which now has the policy of its parent. `ranking` starts with the best."""

    def __init__(self, winner: Any, ranking: Sequence[RaceEntry]) -> None:
        self.winner = winner
        self.ranking = ranking

    def __repr__(self) -> str:
        return f"RaceOutcome(winner={self.winner!r}, ranking={self.ranking!r})"


class Forks:
    """Makes children in batches: forking many at once costs as much as forking one."""

    def __init__(self, parent: Any, wanted: int, batch: int) -> None:
        self._parent = parent
        self._wanted = wanted
        self._batch = min(batch, FORK_MAX)
        self._ready: List[Any] = []
        self._lock = new_lock()
        self._failures = 0
        self._failure: Optional[Exception] = None
        self._is_over = False
        # Children that are not deleted yet.
        self.alive: List[Any] = []

    def take(self) -> Any:
        """Returns a child. Callers that waited for a fork that failed get its error; later callers fork again."""
        failures = self._failures
        with self._lock:
            self._wanted -= 1
            if self._is_over:
                raise _given_up()
            if not self._ready:
                if self._failure is not None and self._failures > failures:
                    raise self._failure
                uninterrupted(self._fork)
            child = self._ready.pop(0)
        child.update(ephemeral=True, idle_timeout=ORPHAN_SECONDS)
        return child

    def _fork(self) -> None:
        try:
            # For this caller, and for those that will come.
            children = self._parent.fork(min(self._batch, self._wanted + 1))
        except Exception as error:
            self._failures += 1
            self._failure = error
            raise
        self.alive += children
        if self._is_over:
            self.drop_all()
            raise _given_up()
        self._ready += children

    def drop(self, child: Any) -> None:
        """Deletes a child. Ignores errors: it may be deleted already, and the server deletes it later otherwise."""
        try:
            self.alive.remove(child)
        except ValueError:
            pass
        try:
            child.delete()
        except DormouseError:
            pass

    def drop_all(self) -> None:
        """Deletes all children, also those of a fork that is under way."""
        self._is_over = True
        for child in [*self.alive]:
            self.drop(child)


def _given_up() -> DormouseError:
    return error_of("cancelled", "The caller was cancelled before the end.")


def map_over_forks(
    parent: Any,
    inputs: Sequence[Any],
    work: Work,
    concurrency: int,
    variable: str,
    retries: int,
    options: Mapping[str, Any],
) -> List[MapOutcome]:
    """Code runs as a job of the server. A function runs here, and drives a fork."""
    require_count("concurrency", concurrency)
    if not variable.isidentifier():
        raise invalid_argument("variable", f"is not a Python identifier (saw {variable!r})")
    if isinstance(work, str):
        return _run_job(parent, inputs, work, concurrency, variable, retries, options)
    return _call_in_forks(parent, inputs, work, concurrency)


def _run_job(
    parent: Any,
    inputs: Sequence[Any],
    code: str,
    concurrency: int,
    variable: str,
    retries: int,
    options: Mapping[str, Any],
) -> List[MapOutcome]:
    if not inputs:
        return []
    jobs = parent.client.jobs
    how = {"timeout": NO_TIMEOUT_SECONDS, **{name: each for name, each in options.items() if each is not None}}
    started: List[Any] = []

    def start() -> None:
        job = jobs.create(
            code,
            inputs,
            sandbox=(parent.info()).id,
            concurrency=concurrency,
            variable=variable,
            retries=retries,
            idempotency_key=f"map-{uuid.uuid4()}",
            **how,
        )
        started.append(job.id)

    def give_up() -> None:
        for job_id in started:
            jobs.cancel(job_id)
            jobs.wait(job_id)

    outcomes: dict[int, MapOutcome] = {}
    try:
        uninterrupted(start)
        with jobs.events(started[0], results=True) as events:
            for event in events:
                if event.task is not None:
                    outcomes[event.task.index] = _outcome_of(event.task, inputs[event.task.index])
        jobs.delete(started[0])
    except BaseException:
        # Nothing of it is left running when the caller hears of the error.
        clean_up(give_up, DROP_SECONDS)
        raise
    return [outcomes[index] for index in range(len(inputs))]


def _outcome_of(task: Any, value: Any) -> MapOutcome:
    if task.state == "succeeded":
        return MapOutcome(task.index, value, True, task.result)
    try:
        if task.result is not None:
            task.result.check()
    except DormouseError as error:
        return MapOutcome(task.index, value, False, None, error)
    code = "run_timed_out" if task.reason == "timed_out" else "run_failed"
    failed = error_of(code, task.message or "The task did not come to its end.", details={"reason": task.reason})
    return MapOutcome(task.index, value, False, None, failed)


def _call_in_forks(parent: Any, inputs: Sequence[Any], work: Any, concurrency: int) -> List[MapOutcome]:
    forks = Forks(parent, len(inputs), concurrency)

    def job(index: int, value: Any) -> Callable[[], MapOutcome]:
        def one() -> MapOutcome:
            try:
                child = forks.take()
                try:
                    done = call_function(work, child, value)
                finally:
                    clean_up(lambda: forks.drop(child), DROP_SECONDS)
                return MapOutcome(index, value, True, done)
            except Exception as error:
                return MapOutcome(index, value, False, None, error)

        return one

    try:
        return run_concurrently([job(index, value) for index, value in enumerate(inputs)], concurrency)
    finally:
        clean_up(forks.drop_all, DROP_SECONDS)


def race_forks(
    parent: Any,
    wanted: Union[int, Candidates, None],
    given: Optional[Candidates],
    score: Score,
    run: Optional[Candidate],
    best: str,
    concurrency: Optional[int],
    options: Mapping[str, Any],
) -> RaceOutcome:
    """Raises `run_failed`, with the ranking in `details`, if all candidates failed."""
    candidates = candidates_of(wanted, given, run)
    if best not in ("highest", "lowest"):
        raise invalid_argument("best", f'must be "highest" or "lowest" (saw {best!r})')
    at_once = len(candidates) if concurrency is None else concurrency
    require_count("concurrency", at_once)
    forks = Forks(parent, len(candidates), at_once)
    leading: dict[str, Any] = {}
    deciding = new_lock()

    def job(index: int, candidate: Candidate) -> Callable[[], RaceEntry]:
        def one() -> RaceEntry:
            began = time.monotonic()
            child: Any = None
            loser: Any = None
            entry = RaceEntry(0, index, candidate)
            try:
                child = loser = forks.take()
                entry.value = _perform(child, candidate, index, options)
                entry.score = _score_of(child, entry.value, score, options)
                with deciding:
                    if not leading or _is_better(entry.score, leading["score"], best):
                        loser = leading.get("child")
                        leading.update(child=child, score=entry.score)
            except Exception as error:
                entry.error = error
            finally:
                entry.duration_ms = (time.monotonic() - began) * 1000
                if loser is not None:
                    clean_up(lambda: forks.drop(loser), DROP_SECONDS)
            return entry

        return one

    try:
        entries = run_concurrently([job(index, each) for index, each in enumerate(candidates)], at_once)
        ranking = ranked(entries, best)
        if not leading:
            raise _all_failed(ranking)
        winner = leading["child"]
        forks.alive.remove(winner)
    finally:
        clean_up(forks.drop_all, DROP_SECONDS)
    was = parent.last_info
    winner.update(ephemeral=was.ephemeral, idle_timeout=was.idle_timeout_ms / 1000)
    return RaceOutcome(winner, ranking)


def _perform(child: Any, candidate: Candidate, index: int, options: Mapping[str, Any]) -> Any:
    if isinstance(candidate, str):
        return (child.run_code(candidate, **options)).check()
    return call_function(candidate, child, index)


def _score_of(child: Any, value: Any, score: Score, options: Mapping[str, Any]) -> float:
    if isinstance(score, str):
        how = {name: each for name, each in options.items() if name != "language"}
        found = float((child.run_code(f"float((\n{score}\n))", **how)).check().text or "nan")
    else:
        found = float(call_function(score, value, child))
    if math.isnan(found):
        hint = "NaN cannot be compared. Return another number."
        raise error_of("run_failed", "The score is not a number", hint=hint)
    return found


def _is_better(score: float, than: float, best: str) -> bool:
    return score < than if best == "lowest" else score > than


def _all_failed(ranking: Sequence[RaceEntry]) -> DormouseError:
    error = error_of(
        "run_failed",
        f"All {len(ranking)} candidates failed: {ranking[0].error}",
        hint='`details["ranking"]` has the error of each.',
        details={"ranking": ranking},
    )
    error.__cause__ = ranking[0].error
    return error
