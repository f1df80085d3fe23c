"""Templates, volumes, secrets, snapshots and SSH keys of a server, contexts and runs of a sandbox."""

from __future__ import annotations

import time
from typing import Any, List, Mapping, Optional, Sequence

from .._arguments import Size, milliseconds, parse_size
from .._build_context import pack_context
from .._json import decode, decode_all, given
from .._completions import Completions
from .._damage import ScrubStatus
from .._errors import error_of, timed_out
from .._execution import Execution
from .._paths import path_part
from .._network import Network, network_body
from .._result import Result
from .._template_builder import TemplateBuilder
from .._values import ContextInfo, RunInfo, Secret, Snapshot, SshEndpoint, SshKey, Template, TemplateMaterials, Volume
from .commands import AsyncEvents
from .follow import SSE, EventLines, Follower
from .http import Http
from .io import call_handler, sleep

POLL_SECONDS = 0.5


class AsyncTemplates:
    """What sandboxes are made from."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        name: str,
        *,
        snapshot_id: Optional[str] = None,
        description: Optional[str] = None,
        from_: Optional[str] = None,
        network: Optional[Network] = None,
        packages: Optional[Sequence[str]] = None,
        pip: Optional[Sequence[str]] = None,
        commands: Optional[Sequence[str]] = None,
        preload: Optional[Sequence[str]] = None,
    ) -> Template:
        """Makes a template from a snapshot, or starts to build one: `wait` returns when it is ready.

        The build runs in a sandbox of the template `from_` (default `python`), which may reach what `network` allows
        (default: package registries). `packages` are Debian's and `pip` Python's. Then bash runs `commands` as root.
        Every sandbox starts with the modules of `preload` imported.
        """
        body = given(
            name=name,
            snapshot_id=snapshot_id,
            description=description,
            from_=from_,
            network=network_body(network),
            packages=packages,
            pip=pip,
            commands=commands,
            preload=preload,
        )
        return decode(Template, await self._http.json("POST", "/v1/templates", body=body))

    async def build(
        self,
        name: str,
        builder: TemplateBuilder,
        *,
        context: str = ".",
        on_log: Any = None,
        timeout: Optional[float] = None,
    ) -> Template:
        """Builds a template and waits until it is ready. `on_log` gets every line of the log.

        `context` is the directory that `copy` steps and `COPY` take files from. Its .dockerignore applies.
        """
        body = builder.request(name)
        if builder.needs_context:
            body["context"] = await self.upload(pack_context(context))
        await self._http.json("POST", "/v1/templates", body=body)
        if on_log is not None:
            lines = EventLines(await self._http.open("GET", self._log_path(name), headers=SSE))
            while (line := await lines.next()) is not None:
                await call_handler(on_log, line["text"])
        return await self.wait(name, timeout=timeout)

    async def upload(self, archive: bytes) -> str:
        """Sends a tar archive: the context of a build, or an image (`image="upload:ID"`). Returns its id."""
        answer = await self._http.json("POST", "/v1/uploads", content=archive, timeout=None)
        upload_id: str = answer["id"]
        return upload_id

    async def debug(self, name: str) -> str:
        """Creates a sandbox in the state before the step of a build that failed. Returns its id."""
        answer = await self._http.json("POST", f"/v1/templates/{path_part(name)}/debug", body={})
        sandbox_id: str = answer["id"]
        return sandbox_id

    @staticmethod
    def _log_path(name: str) -> str:
        return f"/v1/templates/{path_part(name)}/log"

    async def list(self) -> List[Template]:
        return decode_all(Template, await self._http.pages("/v1/templates"))

    async def get(self, name: str) -> Template:
        return decode(Template, await self._http.json("GET", f"/v1/templates/{path_part(name)}"))

    async def materials(self, name: str) -> TemplateMaterials:
        """All packages that it was built from, with digests. Raises `not_found` if they were not recorded."""
        answer = await self._http.json("GET", f"/v1/templates/{path_part(name)}/materials")
        return decode(TemplateMaterials, answer)

    async def wait(self, name: str, *, timeout: Optional[float] = None, on_log: Any = None) -> Template:
        """Waits until it is ready. A failed build raises `setup_failed` with the end of its log in `details`.

        Raises `timed_out` after `timeout` seconds; the build continues.
        """
        seconds = (milliseconds("timeout", timeout) or 0) / 1000
        end = time.monotonic() + seconds
        while True:
            template = await self.get(name)
            if template.log_tail is not None:
                await call_handler(on_log, template.log_tail)
            if template.state == "ready":
                return template
            if template.state == "failed":
                raise error_of(
                    "setup_failed",
                    f"The template {name} could not be built: {template.error or ''}",
                    hint='The end of its log is in `details["logTail"]`.',
                    details={"logTail": template.log_tail},
                )
            if seconds > 0 and time.monotonic() > end:
                raise timed_out(seconds)
            await sleep(POLL_SECONDS)

    async def delete(self, name: str) -> None:
        """Refused while a sandbox needs it. Ends a build that runs."""
        await self._http.json("DELETE", f"/v1/templates/{path_part(name)}")


class AsyncVolumes:
    """Directories that outlive sandboxes. Mount them with `volumes` of a new sandbox."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(self, name: str, *, size_bytes: Optional[Size] = None) -> Volume:
        body = given(name=name, size_bytes=parse_size("size_bytes", size_bytes))
        return decode(Volume, await self._http.json("POST", "/v1/volumes", body=body))

    async def list(self) -> List[Volume]:
        return decode_all(Volume, await self._http.pages("/v1/volumes"))

    async def get(self, name: str) -> Volume:
        return decode(Volume, await self._http.json("GET", f"/v1/volumes/{path_part(name)}"))

    async def update(self, name: str, *, size_bytes: Size) -> Volume:
        """Changes how much it may hold."""
        body = given(size_bytes=parse_size("size_bytes", size_bytes))
        return decode(Volume, await self._http.json("PATCH", f"/v1/volumes/{path_part(name)}", body=body))

    async def delete(self, name: str) -> None:
        """Deletes it with its files. Refused while a sandbox mounts it."""
        await self._http.json("DELETE", f"/v1/volumes/{path_part(name)}")


