# Written by tools/make_sync.py from _async/sandbox.py: change that one.
"""A sandbox."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union

from .._arguments import Size, milliseconds, require_count
from .._json import decode, given, parse_time
from .._class_or_instance import ClassOrInstance
from .._errors import NotFoundError, error_of
from .._paths import path_part
from .._network import Network, network_body
from .._nodes import Moved
from .._ports import Port
from .._unset import UNSET, Unset
from .._values import Expires, Mounts, SandboxInfo, Snapshot, mounts_body
from .._create_body import NEVER_HINT, connections_body, create_body, limits_body, snapshot_ref
from .client import Client, client_of
from .commands import Commands
from .files import Files
from .io import Creatable, new_lock
from .ports import Ports
from .pty import Ptys
from .resources import Contexts, Runs
from .running import Running
from .variables import Variables
from .views import Views


class Sandbox(Running, Views, Creatable):
    """A Linux machine that never forgets. Without work it goes to sleep; any call wakes it, with its variables,
    threads, processes and files as they were.

    Without `persistent`, the end of its `with` block or `close()` deletes it; if your program dies before, the server
    deletes it after an hour without use. With `persistent` it stays until it is deleted.

    It starts from a `template`, or from a `snapshot`: an id, `"SANDBOX/NAME"`, or what `snapshot()` returned.

    Durations are seconds; sizes are bytes, or text such as `"4GiB"`. It sleeps after `idle_timeout` without work (0:
    never), and `store_after` later it is only on disk. Background processes keep it awake for `max_background` after
    its last use (0: never). At its memory limit, Linux kills a process; with `at_memory_limit="pause"` the sandbox is
    saved and sleeps until `update` raises the limit. With `wake_on_timer`, its clocks continue while it sleeps, and it
    wakes for timers of its processes. Connections to the outside are kept for `keep_asleep` while it sleeps, an hour by
    default; with `wake_on_data`, data that arrives on one wakes it. With `checkpoint_every`, it is saved this often
    while it runs, and returns to its last checkpoint after a crash (0: never). `volumes` are `{"/path": "name"}`.
    `ephemeral` deletes it after an hour without use. `network` is `"public"`, `"none"`, or a list of what it may reach,
    such as `["pypi.org:443"]`. `secrets` are names of `Client().secrets`. With `isolation="microvm"` it is a virtual
    machine, where the server offers that.
    """

    _delete_on_close: bool

    def __init__(
        self,
        template: Optional[str] = None,
        *,
        snapshot: Union[str, Snapshot, None] = None,
        isolation: Optional[str] = None,
        name: Optional[str] = None,
        persistent: bool = False,
        metadata: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        idle_timeout: Optional[float] = None,
        store_after: Optional[float] = None,
        max_background: Optional[float] = None,
        wake_on_timer: Optional[bool] = None,
        keep_asleep: Optional[float] = None,
        wake_on_data: Optional[bool] = None,
        at_memory_limit: Optional[str] = None,
        checkpoint_every: Optional[float] = None,
        expires: Optional[Expires] = None,
        memory_bytes: Optional[Size] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[Size] = None,
        files: Optional[int] = None,
        volumes: Optional[Mounts] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
        ephemeral: bool = False,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        client: Optional[Client] = None,
    ) -> None:
        body = create_body(
            template=template,
            snapshot=snapshot,
            isolation=isolation,
            name=name,
            persistent=persistent,
            metadata=metadata,
            env=env,
            idle_timeout=idle_timeout,
            store_after=store_after,
            max_background=max_background,
            wake_on_timer=wake_on_timer,
            keep_asleep=keep_asleep,
            wake_on_data=wake_on_data,
            at_memory_limit=at_memory_limit,
            checkpoint_every=checkpoint_every,
            expires=expires,
            memory_bytes=memory_bytes,
            cpus=cpus,
            pids=pids,
            disk_bytes=disk_bytes,
            files=files,
            volumes=volumes,
            network=network,
            secrets=secrets,
            ephemeral=ephemeral,
        )
        self._set_up(client_of(client, url, api_key), None, body, delete_on_close=not persistent)
        self._after_init()

    @classmethod
    def create(cls, template: Optional[str] = None, **options: Any) -> Sandbox:
        """Takes the arguments of the constructor."""
        sandbox = cls(template, **options)
        sandbox._ready()
        return sandbox

    @classmethod
    def get_or_create(cls, name: str, template: Optional[str] = None, **options: Any) -> Sandbox:
        """Returns the sandbox of that name, unchanged, or creates a persistent one."""
        client = client_of(options.pop("client", None), options.pop("url", None), options.pop("api_key", None))
        body = create_body(template=template, name=name, persistent=True, **options)
        return cls._of(client, client.create_sandbox({**body, "getOrCreate": True}))

    @classmethod
    def connect(
        cls,
        id_or_name: str,
        *,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        client: Optional[Client] = None,
    ) -> Sandbox:
        """Returns a sandbox that exists. Does not wake it."""
        which = client_of(client, url, api_key)
        return cls._of(which, which.get_sandbox(id_or_name))

    @classmethod
    def list(
        cls,
        *,
        state: Optional[str] = None,
        template: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        client: Optional[Client] = None,
    ) -> List[Sandbox]:
        """Sandboxes that match all arguments."""
        which = client_of(client, url, api_key)
        found = which.list_sandboxes(state=state, template=template, name=name, metadata=metadata)
        return [cls._of(which, info) for info in found]

    def _resume_id(
        cls: Any,
        id_or_name: str,
        *,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        client: Optional[Client] = None,
    ) -> Sandbox:
        """`Sandbox.resume(id)` wakes and returns a sandbox by the id that `idle()` returned.

        `sandbox.resume()` wakes it. Other calls wake it by themselves.
        """
        sandbox: Sandbox = cls.connect(id_or_name, url=url, api_key=api_key, client=client)
        return sandbox.resume()

    def _resume(self) -> Sandbox:
        """Wakes it. Other calls wake it by themselves."""
        self._note(self._post("resume", None, repeatable=True))
        return self

    resume: ClassOrInstance[Callable[..., Sandbox], Callable[[], Sandbox]] = (
        ClassOrInstance(_resume_id, _resume)
    )

    @property
    def id(self) -> str:
        return self._known.id

    @property
    def name(self) -> Optional[str]:
        return self._known.name

    @property
    def last_info(self) -> SandboxInfo:
        """As of the last answer; `info()` asks the server."""
        return self._known

    def info(self) -> SandboxInfo:
        """Asks the server for its current state. Does not wake it."""
        return self._note(self.client.http.json("GET", self._at()))

    def fork(self, n: int = 1, *, reseed: bool = True) -> List[Sandbox]:
        """Makes children with the memory, processes and files of this sandbox. This sandbox continues.

        `reseed` gives each child its own random numbers. Close each child on its own.
        """
        answer = self._post("fork", {"count": require_count("n", n), "reseed": reseed})
        return [self._of(self.client, decode(SandboxInfo, child), self._delete_on_close) for child in answer["children"]]

    def standby(self, tier: str = "frozen", durability: str = "host") -> SandboxInfo:
        """Puts it to sleep: `frozen` in memory, or `stored` on disk only. Any call wakes it.

        With durability `cluster` it returns when the snapshot is in the depot of the cluster, too.
        """
        body = {"tier": tier, "durability": durability}
        return self._note(self._post("standby", body, repeatable=True))

    def move(self, node: str) -> Moved:
        """Moves it to another node of the cluster. It sleeps, and wakes there with the next call."""
        return decode(Moved, self._post("move", {"node": node}, repeatable=True))

    def idle(self, tier: str = "frozen", durability: str = "host") -> str:
        """Puts it to sleep and returns its id for `resume`.

        It becomes persistent: the end of a `with` block does not delete it.
        """
        if self._delete_on_close:
            self.update(expires=None, ephemeral=False)
            self._delete_on_close = False
        self.standby(tier, durability)
        return self.id

    def snapshot(self, name: Optional[str] = None, *, kind: str = "full") -> Snapshot:
        """Saves its state; it continues. `kind` is full (files and memory) or files."""
        return decode(Snapshot, self._post("snapshots", given(name=name, kind=kind)))

    def rollback(self, snapshot: Union[str, Snapshot]) -> Sandbox:
        """Puts it back to a snapshot, under the same id. Later changes are lost.

        The snapshot is given by id or name, or as `"SANDBOX/NAME"`: one of this sandbox, of its forks, or of what it was
        forked from.
        """
        self._note(self._post("rollback", {"snapshotId": snapshot_ref(snapshot)}))
        return self

    def promote(self, *, keep: bool = False) -> Sandbox:
        """The sandbox that this one was forked from continues as this one, under its own id and name.

        What the parent did since the fork is lost. Deletes this one, unless `keep`. Returns the parent, which the end
        of a `with` block does not delete.
        """
        return self._of(self.client, decode(SandboxInfo, self._post("promote", {"keep": keep})))

    def update(
        self,
        *,
        name: Union[str, None, Unset] = UNSET,
        metadata: Optional[Mapping[str, str]] = None,
        idle_timeout: Optional[float] = None,
        store_after: Optional[float] = None,
        max_background: Optional[float] = None,
        wake_on_timer: Optional[bool] = None,
        keep_asleep: Optional[float] = None,
        wake_on_data: Optional[bool] = None,
        at_memory_limit: Optional[str] = None,
        checkpoint_every: Optional[float] = None,
        expires: Union[Expires, None, Unset] = UNSET,
        ephemeral: Optional[bool] = None,
        memory_bytes: Optional[Size] = None,
        cpus: Optional[float] = None,
        pids: Optional[int] = None,
        disk_bytes: Optional[Size] = None,
        files: Optional[int] = None,
        volumes: Optional[Mounts] = None,
        network: Optional[Network] = None,
        secrets: Optional[Sequence[str]] = None,
    ) -> SandboxInfo:
        """Changes what is given. None removes the name or the expiry; `volumes` replaces all mounts.

        Does not wake it, unless it was paused at its memory limit and the limit is raised.
        """
        body = given(
            metadata=metadata,
            idle_timeout_ms=milliseconds("idle_timeout", idle_timeout, hint=NEVER_HINT),
            store_after_ms=milliseconds("store_after", store_after),
            max_background_ms=milliseconds("max_background", max_background),
            wake_on_timer=wake_on_timer,
            connections=connections_body(keep_asleep, wake_on_data),
            at_memory_limit=at_memory_limit,
            checkpoint_every_ms=milliseconds("checkpoint_every", checkpoint_every),
            ephemeral=ephemeral,
            limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files),
            volumes=mounts_body(volumes),
            network=network_body(network),
            secrets=secrets,
        )
        if not isinstance(name, Unset):
            body["name"] = name
        if not isinstance(expires, Unset):
            body["expires"] = None if expires is None else expires.body()
        answer = self.client.http.json("PATCH", self._at(), body=body, repeatable=True)
        return self._note(answer)

    def wait_for_port(self, port: int, *, timeout: float = 30) -> Port:
        """Waits until a process inside listens. Raises `port_closed` if none does in time."""
        return self.ports.wait(port, timeout=timeout)

    def hold(self, what: str, seconds: float) -> datetime:
        """Keeps it awake for work that the server cannot see. Returns when the hold ends."""
        body = {"what": what, "forMs": milliseconds("seconds", seconds)}
        answer = self._post("hold", body, repeatable=True)
        return parse_time(answer["until"])

    def delete(self) -> None:
        """Deletes it with all its state."""
        self.client.http.json("DELETE", self._at())
        self._release_client()

    def close(self) -> None:
        """Deletes it unless it is persistent."""
        info = self._info
        try:
            if info is not None and (self._delete_on_close or info.ephemeral):
                self.delete()
        except NotFoundError:
            # The server may have deleted it already.
            pass
        finally:
            self._release_client()

    def __enter__(self) -> Sandbox:
        self._ready()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self._info
        what = "not created yet" if info is None else f"{info.id} {info.name or ''}".rstrip()
        return f"<{type(self).__name__} {what}>"

    @classmethod
    def _of(cls, client: Client, info: SandboxInfo, delete_on_close: bool = False) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._set_up(client, info, None, delete_on_close)
        return sandbox

    def _set_up(self, client: Client, info: Optional[SandboxInfo], create_body: Any, delete_on_close: bool) -> None:
        self.client = client
        self._info = info
        self._create_body = create_body
        self._creating: Any = None
        self._delete_on_close = delete_on_close
        self.files = Files(client.http, self)
        self.commands = Commands(client.http, self)
        self.pty = Ptys(client.http, self, self.commands)
        self.contexts = Contexts(client.http, self)
        self.ports = Ports(client.http, self)
        self.runs = Runs(client.http, self)
        self.variables = Variables(client.http, self)

    def _ready(self) -> SandboxInfo:
        if self._info is None:
            # Made here: a lock belongs to the event loop in which it was made.
            self._creating = self._creating or new_lock()
            with self._creating:
                if self._info is None:
                    self._info = self.client.create_sandbox(self._create_body)
        return self._info

    def _at(self, *what: str) -> str:
        info = self._ready()
        return "/".join(["/v1/sandboxes", path_part(info.id), *what])

    def _post(self, what: str, body: Optional[Mapping[str, Any]], repeatable: bool = False) -> Any:
        return self.client.http.json("POST", self._at(what), body=body, repeatable=repeatable)

    def _release_client(self) -> None:
        if self.client._is_private:
            self.client.http.close_and_wait()

    @property
    def _known(self) -> SandboxInfo:
        if self._info is None:
            raise error_of("conflict", "The sandbox is not created yet", hint="Await it first.")
        return self._info

    def _note(self, answer: Any) -> SandboxInfo:
        self._info = decode(SandboxInfo, answer)
        return self._info
