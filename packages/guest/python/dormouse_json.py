"""JSON as agent and kernel exchange it, without what the `json` module does anew for each message."""

import json
from collections.abc import Callable
from json import encoder
from typing import Any

_decode = json.JSONDecoder().decode


def make_encoder(allow_nan: bool) -> Callable[[Any], bytes]:
    """Cycles are not noticed. Lone surrogates become question marks: unescaped output holds no \\uD800 escapes."""
    plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=allow_nan, separators=(",", ":"))
    try:
        # `JSONEncoder.encode` makes this object for each call.
        make: Any = encoder.c_make_encoder  # type: ignore[attr-defined]
        chunks = make(None, plain.default, encoder.encode_basestring, None, ":", ",", False, False, allow_nan)
        chunks({"": ""}, 0)
    except (AttributeError, TypeError):
        # An interpreter without the C part, or of a version with another one.
        return lambda value: plain.encode(value).encode("utf-8", "replace")
    return lambda value: "".join(chunks(value, 0)).encode("utf-8", "replace")


def decode(payload: bytes) -> Any:
    # `json.loads` first guesses the encoding.
    return _decode(payload.decode("utf-8", "surrogatepass"))
