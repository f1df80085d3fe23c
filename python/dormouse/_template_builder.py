"""Describes a template step by step."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from ._arguments import milliseconds
from ._network import Network, network_body

# A port, or one of `port`, `command` and `log`, and how many seconds it may take: `{"log": "listening", "timeout": 60}`.
Ready = Union[int, Mapping[str, Any]]


def ready_body(when: Optional[Ready]) -> Optional[dict[str, Any]]:
    if when is None:
        return None
    if isinstance(when, int):
        return {"port": when}
    body = dict(when)
    if "timeout" in body:
        body["timeoutMs"] = milliseconds("ready.timeout", body.pop("timeout"))
    return body


def login_body(login: Optional[Tuple[str, str]]) -> Optional[dict[str, str]]:
    return None if login is None else {"username": login[0], "password": login[1]}


class TemplateBuilder:
    """Every method returns a new builder. `client.templates.build` builds it."""

    def __init__(self, fields: Mapping[str, Any], steps: Sequence[Mapping[str, Any]] = ()) -> None:
        self._fields = fields
        self._steps = steps

    def run(self, command: str) -> TemplateBuilder:
        """Runs a command with `/bin/sh -c`, with the user and directory that earlier steps chose."""
        return self._step(run=command)

    def copy(
        self,
        sources: Union[str, Sequence[str]],
        to: str,
        *,
        chown: Optional[str] = None,
        chmod: Optional[str] = None,
    ) -> TemplateBuilder:
        """Copies files of the context, the directory that `build` gets. A directory copies what is in it."""
        paths = [sources] if isinstance(sources, str) else list(sources)
        return self._step(copy=paths, to=to, chown=chown, chmod=chmod)

    def env(self, values: Mapping[str, str]) -> TemplateBuilder:
        return self._step(env=dict(values))

    def workdir(self, path: str) -> TemplateBuilder:
        return self._step(workdir=path)

    def user(self, user: str) -> TemplateBuilder:
        return self._step(user=user)

    def shell(self, args: Sequence[str]) -> TemplateBuilder:
        """The program that `run` steps after this one get their command with: `["/bin/bash", "-c"]`."""
        return self._step(shell=list(args))

    def fresh(self) -> TemplateBuilder:
        """Runs the steps after this one again, even if their results are cached."""
        return self._step(fresh=True)

    def start(self, command: str) -> TemplateBuilder:
        """Starts a command once. Its processes run in every sandbox of the template."""
        return self._with(start=command)

    def ready(self, when: Ready) -> TemplateBuilder:
        """When the started command is ready: it listens at a port, prints the text `log`, or `command` succeeds."""
        return self._with(ready=ready_body(when))

    def login(self, username: str, password: str) -> TemplateBuilder:
        """For a registry that asks for a password. The server does not keep it."""
        return self._with(registryAuth=login_body((username, password)))

    def args(self, values: Mapping[str, str]) -> TemplateBuilder:
        """Values for `ARG` of a Dockerfile."""
        return self._with(buildArgs={**self._fields.get("buildArgs", {}), **values})

    def network(self, policy: Network) -> TemplateBuilder:
        """What the build may reach. Default: only package registries."""
        return self._with(network=network_body(policy))

    def isolation(self, kind: str) -> TemplateBuilder:
        """The default for sandboxes of the template: "process" or "microvm"."""
        return self._with(isolation=kind)

    def describe(self, description: str) -> TemplateBuilder:
        return self._with(description=description)

    @property
    def needs_context(self) -> bool:
        """Whether the build needs files of the context."""
        return "dockerfile" in self._fields or any("copy" in step for step in self._steps)

    def request(self, name: str) -> dict[str, Any]:
        """The body of the request that starts the build."""
        steps = {"steps": list(self._steps)} if self._steps else {}
        return {"name": name, **self._fields, **steps}

    def _with(self, **values: Any) -> TemplateBuilder:
        return TemplateBuilder({**self._fields, **values}, self._steps)

    def _step(self, **values: Any) -> TemplateBuilder:
        step = {name: value for name, value in values.items() if value is not None}
        return TemplateBuilder(self._fields, (*self._steps, step))
