"""Code or a command over many inputs, on the server."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .._arguments import Size, milliseconds, optional_count
from .._create_body import limits_body
from .._jobs import Job, JobCode, JobEvent, Task, code_of, read_job_event, read_jobs, read_task, read_tasks
from .._json import decode, given
from .._network import Network, network_body
from .._paths import path_part
from .._values import Mounts, mounts_body
from .follow import SSE, Follower
from .http import Http

TASKS_PAGE = 200


class AsyncJobEvents:
    """`async for event in client.jobs.events(id)`: one event per ended task, then "end"."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def __aiter__(self) -> AsyncJobEvents:
        return self

    async def __anext__(self) -> JobEvent:
        event = await self._follower.next()
        if event is None:
            raise StopAsyncIteration
        return read_job_event(event)

    async def __aenter__(self) -> AsyncJobEvents:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        self._follower.drop()


class AsyncJobs:
    """Code or a command over many inputs, on the server: this program may end meanwhile."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        code: Optional[JobCode] = None,
        inputs: Sequence[Any] = (),
        *,
        command: Optional[str] = None,
        language: Optional[str] = None,
        context: Optional[str] = None,
        variable: str = "item",
        template: Optional[str] = None,
        snapshot: Optional[str] = None,
        sandbox: Optional[str] = None,
        isolation: Optional[str] = None,
        sandbox_per: Optional[str] = None,
        concurrency: Optional[int] = None,
        retries: Optional[int] = None,
        backoff: Optional[float] = None,
        timeout: Optional[float] = None,
        priority: Optional[int] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        memory_bytes: Optional[Size] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[Size] = None,
        files: Optional[int] = None,
        volumes: Optional[Mounts] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Job:
        """Starts a job: one task for each input, which is any JSON. Returns when the server has it on disk.

        `code` finds its input in the variable `item`, or is a function of the input, which must not use anything from
        around it. `command` is for bash instead. Tasks run in new sandboxes of a template or from a snapshot, or in
        forks of a sandbox. Repeated after a lost connection only with an `idempotency_key`.
        """
        retry = given(retries=optional_count("retries", retries), backoff_ms=milliseconds("backoff", backoff))
        work = given(command=command, language=language, context=context, code=code_of(code, variable))
        origin = given(template=template, snapshot=snapshot, sandbox=sandbox, isolation=isolation)
        order = given(concurrency=concurrency, priority=priority, sandbox_per=sandbox_per)
        inside = given(env=env, volumes=mounts_body(volumes), network=network_body(network), secrets=secrets)
        limits = given(limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files))
        bounds = given(timeout_ms=milliseconds("timeout", timeout), retry=retry or None)
        labels = given(variable=variable, name=name, metadata=metadata, idempotency_key=idempotency_key)
        body = {**work, **origin, **order, **bounds, **inside, **limits, **labels, "inputs": list(inputs)}
        repeatable = idempotency_key is not None
        return decode(Job, await self._http.json("POST", "/v1/jobs", body=body, repeatable=repeatable))

    async def list(self) -> List[Job]:
        return read_jobs(await self._http.pages("/v1/jobs"))

    async def get(self, id: str) -> Job:
        return decode(Job, await self._http.json("GET", _path(id)))

    def events(self, id: str, *, after: int = 0, results: bool = False) -> AsyncJobEvents:
        """One event per ended task, in that order, then "end". Reconnects as often as needed."""

        async def open(seen: int) -> Any:
            query = {"after": max(0, seen), "results": "true" if results else "false"}
            return await self._http.open("GET", f"{_path(id)}/events", query=query, headers=SSE)

        return AsyncJobEvents(Follower(open, after, last="end"))

    async def wait(self, id: str) -> Job:
        """Returns when the job has ended."""
        job = await self.get(id)
        async with self.events(id, after=job.last_seq) as events:
            async for event in events:
                if event.job is not None:
                    return event.job
        return await self.get(id)

    async def tasks(self, id: str, *, state: Optional[str] = None, results: bool = True) -> List[Task]:
        """All tasks, by index."""
        found: List[Task] = []
        after: Optional[int] = -1
        while after is not None:
            query = {"state": state, "after": after, "limit": TASKS_PAGE, "results": "true" if results else "false"}
            page = await self._http.json("GET", f"{_path(id)}/tasks", query=query)
            found += read_tasks(page["items"])
            after = page.get("nextAfter")
        return found

    async def task(self, id: str, index: int) -> Task:
        """One task with its result and its output."""
        return read_task(await self._http.json("GET", f"{_path(id)}/tasks/{index}"))

    async def cancel(self, id: str) -> Job:
        """Tasks that wait never start, and the sandboxes of those that run are deleted. Results so far are kept."""
        return decode(Job, await self._http.json("POST", f"{_path(id)}/cancel", body={}, repeatable=True))

    async def delete(self, id: str) -> None:
        """Deletes a job that has ended, with its results."""
        await self._http.json("DELETE", _path(id))


def _path(id: str) -> str:
    return f"/v1/jobs/{path_part(id)}"
