"""The one class of what goes wrong, with a few subclasses for `except`."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional


class DormouseError(Exception):
    """Decide on `code`; `message` and `hint` are for people.

    `status` is that of the HTTP answer, None when there was none. `request_id` finds the request in the
    server's log. `retry_after` is how many seconds the server asks to wait before the next try.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        docs: Optional[str] = None,
        details: Optional[Mapping[str, Any]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.status = status
        self.request_id = request_id
        self.docs = docs
        self.details: Mapping[str, Any] = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        said = f"{self.message} [{self.code}]"
        return f"{said} {self.hint}" if self.hint else said

    def __reduce__(self) -> Any:
        # Exceptions are pickled with their arguments only; these have keywords. They come out of process pools, too.
        return _restored, (type(self), {**self.__dict__})


class InvalidArgumentError(DormouseError):
    """The request is not right; `details["field"]` says where."""


class AuthenticationError(DormouseError):
    """No key, a wrong one, or one that may not do this."""


class NotFoundError(DormouseError):
    """There is no such sandbox, file, process, template …"""


class ConflictError(DormouseError):
    """The state of things does not allow it."""


class LimitError(DormouseError):
    """A quota or a rate limit."""


class ServerUnreachableError(DormouseError):
    """The server could not be reached, or stopped answering."""


class RunFailedError(DormouseError):
    """Code that had to succeed did not. `execution` is the run."""

    execution: Any = None


_CLASSES = {
    "invalid_argument": InvalidArgumentError,
    "unauthorized": AuthenticationError,
    "scope_missing": AuthenticationError,
    "not_found": NotFoundError,
    "template_not_found": NotFoundError,
    "already_exists": ConflictError,
    "name_taken": ConflictError,
    "in_use": ConflictError,
    "conflict": ConflictError,
    "limit_reached": LimitError,
    "rate_limited": LimitError,
    "server_unreachable": ServerUnreachableError,
    "run_failed": RunFailedError,
}

# May pass in a moment: a request that can be repeated is tried again.
_TRANSIENT = {"server_unreachable", "overloaded", "rate_limited", "agent_unreachable", "restore_failed"}
# The server has changed nothing.
_UNCHANGED = {"overloaded", "rate_limited"}


def error_of(code: str, message: str, **more: Any) -> DormouseError:
    return _CLASSES.get(code, DormouseError)(code, message, **more)


def error_from_answer(
    error: Mapping[str, Any], *, status: Optional[int] = None, retry_after: Optional[float] = None
) -> DormouseError:
    """From the `error` object of an answer or of a stream's last line."""
    details = error.get("details") or {}
    told = details.get("retryAfterMs")
    if isinstance(told, (int, float)):
        retry_after = told / 1000
    return error_of(
        str(error.get("code", "internal")),
        str(error.get("message", "")),
        hint=str(error.get("hint", "")),
        request_id=error.get("requestId"),
        docs=error.get("docs"),
        details=details,
        status=status,
        retry_after=retry_after,
    )


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> DormouseError:
    """What the server, or something in front of it, said instead of a success."""
    retry_after = _seconds(headers.get("retry-after"))
    try:
        error = json.loads(body)["error"]
        if isinstance(error["code"], str) and isinstance(error["message"], str):
            return error_from_answer(error, status=status, retry_after=retry_after)
    except (ValueError, KeyError, TypeError):
        pass
    text = body[:200].decode("utf-8", "replace")
    return error_of(
        # A proxy that cannot reach the server answers in its own words.
        "server_unreachable" if status in (502, 503, 504) else "internal",
        f"The address answered {status} and not in the way of Dormouse: {text}",
        hint="Look whether the address is right, and at what stands between here and the server.",
        status=status,
        request_id=headers.get("x-request-id"),
        retry_after=retry_after,
    )


_NOT_THERE = (
    "Look whether it runs (`dormouse up`) and whether the address is right. "
    "It may be starting; try again in a moment."
)
_UNTRUSTED = (
    "It answers, but its certificate is not trusted here: give the path of your own authority in SSL_CERT_FILE, or "
    "`tls=ssl.create_default_context(cafile=…)` to `Client`, and use the name that the certificate is for."
)


def unreachable(url: str, cause: BaseException) -> DormouseError:
    said = str(cause) or type(cause).__name__
    hint = _UNTRUSTED if "certificate" in said.lower() else _NOT_THERE
    return error_of("server_unreachable", f"The server at {url} cannot be reached: {said}", hint=hint)


def is_transient(error: DormouseError) -> bool:
    return error.code in _TRANSIENT


def is_unchanged(error: DormouseError) -> bool:
    return error.code in _UNCHANGED


def _seconds(header: Optional[str]) -> Optional[float]:
    """The date form is not used by the server, and a proxy's clock may be anything."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _restored(cls: Any, state: dict[str, Any]) -> DormouseError:
    error: DormouseError = cls(state["code"], state["message"])
    error.__dict__.update(state)
    return error
