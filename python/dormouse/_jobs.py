"""Jobs and their tasks, as the server shows them."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable, Mapping, Optional, Union

from ._arguments import invalid_argument
from ._execution import Execution
from ._json import decode, decode_all
from ._result import Result

# Code that finds its input in the variable `item`, or a function of the input.
JobCode = Union[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class TaskCounts:
    """How many tasks of a job are in each state."""

    queued: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class JobOrigin:
    """What the sandboxes of a job start from."""

    template: Optional[str] = None
    snapshot_id: Optional[str] = None
    sandbox_id: Optional[str] = None


@dataclass(frozen=True)
class JobRetry:
    """How often a task that failed runs again, and the pause before the first retry, which doubles."""

    retries: int = 0
    backoff_ms: int = 1000


@dataclass(frozen=True)
class Job:
    """A job, as of the last answer about it."""

    id: str
    state: str
    total: int
    created_at: datetime
    tasks: TaskCounts = TaskCounts()
    origin: JobOrigin = JobOrigin()
    # process or microvm, if the request named one.
    isolation: Optional[str] = None
    sandbox_per: str = "task"
    concurrency: int = 1
    priority: int = 0
    timeout_ms: int = 0
    retry: JobRetry = JobRetry()
    metadata: Mapping[str, str] = field(default_factory=dict)
    name: Optional[str] = None
    started_at: Optional[datetime] = None
    finished_at: Optional[datetime] = None
    result_bytes: int = 0
    last_seq: int = 0


@dataclass(frozen=True)
class Task:
    """One input of a job. `result` is there once it has ended, if it was asked for."""

    index: int
    state: str
    attempts: int = 0
    reason: Optional[str] = None
    message: Optional[str] = None
    started_at: Optional[datetime] = None
    finished_at: Optional[datetime] = None
    sandbox_id: Optional[str] = None
    result: Optional[Execution] = None


@dataclass(frozen=True)
class JobEvent:
    """`type` is "task" for a task that has ended, and "end" for the end of the job."""

    seq: int
    type: str
    task: Optional[Task] = None
    job: Optional[Job] = None


def read_task(answer: Mapping[str, Any]) -> Task:
    result = answer.get("result")
    if result is None:
        return decode(Task, answer)
    main = result.get("mainResult")
    results = [Result(data, index == main) for index, data in enumerate(result["results"])]
    run = decode(Execution, {**result, "results": None})
    object.__setattr__(run, "results", results)
    task = decode(Task, {**answer, "result": None})
    object.__setattr__(task, "result", run)
    return task


def read_tasks(answers: Any) -> list[Task]:
    return [read_task(answer) for answer in answers]


def read_job_event(answer: Mapping[str, Any]) -> JobEvent:
    task, job = answer.get("task"), answer.get("job")
    return JobEvent(
        answer["seq"],
        answer["type"],
        None if task is None else read_task(task),
        None if job is None else decode(Job, job),
    )


def read_jobs(answers: Any) -> list[Job]:
    return decode_all(Job, answers)


def code_of(code: Optional[JobCode], variable: str) -> Optional[str]:
    """A function becomes its source and a call. It must not use anything from around it."""
    if code is None or isinstance(code, str):
        return code
    name = getattr(code, "__name__", "")
    if not name.isidentifier():
        hint = "Define a function with `def`, or give code as text."
        raise invalid_argument("code", f"must be code, or a function with a name (saw {code!r})", hint=hint)
    try:
        source = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError) as error:
        hint = "Give the code as text."
        raise invalid_argument("code", "the source of the function is not known", hint=hint) from error
    wait = "await " if inspect.iscoroutinefunction(code) else ""
    return f"{source}\n{wait}{name}({variable})"
