"""Describes a template step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Mapping, Optional, Sequence, Union


@dataclass(frozen=True)
class TemplateBuilder:
    """Every method returns a new builder. `client.templates.build` builds it."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Mapping[str, Any]] = ()

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

    def start(self, command: str) -> TemplateBuilder:
        """Starts a command once. Its processes run in every sandbox of the template."""
        return self._with(start=command)

    def ready(self, when: Union[int, Mapping[str, Any]]) -> TemplateBuilder:
        """When the started command is ready: a port, or `{"command": …}`, or `{"log": …}`."""
        return self._with(ready={"port": when} if isinstance(when, int) else dict(when))

    def login(self, username: str, password: str) -> TemplateBuilder:
        """For a registry that asks for a password. The server does not keep it."""
        return self._with(registryAuth={"username": username, "password": password})

    def args(self, values: Mapping[str, str]) -> TemplateBuilder:
        """Values for `ARG` of a Dockerfile."""
        return self._with(buildArgs={**self.fields.get("buildArgs", {}), **values})

    def describe(self, description: str) -> TemplateBuilder:
        return self._with(description=description)

    @property
    def needs_context(self) -> bool:
        return "dockerfile" in self.fields or any("copy" in step for step in self.steps)

    def request(self, name: str) -> dict[str, Any]:
        """The body of the request that starts the build."""
        steps = {"steps": list(self.steps)} if self.steps else {}
        return {"name": name, **self.fields, **steps}

    def _with(self, **values: Any) -> TemplateBuilder:
        return replace(self, fields={**self.fields, **values})

    def _step(self, **values: Any) -> TemplateBuilder:
        step = {name: value for name, value in values.items() if value is not None}
        return replace(self, steps=(*self.steps, step))
