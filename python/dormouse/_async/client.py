"""The client of a server."""

from __future__ import annotations

import ssl
from datetime import datetime
from typing import Any, Callable, Mapping, Optional, Sequence

from .._arguments import Size, milliseconds
from .._json import decode, decode_all, format_time, given
from .._execution import Execution
from .._paths import path_part
from .._network import Network, network_body
from .._values import Mounts, SandboxInfo, Usage, mounts_body
from .._create_body import limits_body
from .follow import SSE, Follower
from .http import ANSWER_SECONDS, Http
from .io import CAN_SHARE
from .jobs import AsyncJobs
from .nodes import AsyncNodes
from .resources import AsyncScrub, AsyncSecrets, AsyncSnapshots, AsyncSshKeys, AsyncVolumes
from .schedules import AsyncSchedules
from .webhooks import AsyncWebhooks
from .server import AsyncServer
from .run_once import run_once
from .server_events import AsyncServerEvents
from .services import AsyncServices
from .templates import AsyncTemplates


class AsyncClient:
    """A server, and the connections to it. Sandboxes make a client by themselves; make one to use several servers.

    The address and the key come from the arguments, then from DORMOUSE_URL and DORMOUSE_API_KEY, then from the file
    that a local server writes to its data directory (`data_dir`, DORMOUSE_DATA, /var/lib/dormouse). `tls` is for your
    own certificates. `timeout` is how many seconds one answer may take, None for no limit; it does not limit runs and
    file transfers. Any number of threads and tasks may use a client at once.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        data_dir: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        timeout: Optional[float] = ANSWER_SECONDS,
    ) -> None:
        self.http = Http(url, api_key, data_dir, tls, timeout)
        # Made for one sandbox, and closed with it.
        self._is_private = False
        self.templates = AsyncTemplates(self.http)
        self.volumes = AsyncVolumes(self.http)
        self.services = AsyncServices(self.http, self.templates)
        self.secrets = AsyncSecrets(self.http)
        self.snapshots = AsyncSnapshots(self.http)
        self.ssh_keys = AsyncSshKeys(self.http)
        self.jobs = AsyncJobs(self.http)
        self.schedules = AsyncSchedules(self.http)
        self.webhooks = AsyncWebhooks(self.http)
        self.nodes = AsyncNodes(self.http)
        self.scrub = AsyncScrub(self.http)
        self.server = AsyncServer(self.http)

    @property
    def url(self) -> str:
        return self.http.address.url

    async def health(self) -> Mapping[str, str]:
        """`status` and `version`."""
        answer: Mapping[str, str] = await self.http.json("GET", "/healthz")
        return answer

    async def usage(
        self,
        *,
        start: Optional[datetime] = None,
        end: Optional[datetime] = None,
        sandbox_id: Optional[str] = None,
    ) -> Usage:
        """What was used, per sandbox and in total. The default is this month."""
        query = {"from": format_time(start), "to": format_time(end), "sandboxId": sandbox_id}
        return Usage.from_json(await self.http.json("GET", "/v1/usage", query=query))

    def events(self, *, after: int = -1, sandbox: Optional[str] = None) -> AsyncServerEvents:
        """What happens to all sandboxes, from now on or after a `seq`. Wakes nothing."""

        async def open(seen: int) -> Any:
            query = {"after": None if seen < 0 else seen, "sandbox": sandbox}
            return await self.http.open("GET", "/v1/events", query=query, headers=SSE)

        return AsyncServerEvents(Follower(open, after))

    async def overview(self) -> Mapping[str, Any]:
        """How many sandboxes run and sleep, and what sleeping saves."""
        answer: Mapping[str, Any] = await self.http.json("GET", "/v1/overview")
        return answer

    async def activity(self, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """What these sandboxes did in the last day, and do now. At most 100 ids."""
        answer = await self.http.json("GET", "/v1/activity", query={"ids": ",".join(ids)})
        items: Sequence[Mapping[str, Any]] = answer["items"]
        return items

    async def session(self) -> Mapping[str, Any]:
        """The API key that this client uses, and what it may do."""
        answer: Mapping[str, Any] = await self.http.json("GET", "/v1/session")
        return answer

    async def create_sign_in_link(self) -> str:
        """A URL that signs a browser in to the page, once and within a minute."""
        answer = await self.http.json("POST", "/v1/session/links", body={}, repeatable=True)
        return f"{self.url}{answer['path']}"

    async def run_once(
        self,
        code: str,
        *,
        language: str = "python",
        template: Optional[str] = None,
        isolation: Optional[str] = None,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        memory_bytes: Optional[Size] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[Size] = None,
        files: Optional[int] = None,
        volumes: Optional[Mounts] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_result: Optional[Callable[[Any], Any]] = None,
    ) -> Execution:
        """Runs untrusted code in a sandbox of its own, which the server deletes afterwards.

        Repeated only if nothing was done: a connection lost in the middle raises `server_unreachable`.
        Cancelling the task, or Ctrl-C, ends the run and the sandbox.
        """
        body = given(
            code=code,
            language=language,
            template=template,
            isolation=isolation,
            timeout_ms=milliseconds("timeout", timeout),
            env=env,
            limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files),
            volumes=mounts_body(volumes),
            network=network_body(network),
            secrets=secrets,
        )
        handlers = {"stdout": on_stdout, "stderr": on_stderr, "result": on_result}
        return await run_once(self.http, body, handlers)

    async def get_sandbox(self, id_or_name: str) -> SandboxInfo:
        """Does not wake the sandbox."""
        return decode(SandboxInfo, await self.http.json("GET", f"/v1/sandboxes/{path_part(id_or_name)}"))

    async def list_sandboxes(
        self,
        *,
        state: Optional[str] = None,
        template: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> list[SandboxInfo]:
        """Sandboxes that match all arguments."""
        query: dict[str, Any] = {"state": state, "template": template, "name": name}
        query.update({f"metadata[{key}]": value for key, value in (metadata or {}).items()})
        return decode_all(SandboxInfo, await self.http.pages("/v1/sandboxes", query))

    async def create_sandbox(self, body: Mapping[str, Any]) -> SandboxInfo:
        """Repeated after a lost connection only with `getOrCreate`: otherwise it could create two sandboxes."""
        repeatable = body.get("getOrCreate") is True
        return decode(
            SandboxInfo, await self.http.json("POST", "/v1/sandboxes", body=body, repeatable=repeatable)
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes connections that are not in use. The client stays usable."""
        await self.http.close_and_wait()


_shared: Optional[AsyncClient] = None


def client_of(client: Optional[AsyncClient], url: Optional[str], api_key: Optional[str]) -> AsyncClient:
    """The given client, a new one for this address, or the shared one."""
    global _shared
    if client is not None:
        return client
    if CAN_SHARE and url is None and api_key is None:
        _shared = _shared or AsyncClient()
        return _shared
    made = AsyncClient(url, api_key)
    made._is_private = True
    return made