class AsyncSecrets:
    """Values that sandboxes use in requests without seeing them. Name them in `secrets` of a new sandbox."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(self, name: str, value: str, *, domains: Sequence[str]) -> Secret:
        """Sandboxes see a placeholder in the variable `name`; HTTPS requests to `domains` carry the value."""
        body = {"name": name, "value": value, "domains": list(domains)}
        return decode(Secret, await self._http.json("POST", "/v1/secrets", body=body))

    async def list(self) -> List[Secret]:
        return decode_all(Secret, await self._http.pages("/v1/secrets"))

    async def get(self, name: str) -> Secret:
        return decode(Secret, await self._http.json("GET", f"/v1/secrets/{path_part(name)}"))

    async def update(
        self, name: str, *, value: Optional[str] = None, domains: Optional[Sequence[str]] = None
    ) -> Secret:
        """Applies to the next requests of all sandboxes that use it."""
        body = given(value=value, domains=domains)
        path = f"/v1/secrets/{path_part(name)}"
        return decode(Secret, await self._http.json("PATCH", path, body=body, repeatable=True))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Refused while a sandbox uses it; `force` takes it from them."""
        query = {"force": "true"} if force else None
        await self._http.json("DELETE", f"/v1/secrets/{path_part(name)}", query=query)


class AsyncSshKeys:
    """Public keys that give access to your sandboxes with `ssh <sandbox>@host`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def add(self, name: str, public_key: str) -> SshKey:
        """Adds a key, one line as in `~/.ssh/id_ed25519.pub`. It gives access to the sandboxes of this API key.

        It works after its holder has confirmed it: by connecting once with the private key as the user `confirm_as`
        (`ssh <confirm_as>@host -p <port>`).
        """
        body = {"name": name, "publicKey": public_key}
        return decode(SshKey, await self._http.json("POST", "/v1/ssh-keys", body=body))

    async def list(self) -> List[SshKey]:
        return decode_all(SshKey, await self._http.pages("/v1/ssh-keys"))

    async def get(self, name: str) -> SshKey:
        return decode(SshKey, await self._http.json("GET", f"/v1/ssh-keys/{path_part(name)}"))

    async def delete(self, name: str) -> None:
        """Closes its open connections."""
        await self._http.json("DELETE", f"/v1/ssh-keys/{path_part(name)}")

    async def endpoint(self) -> SshEndpoint:
        """Where SSH clients connect. Raises `not_found` if the server has SSH turned off."""
        return decode(SshEndpoint, await self._http.json("GET", "/v1/ssh"))


class AsyncScrub:
    """Checks everything that the server stores, in the background. The server does not restore damaged snapshots.

    Needs a key with the scope `admin`.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def status(self) -> ScrubStatus:
        """Its progress and its findings."""
        return decode(ScrubStatus, await self._http.json("GET", "/v1/scrub"))

    async def start(self) -> ScrubStatus:
        """Starts a pass unless one runs. Does not wait for its end."""
        return decode(ScrubStatus, await self._http.json("POST", "/v1/scrub", body={}, repeatable=True))


