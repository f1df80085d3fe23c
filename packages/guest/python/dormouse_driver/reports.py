"""What an interpreter reports before the end of a run: values, errors and files, as messages of the agent's protocol."""

import base64
import os
from typing import Any

SEPARATOR = "\x1f"
# As the kernels for Python and JavaScript: one result fits a message of 16 MiB.
FILE_MAX_BYTES = 8 << 20


def read_report(text: str) -> dict[str, Any] | None:
    """None for the exit code that ends a command."""
    kind, *fields = text.split(SEPARATOR)
    if kind == "result" and len(fields) == 2:
        return {"type": "result", "data": {fields[0]: fields[1]}, "main": True}
    if kind == "file" and len(fields) == 2:
        return _read_file(*fields)
    if kind == "error" and len(fields) == 3:
        name, message, traceback = fields
        return {"type": "error", "name": name, "message": message, "traceback": f"{traceback}\n"}
    return None


def _read_file(mime: str, path: str) -> dict[str, Any]:
    """Reads a file that the interpreter made for the driver, and removes it."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
        os.unlink(path)
    except OSError as error:
        return {"type": "stderr", "data": f"{mime} cannot be shown: {error.strerror}\n"}
    if len(content) > FILE_MAX_BYTES:
        return {"type": "stderr", "data": f"{mime} has more than {FILE_MAX_BYTES} bytes and is not shown\n"}
    return {"type": "result", "data": {mime: base64.b64encode(content).decode()}}
