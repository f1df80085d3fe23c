"""The templates of a server."""

from __future__ import annotations

import time
from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

from .._arguments import milliseconds
from .._build_context import open_image, pack_context
from .._json import decode, decode_all, given
from .._errors import error_of, timed_out
from .._paths import path_part
from .._network import Network, network_body
from .._template_builder import Login, Ready, TemplateBuilder, login_body, ready_body
from .._values import Template, TemplateMaterials
from .content import Content, body_of
from .follow import SSE, EventLines
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
        isolation: Optional[str] = None,
        packages: Optional[Sequence[str]] = None,
        pip: Optional[Sequence[str]] = None,
        commands: Optional[Sequence[str]] = None,
        preload: Optional[Sequence[str]] = None,
        image: Optional[str] = None,
        registry_auth: Union[Login, Sequence[Login], None] = None,
        dockerfile: Optional[str] = None,
        target: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        context: Optional[str] = None,
        steps: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[str] = None,
        ready: Optional[Ready] = None,
    ) -> Template:
        """Makes a template from a snapshot, or starts to build one: `wait` returns when it is ready.

        The build runs in a sandbox of the template `from_` (default `python`), which may reach what `network` allows
        (default: package registries). `packages` are Debian's and `pip` Python's. Then bash runs `commands` as root.
        `isolation` is the default for sandboxes of the template. They start with the modules of `preload` imported.
        For the arguments after it, `build` takes a `TemplateBuilder`; here `registry_auth` is a user name, a password
        and maybe the registry, or a list of those, and `context` is the id of an `upload`.
        """
        body = given(
            name=name,
            snapshot_id=snapshot_id,
            description=description,
            from_=from_,
            network=network_body(network),
            isolation=isolation,
            packages=packages,
            pip=pip,
            commands=commands,
            preload=preload,
            image=image,
            registry_auth=login_body(registry_auth),
            dockerfile=dockerfile,
            target=target,
            build_args=build_args,
            context=context,
            steps=steps,
            start=start,
            ready=ready_body(ready),
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
        upload = None
        if builder.archive is not None:
            with open_image(builder.archive) as image:
                upload = await self.upload(image)
        body = builder.request(name, upload)
        if builder.needs_context:
            with pack_context(context) as archive:
                body["context"] = await self.upload(archive)
        await self._http.json("POST", "/v1/templates", body=body)
        if on_log is not None:
            async for line in self.log(name):
                await call_handler(on_log, line["text"])
        return await self.wait(name, timeout=timeout)

    async def upload(self, archive: Content) -> str:
        """Sends a tar archive: the context of a build, or an image (`image="upload:ID"`). Returns its id.

        Streams an open file or an iterable: `upload(open("web.tar", "rb"))`.
        """
        content = body_of("archive", archive)
        answer = await self._http.json("POST", "/v1/uploads", content=content, timeout=None)
        upload_id: str = answer["id"]
        return upload_id

    async def debug(self, name: str, *, sandbox_name: Optional[str] = None) -> str:
        """Creates a sandbox in the state before the step of a build that failed. Returns its id."""
        body = given(name=sandbox_name)
        answer = await self._http.json("POST", f"/v1/templates/{path_part(name)}/debug", body=body)
        sandbox_id: str = answer["id"]
        return sandbox_id

    async def log(self, name: str) -> AsyncIterator[Mapping[str, Any]]:
        """The lines of a build's log as they come, each with `seq`, `at` and `text`.

        Ends with the build; later it has the end of the log.
        """
        path = f"/v1/templates/{path_part(name)}/log"
        lines = EventLines(await self._http.open("GET", path, headers=SSE))
        try:
            while (line := await lines.next()) is not None:
                yield line
        finally:
            lines.close()

    async def list(self) -> List[Template]:
        return decode_all(Template, await self._http.pages("/v1/templates"))

    async def get(self, name: str) -> Template:
        return decode(Template, await self._http.json("GET", f"/v1/templates/{path_part(name)}"))

    async def materials(self, name: str) -> TemplateMaterials:
        """All packages that it was built from, with digests. Raises `not_found` if they were not recorded."""
        answer = await self._http.json("GET", f"/v1/templates/{path_part(name)}/materials")
        return decode(TemplateMaterials, answer)

    async def wait(self, name: str, *, timeout: Optional[float] = None, on_log: Any = None) -> Template:
        """Waits until it is ready. A failed build raises `setup_failed`, with `logTail` and `failedStep` in `details`.

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
                hint = 'The end of its log is in `details["logTail"]`.'
                if template.failed_step is not None:
                    hint += " `templates.debug` starts a sandbox before the step."
                raise error_of(
                    "setup_failed",
                    f"The template {name} could not be built: {template.error or ''}",
                    hint=hint,
                    details={"logTail": template.log_tail, "failedStep": template.failed_step},
                )
            if seconds > 0 and time.monotonic() > end:
                raise timed_out(seconds)
            await sleep(POLL_SECONDS)

    async def delete(self, name: str) -> None:
        """Refused while a sandbox needs it. Ends a build that runs."""
        await self._http.json("DELETE", f"/v1/templates/{path_part(name)}")