class AsyncSnapshots:
    """Saved states: `sandbox.snapshot()` takes one, `sandbox.rollback()` returns to it.

    Each is named by its id, or as `"SANDBOX/NAME"` with the id or name of its sandbox.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, *, sandbox_id: Optional[str] = None) -> List[Snapshot]:
        """Of all sandboxes, or of one."""
        return decode_all(Snapshot, await self._http.pages("/v1/snapshots", {"sandboxId": sandbox_id}))

    async def get(self, id: str) -> Snapshot:
        return decode(Snapshot, await self._http.json("GET", f"/v1/snapshots/{path_part(id)}"))

    async def verify(self, id: str) -> None:
        """Reads the whole snapshot. Wakes nothing, and may take long.

        Raises `snapshot_unusable` with the reason if it is damaged or cannot be restored on this server.
        """
        path = f"/v1/snapshots/{path_part(id)}/verify"
        await self._http.json("POST", path, repeatable=True, timeout=None)

    async def delete(self, id: str) -> None:
        """Refused for the snapshot that a sandbox would wake from."""
        await self._http.json("DELETE", f"/v1/snapshots/{path_part(id)}")


class AsyncContexts:
    """The REPLs of a sandbox. `default` always exists."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def create(
        self,
        name: str,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        language: Optional[str] = None,
        python: Optional[str] = None,
    ) -> ContextInfo:
        """Makes a REPL for `run_code(..., context=name)`, for Python unless `language` says otherwise.

        `python` is the interpreter or virtual environment of a Python one.
        """
        body = given(name=name, cwd=cwd, env=env, user=user, language=language, python=python)
        return decode(
            ContextInfo, await self._http.json("POST", await self._sandbox._at("contexts"), body=body)
        )

    async def list(self) -> List[ContextInfo]:
        answer = await self._http.json("GET", await self._sandbox._at("contexts"))
        return decode_all(ContextInfo, answer["items"])

    async def delete(self, name: str) -> None:
        """Interrupts its runs. `default` is replaced by a new one."""
        await self._http.json("DELETE", await self._sandbox._at("contexts", path_part(name)))

    async def complete(self, name: str, code: str) -> Completions:
        """Names that fit the end of half-typed code, as after Tab in a notebook. A context with a run is a conflict."""
        path = await self._sandbox._at("contexts", path_part(name), "complete")
        return decode(Completions, await self._http.json("POST", path, body={"code": code}, repeatable=True))

    def output(self, name: str = "default", *, after: int = -1) -> AsyncEvents:
        """What threads and child processes write between runs. Reading keeps the sandbox awake."""

        async def open(seen: int) -> Any:
            path = await self._sandbox._at("contexts", path_part(name), "output")
            return await self._http.open("GET", path, query={"after": seen}, headers=SSE)

        return AsyncEvents(Follower(open, after))


class AsyncRuns:
    """The runs of a sandbox, also those that other programs started."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def list(self) -> List[RunInfo]:
        """Newest first."""
        return decode_all(RunInfo, await self._http.pages(await self._sandbox._at("runs")))

    async def get(self, run_id: str) -> RunInfo:
        return decode(RunInfo, await self._http.json("GET", await self._at(run_id)))

    async def result(self, run_id: str) -> Optional[Execution]:
        """Its outcome; None while it runs."""
        answer = (await self._http.json("GET", await self._at(run_id))).get("result")
        if answer is None:
            return None
        return decode(Execution, {**answer, "results": [Result(data) for data in answer["results"]]})

    def events(self, run_id: str, *, after: int = -1, follow: bool = True) -> AsyncEvents:
        """Its events after `after`, to its end; with `follow=False`, only those that exist now."""

        async def open(seen: int) -> Any:
            path = await self._at(run_id, "events")
            query = {"after": seen, "follow": follow}
            return await self._http.open("GET", path, query=query, headers=SSE)

        return AsyncEvents(Follower(open, after, may_end=not follow))

    async def answer(self, run_id: str, *, seq: int, text: Optional[str] = None) -> None:
        """Answers the `input` event with this `seq`. Without `text` the code gets an EOFError."""
        await self._http.json("POST", await self._at(run_id, "input"), body=given(seq=seq, text=text))

    async def interrupt(self, run_id: str) -> str:
        """Raises KeyboardInterrupt in it. Returns `interrupting`, `cancelled` or `finished`."""
        answer = await self._http.json("POST", await self._at(run_id, "interrupt"), repeatable=True)
        outcome: str = answer["outcome"]
        return outcome

    async def _at(self, run_id: str, *what: str) -> str:
        path: str = await self._sandbox._at("runs", path_part(run_id), *what)
        return path
