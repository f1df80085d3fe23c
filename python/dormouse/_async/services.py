"""The services of a server."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

from .._arguments import Size, milliseconds
from .._build_context import pack_context
from .._create_body import limits_body
from .._errors import DormouseError, error_of, timed_out
from .._json import decode, decode_all, format_time, given
from .._network import Network, network_body
from .._paths import path_part
from .._services import Service, ServiceLogLine, settings_body
from .._template_builder import Login, Ready, login_body, ready_body
from .._unset import UNSET, Unset
from .._values import Mounts, mounts_body
from .follow import SSE, EventLines
from .http import Http
from .io import call_handler, sleep
from .templates import AsyncTemplates

POLL_SECONDS = 0.25


class AsyncServices:
    """Programs that answer requests at a stable address and sleep in between."""

    def __init__(self, http: Http, templates: AsyncTemplates) -> None:
        self._http = http
        self._templates = templates

    async def deploy(
        self,
        name: str,
        *,
        port: int,
        dir: Optional[str] = None,
        template: Optional[str] = None,
        image: Optional[str] = None,
        registry_auth: Union[Login, Sequence[Login], None] = None,
        dockerfile: Optional[str] = None,
        context: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        target: Optional[str] = None,
        steps: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[str] = None,
        ready: Optional[Ready] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        isolation: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        secrets: Optional[Sequence[str]] = None,
        volumes: Optional[Mounts] = None,
        memory_bytes: Optional[Size] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[Size] = None,
        files: Optional[int] = None,
        network: Optional[Network] = None,
        public: Optional[bool] = None,
        min_replicas: Optional[int] = None,
        max_replicas: Optional[int] = None,
        concurrency: Optional[int] = None,
        replica_idle: Optional[float] = None,
        health: Union[str, None, Unset] = UNSET,
        health_interval: Optional[float] = None,
        health_timeout: Optional[float] = None,
        health_failures: Optional[int] = None,
        restart: Optional[str] = None,
        checkpoint_every: Optional[float] = None,
        keep_versions: Optional[int] = None,
        background: bool = False,
        on_log: Any = None,
        timeout: Optional[float] = None,
    ) -> Service:
        """Deploys a version and waits until requests go to it; makes the service if it is new.

        `dir` is a directory to deploy. Its Dockerfile says how to build it; without one, its package.json,
        pyproject.toml, requirements.txt, main.py or index.html. With `background` the call returns when the deployment
        has begun. A version that cannot serve raises `setup_failed`, and the version before keeps serving. Settings
        such as `max_replicas` and `health` take effect with the version; without them they stay as they are.
        """
        if dir is not None:
            with pack_context(dir) as archive:
                context = await self._templates.upload(archive)
            if dockerfile is None and image is None and template is None:
                dockerfile = _read_dockerfile(dir)
        body = given(
            port=port,
            template=template,
            image=image,
            registry_auth=login_body(registry_auth),
            dockerfile=dockerfile,
            context=context,
            build_args=build_args,
            target=target,
            steps=steps,
            start=start,
            ready=ready_body(ready),
            cwd=cwd,
            user=user,
            isolation=isolation,
            env=env,
            secrets=secrets,
            volumes=mounts_body(volumes),
            limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files),
            network=network_body(network),
        )
        settings = settings_body(
            public=public,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
            concurrency=concurrency,
            replica_idle=replica_idle,
            health=health,
            health_interval=health_interval,
            health_timeout=health_timeout,
            health_failures=health_failures,
            restart=restart,
            checkpoint_every=checkpoint_every,
            keep_versions=keep_versions,
        )
        path = f"/v1/services/{path_part(name)}"
        begun = decode(Service, await self._http.json("PUT", path, body={**body, **settings}, repeatable=False))
        if background:
            return begun
        return await self._settled(name, begun.versions[0].version, on_log, timeout)

    async def list(self) -> List[Service]:
        return decode_all(Service, await self._http.pages("/v1/services"))

    async def get(self, name: str) -> Service:
        """Wakes nothing."""
        return decode(Service, await self._http.json("GET", f"/v1/services/{path_part(name)}"))

    async def update(
        self,
        name: str,
        *,
        public: Optional[bool] = None,
        min_replicas: Optional[int] = None,
        max_replicas: Optional[int] = None,
        concurrency: Optional[int] = None,
        replica_idle: Optional[float] = None,
        health: Union[str, None, Unset] = UNSET,
        health_interval: Optional[float] = None,
        health_timeout: Optional[float] = None,
        health_failures: Optional[int] = None,
        restart: Optional[str] = None,
        checkpoint_every: Optional[float] = None,
        keep_versions: Optional[int] = None,
    ) -> Service:
        """Changes how it is reached, scaled, checked and restarted. Makes no new version.

        `health=None` ends the checks.
        """
        body = settings_body(
            public=public,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
            concurrency=concurrency,
            replica_idle=replica_idle,
            health=health,
            health_interval=health_interval,
            health_timeout=health_timeout,
            health_failures=health_failures,
            restart=restart,
            checkpoint_every=checkpoint_every,
            keep_versions=keep_versions,
        )
        return decode(Service, await self._http.json("PATCH", f"/v1/services/{path_part(name)}", body=body))

    async def rollback(self, name: str, *, version: Optional[int] = None) -> Service:
        """Sends requests to another version: by default the one before. Returns when it answers."""
        path = f"/v1/services/{path_part(name)}/rollback"
        return decode(Service, await self._http.json("POST", path, body=given(version=version)))

    async def delete(self, name: str) -> None:
        """Deletes it with its versions, replicas and logs."""
        await self._http.json("DELETE", f"/v1/services/{path_part(name)}")

    async def logs(
        self,
        name: str,
        *,
        after: Optional[int] = None,
        since: Optional[datetime] = None,
        search: Optional[str] = None,
        tail: Optional[int] = None,
        follow: bool = False,
    ) -> AsyncIterator[ServiceLogLine]:
        """What its programs print, oldest first. Wakes nothing. With `follow` it has no end."""
        query = {
            "after": after,
            "since": format_time(since),
            "search": search,
            "tail": tail,
            "follow": "true" if follow else None,
        }
        path = f"/v1/services/{path_part(name)}/logs"
        lines = EventLines(await self._http.open("GET", path, query=query, headers=SSE))
        try:
            while (line := await lines.next()) is not None:
                yield decode(ServiceLogLine, line)
        finally:
            lines.close()

    async def _settled(self, name: str, version: int, on_log: Any, timeout: Optional[float]) -> Service:
        seconds = (milliseconds("timeout", timeout) or 0) / 1000
        end = time.monotonic() + seconds
        is_log_shown = on_log is None
        while True:
            service = await self.get(name)
            found = next((each for each in service.versions if each.version == version), None)
            if not is_log_shown and found is not None and found.template is not None:
                is_log_shown = await self._show_log(found.template, on_log)
            if found is None or found.state == "failed":
                serving = "" if service.version is None else f"Version {service.version} keeps serving. "
                raise error_of(
                    "setup_failed",
                    f"Version {version} of {name} failed: {'' if found is None else found.error or ''}",
                    hint=f"{serving}Correct what the message says, and deploy again.",
                    details={"version": version},
                )
            if found.state == "ready" and found.is_current:
                return service
            if seconds > 0 and time.monotonic() > end:
                raise timed_out(seconds)
            await sleep(POLL_SECONDS)

    async def _show_log(self, template: str, on_log: Any) -> bool:
        """False: the build has not begun."""
        try:
            async for line in self._templates.log(template):
                await call_handler(on_log, line["text"])
            return True
        except DormouseError as error:
            if error.code == "template_not_found":
                return False
            raise


def _read_dockerfile(directory: str) -> Optional[str]:
    path = os.path.join(directory, "Dockerfile")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()
