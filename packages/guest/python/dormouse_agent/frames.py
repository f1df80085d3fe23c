"""Frames on the host's connection: layout and JSON encoding."""

import json
import struct
from typing import Any

HELLO, REQUEST, ITEM, DATA, END, ERROR, CANCEL, CREDIT = range(1, 9)

HEADER = struct.Struct(">IBBI")
CREDIT_BODY = struct.Struct(">I")

_encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: Any) -> bytes:
    # Unescaped output holds no \uD800 escapes, so replacing here keeps lone surrogates off the wire.
    return _encoder.encode(value).encode("utf-8", "replace")
