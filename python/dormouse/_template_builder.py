"""Describes a template step by step."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from ._arguments import invalid_argument, milliseconds
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


# A user name, a password, and the registry if the build pulls from several.
Login = Union[Tuple[str, str], Tuple[str, str, str]]


def login_body(logins: Union[Login, Sequence[Login], None]) -> Optional[List[dict[str, str]]]:
    if logins is None:
        return None
    each: Any = [logins] if isinstance(logins[0], str) else logins
    return [dict(zip(("username", "password", "registry"), login)) for login in each]


class TemplateBuilder:
    """Every method returns a new builder. `client.templates.build` builds it."""

    def __init__(
        self,
        fields: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]] = (),
        *,
        archive: Optional[str] = None,
    ) -> None:
        self._fields = fields
        self._steps = steps
        # Of an image on this machine: an archive, or the directory of an OCI layout. `build` sends it.
        self.archive = archive

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

    def login(self, username: str, password: str, registry: Optional[str] = None) -> TemplateBuilder:
        """For a registry that asks for a password. Name the registry if the build pulls from several.

        Only that registry gets the password. The server does not keep it.
        """
        login = (username, password) if registry is None else (username, password, registry)
        return self._with(registryAuth=[*self._fields.get("registryAuth", []), *login_body([login])])

    def target(self, stage: str) -> TemplateBuilder:
        """The stage of a Dockerfile to build. Default: the last."""
        return self._with(target=stage)

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

    def request(self, name: str, upload: Optional[str] = None) -> dict[str, Any]:
        """The body of the request that starts the build. An image on this machine needs the id of its upload."""
        steps = {"steps": list(self._steps)} if self._steps else {}
        body = {"name": name, **self._fields, **steps}
        if self.archive is None:
            return body
        if upload is None:
            raise invalid_argument("upload", "is missing: the image is on this machine", hint="Use `build`.")
        return {**body, "image": f"upload:{upload}"}

    def _with(self, **values: Any) -> TemplateBuilder:
        return TemplateBuilder({**self._fields, **values}, self._steps, archive=self.archive)

    def _step(self, **values: Any) -> TemplateBuilder:
        step = {name: value for name, value in values.items() if value is not None}
        return TemplateBuilder(self._fields, (*self._steps, step), archive=self.archive)
