"""Events of the server as signed requests to a receiver outside."""

from __future__ import annotations

from typing import List, Optional, Sequence

from .._json import decode, decode_all, given
from .._paths import path_part
from .._webhooks import Delivery, Webhook
from .http import Http


class AsyncWebhooks:
    """Events of the server as signed requests to a receiver outside."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        name: str,
        url: str,
        events: Sequence[str],
        *,
        sandbox: Optional[str] = None,
        enabled: Optional[bool] = None,
    ) -> Webhook:
        """Returns it with its `secret`, which signs deliveries and is shown only once."""
        how = given(sandbox=sandbox, enabled=enabled)
        body = {"name": name, "url": url, "events": list(events), **how}
        return decode(Webhook, await self._http.json("POST", "/v1/webhooks", body=body))

    async def list(self) -> List[Webhook]:
        return decode_all(Webhook, await self._http.pages("/v1/webhooks"))

    async def get(self, name: str) -> Webhook:
        return decode(Webhook, await self._http.json("GET", _path(name)))

    async def update(
        self,
        name: str,
        *,
        url: Optional[str] = None,
        events: Optional[Sequence[str]] = None,
        enabled: Optional[bool] = None,
    ) -> Webhook:
        body = given(url=url, events=events, enabled=enabled)
        return decode(Webhook, await self._http.json("PATCH", _path(name), body=body))

    async def delete(self, name: str) -> None:
        await self._http.json("DELETE", _path(name))

    async def rotate(self, name: str) -> Webhook:
        """Makes a new secret. For a day, the former one also signs."""
        return decode(Webhook, await self._http.json("POST", f"{_path(name)}/rotate", body={}))

    async def test(self, name: str) -> Delivery:
        """Sends an event of type "test" now, once."""
        return decode(Delivery, await self._http.json("POST", f"{_path(name)}/test", body={}))

    async def deliveries(self, name: str) -> List[Delivery]:
        """The latest 200, newest first."""
        answer = await self._http.json("GET", f"{_path(name)}/deliveries")
        return decode_all(Delivery, answer["items"])


def _path(name: str) -> str:
    return f"/v1/webhooks/{path_part(name)}"
