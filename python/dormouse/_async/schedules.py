"""Runs, jobs and requests at the times of a cron expression."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .._json import decode, decode_all, given
from .._paths import path_part
from .._schedules import Firing, Schedule
from .http import Http


class AsyncSchedules:
    """Runs, jobs and requests at the times of a cron expression. An `action` is a mapping as the HTTP API has it."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        name: str,
        cron: str,
        action: Mapping[str, Any],
        *,
        timezone: Optional[str] = None,
        missed: Optional[str] = None,
        enabled: Optional[bool] = None,
    ) -> Schedule:
        """`action` has a `type`: "run" with `sandbox` and `code`, "job" with `job`, "request" with `sandbox` and `port`,
        or "service" with `service`.

        `missed` says what happens with times that passed while the server was down: "skip", or "once" for the latest.
        """
        how = given(timezone=timezone, missed=missed, enabled=enabled)
        body = {"name": name, "cron": cron, "action": action, **how}
        return decode(Schedule, await self._http.json("POST", "/v1/schedules", body=body))

    async def list(self) -> List[Schedule]:
        return decode_all(Schedule, await self._http.pages("/v1/schedules"))

    async def get(self, name: str) -> Schedule:
        return decode(Schedule, await self._http.json("GET", _path(name)))

    async def update(
        self,
        name: str,
        *,
        cron: Optional[str] = None,
        timezone: Optional[str] = None,
        missed: Optional[str] = None,
        enabled: Optional[bool] = None,
        action: Optional[Mapping[str, Any]] = None,
    ) -> Schedule:
        """Times that pass while it is off are not missed."""
        body = given(cron=cron, timezone=timezone, missed=missed, enabled=enabled, action=action)
        return decode(Schedule, await self._http.json("PATCH", _path(name), body=body))

    async def delete(self, name: str) -> None:
        """What it has started continues."""
        await self._http.json("DELETE", _path(name))

    async def fire(self, name: str) -> Firing:
        """Fires it now, beside its times."""
        return decode(Firing, await self._http.json("POST", f"{_path(name)}/fire", body={}))

    async def firings(self, name: str) -> List[Firing]:
        """The latest 100, newest first."""
        answer = await self._http.json("GET", f"{_path(name)}/firings")
        return decode_all(Firing, answer["items"])


def _path(name: str) -> str:
    return f"/v1/schedules/{path_part(name)}"
