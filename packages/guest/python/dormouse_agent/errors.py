"""The error that a request can end with, and how system errors are mapped to it."""

import errno
import os
from typing import Any

from dormouse_agent.limits import ERROR_MESSAGE_CHARS

CODE_OF_ERRNO = {
    errno.ENOENT: "not_found",
    errno.ESRCH: "not_found",
    errno.EEXIST: "already_exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ETXTBSY: "permission_denied",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ENOTEMPTY: "directory_not_empty",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "too_large",
    errno.E2BIG: "too_large",
    errno.EMFILE: "limit_reached",
    errno.ENFILE: "limit_reached",
    errno.EAGAIN: "limit_reached",
    errno.ENOMEM: "limit_reached",
    errno.EBUSY: "conflict",
    errno.ELOOP: "invalid_argument",
    errno.ENAMETOOLONG: "invalid_argument",
    errno.EINVAL: "invalid_argument",
    errno.EXDEV: "invalid_argument",
    errno.ENOEXEC: "invalid_argument",
}


class OpError(Exception):
    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:ERROR_MESSAGE_CHARS]
        self.details = details

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message}


def invalid(field: str, message: str) -> OpError:
    return OpError("invalid_argument", f"{field}: {message}", {"field": field})


def op_error_of(error: OSError, path: str | None = None) -> OpError:
    code = CODE_OF_ERRNO.get(error.errno or 0, "internal")
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = path if path is not None else error.filename
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    return OpError(code, f"{where}: {reason}" if where else reason)
