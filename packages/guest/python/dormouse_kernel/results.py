"""Sends the value of the last expression, and displayed objects, as `result` messages."""

import base64
import json
from typing import Any

from dormouse_kernel.bounded_text import bound_text
from dormouse_kernel.control import Control, encode
from dormouse_kernel.limits import MESSAGE_MAX_BYTES, RESULT_DEPTH, RESULT_TEXT_BYTES
from dormouse_kernel.output_streams import OutputStreams


class ResultSender:
    def __init__(self, control: Control, streams: OutputStreams) -> None:
        self._control = control
        self._streams = streams

    def send(self, data: dict[str, Any], main: bool) -> None:
        if self._control.in_child:
            # Only the parent has results; a forked child prints.
            print(data.get("text/plain", ""))
            return
        payload = _encode_bounded(data, main)
        self._streams.flush()
        self._control.send_encoded(payload)
        if not main:
            # Later output, also of child processes, must come after this result.
            self._control.wait_until_read()


def _encode_bounded(data: dict[str, Any], main: bool) -> bytes:
    """Drops the largest representations of a value until the rest fits into a message."""
    shown = {str(mime): _value(str(mime), value) for mime, value in data.items() if value is not None}
    while True:
        message: dict[str, Any] = {"type": "result", "data": shown}
        if main:
            message["main"] = True
        payload = encode(message)
        if len(payload) <= MESSAGE_MAX_BYTES or not shown:
            return payload
        largest = max(shown, key=lambda mime: len(encode({"": shown[mime]})))
        size = len(encode({"": shown.pop(largest)}))
        note = f"[{largest}: {size} bytes, too large to show]"
        shown["text/plain"] = f"{shown.get('text/plain', '')}\n{note}".lstrip("\n")


def _value(mime: str, value: Any) -> Any:
    if isinstance(value, str):
        return bound_text(value, RESULT_TEXT_BYTES) if mime == "text/plain" else value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    try:
        encoded = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return bound_text(repr(value), RESULT_TEXT_BYTES)
    if len(encoded) <= MESSAGE_MAX_BYTES // 4 and not _is_deep(value):
        return value
    return bound_text(encoded, RESULT_TEXT_BYTES)


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, (dict, list, tuple)) else []
    for _ in range(RESULT_DEPTH):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list, tuple))
        ]
        if not level:
            return False
    return True
