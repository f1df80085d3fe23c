"""Volumes, secrets, snapshots and SSH keys of a server, contexts and runs of a sandbox."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .._arguments import Size, parse_size
from .._json import decode, decode_all, given
from .._completions import Completions
from .._damage import ScrubStatus
from .._execution import Execution
from .._paths import path_part
from .._result import Result
from .._values import ContextInfo, RunInfo, Secret, Snapshot, SshEndpoint, SshKey
from .._volume import Volume
from .commands import AsyncEvents
from .files import AsyncFiles
from .follow import SSE, Follower
from .http import Http


class VolumePlace:
    """Where the files of a volume are in the API."""

    def __init__(self, name: str) -> None:
        self._path = f"/v1/volumes/{path_part(name)}"

    async def _at(self, *what: str) -> str:
        return "/".join([self._path, *what])


class AsyncVolumes:
    """Directories that outlive sandboxes. Mount them with `volumes` of a new sandbox or of its `update`."""

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

    async def clone(
        self, name: str, new: str, *, read_only: bool = False, size_bytes: Optional[Size] = None
    ) -> Volume:
        """Makes the volume `new` with the same content. With `read_only` it is a snapshot: nothing can write to it."""
        body = given(name=new, read_only=read_only, size_bytes=parse_size("size_bytes", size_bytes))
        path = f"/v1/volumes/{path_part(name)}/clone"
        # Gigabytes may take long.
        return decode(Volume, await self._http.json("POST", path, body=body, timeout=None))

    async def share(self, name: str, key: str, *, access: str = "read") -> Volume:
        """Lets sandboxes of another key mount it. `key` is its id or name, `access` is `read` or `write`."""
        path = f"/v1/volumes/{path_part(name)}/shares/{path_part(key)}"
        return decode(Volume, await self._http.json("PUT", path, body={"access": access}))

    async def unshare(self, name: str, key: str) -> None:
        """Sandboxes of that key that mount it are put to standby, and do not wake before they detach it."""
        await self._http.json("DELETE", f"/v1/volumes/{path_part(name)}/shares/{path_part(key)}")

    def files(self, name: str) -> AsyncFiles:
        """Its files, without a sandbox. It has no users, and `watch` is not possible."""
        return AsyncFiles(self._http, VolumePlace(name))

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
