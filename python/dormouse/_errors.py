"""The error class, with a few subclasses for `except`."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional


class DormouseError(Exception):
    """Programs decide on `code`; `message` and `hint` are for people.

    `status` is the HTTP status, None if there was no answer. `request_id` identifies the request in the server's log.
    `retry_after` is how many seconds the server asks to wait before the next attempt.
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
        text = f"{self.message} [{self.code}]"
        return f"{text} {self.hint}" if self.hint else text

    def __reduce__(self) -> Any:
        # Exceptions are pickled with positional arguments only; process pools pickle them.
        return _restored, (type(self), {**self.__dict__})


class InvalidArgumentError(DormouseError):
    """The request is invalid; `details["field"]` names the field."""


class AuthenticationError(DormouseError):
    """The API key is missing, wrong, or lacks a scope."""


class NotFoundError(DormouseError):
    """The sandbox, file, process, template … does not exist."""


class ConflictError(DormouseError):
    """The current state does not allow the request."""


class LimitError(DormouseError):
    """A quota or a rate limit was reached."""


class ServerUnreachableError(DormouseError):
    """The server could not be reached, or stopped answering."""


class RunFailedError(DormouseError):
    """`check()` found that code or a command failed. `execution` is the run."""

    execution: Any = None


class RunTimeoutError(RunFailedError):
    """`check()` found that code or a command was ended because its `timeout` had passed."""


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
    "run_timed_out": RunTimeoutError,
}

# May pass in a moment: a request that can be repeated is tried again.
_TRANSIENT = {"server_unreachable", "overloaded", "rate_limited", "agent_unreachable", "restore_failed"}
# The server has changed nothing.
_UNCHANGED = {"overloaded", "rate_limited"}


def error_of(code: str, message: str, **more: Any) -> DormouseError:
    return _CLASSES.get(code, DormouseError)(code, message, **more)


def timed_out(seconds: float) -> DormouseError:
    hint = "Give a longer `timeout`. What was started in the sandbox continues."
    return error_of("timed_out", f"The call did not end within its timeout of {seconds:g} s.", hint=hint)


def error_from_answer(
    error: Mapping[str, Any], *, status: Optional[int] = None, retry_after: Optional[float] = None
) -> DormouseError:
    """From the `error` object of an answer or of the last event of a stream."""
    details = error.get("details") or {}
    retry_after_ms = details.get("retryAfterMs")
    if isinstance(retry_after_ms, (int, float)):
        retry_after = retry_after_ms / 1000
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
    """From an answer with an error status, of the server or of a proxy in front of it."""
    retry_after = _seconds(headers.get("retry-after"))
    try:
        error = json.loads(body)["error"]
        if isinstance(error["code"], str) and isinstance(error["message"], str):
            return error_from_answer(error, status=status, retry_after=retry_after)
    except (ValueError, KeyError, TypeError):
        pass
    text = body[:200].decode("utf-8", "replace")
    return error_of(
        # A proxy that cannot reach the server sends its own page.
        "server_unreachable" if status in (502, 503, 504) else "internal",
        f"The address answered with status {status}, but not as a Dormouse server does: {text}",
        hint="Check the address, and any proxy between this program and the server.",
        status=status,
        request_id=headers.get("x-request-id"),
        retry_after=retry_after,
    )


_NOT_RUNNING = (
    "Check that it runs (`dormouse up`) and that the address is right. "
    "If it is starting, try again in a moment."
)
_UNTRUSTED = (
    "It answers, but its certificate is not trusted here. Set SSL_CERT_FILE to the file of your own authority, or give "
    "`tls=ssl.create_default_context(cafile=…)` to `Client`, and use the name that the certificate is for."
)


def unreachable(url: str, cause: BaseException) -> DormouseError:
    reason = str(cause) or type(cause).__name__
    hint = _UNTRUSTED if "certificate" in reason.lower() else _NOT_RUNNING
    return error_of("server_unreachable", f"The server at {url} cannot be reached: {reason}", hint=hint)


def is_transient(error: DormouseError) -> bool:
    return error.code in _TRANSIENT


def is_unchanged(error: DormouseError) -> bool:
    return error.code in _UNCHANGED


def _seconds(header: Optional[str]) -> Optional[float]:
    """Ignores dates: the server sends none, and the clock of a proxy may be wrong."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _restored(cls: Any, state: dict[str, Any]) -> DormouseError:
    error: DormouseError = cls(state["code"], state["message"])
    error.__dict__.update(state)
    return error
