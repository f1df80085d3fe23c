"""Small pictures of arrays and images, as PNG."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from dormouse_kernel.inspection.known_types import is_of_library, library_name, library_of

SIDE_MAX = 512
# Smaller arrays of numbers are rather a table than a picture.
SIDE_MIN = 16
# PNG's colour types by channels.
COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


def is_picture(value: Any) -> bool:
    if library_of(type(value)) == "numpy.ndarray":
        return _is_picture_array(value)
    return is_loaded_image(value)


def picture_of(value: Any) -> dict[str, Any] | None:
    """A picture of at most 512 pixels a side, and the size of the original."""
    if not is_picture(value):
        return None
    if library_of(type(value)) == "numpy.ndarray":
        height, width = value.shape[:2]
        pixels = _sampled(value)
        shown = (pixels.shape[1], pixels.shape[0])
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        content = pixels.tobytes()
    else:
        (width, height), (shown, channels, content) = value.size, _image_pixels(value)
    png = _png(shown, channels, content)
    return {"png": base64.b64encode(png).decode(), "width": int(width), "height": int(height)}


def is_loaded_image(value: Any) -> bool:
    """An image of Pillow whose pixels are in memory. Reading the others would read their file."""
    image = library_name("PIL.Image", "Image")
    if image is None or not is_of_library(value, "PIL") or not issubclass(type(value), image):
        return False
    fields = object.__getattribute__(value, "__dict__")
    return fields.get("_im", fields.get("im")) is not None and min(value.size) > 0


def _is_picture_array(array: Any) -> bool:
    if array.ndim not in (2, 3) or min(array.shape[:2]) < SIDE_MIN:
        return False
    if array.ndim == 3 and array.shape[2] not in COLOUR_TYPES:
        return False
    return bool(array.dtype == "uint8" or (array.ndim == 3 and array.dtype.kind == "f"))


def _sampled(array: Any) -> Any:
    step = -(-max(array.shape[:2]) // SIDE_MAX)
    pixels = array[::step, ::step]
    if pixels.dtype.kind == "f":
        # From 0 to 1, as matplotlib takes it.
        number = library_name("numpy", "nan_to_num")
        pixels = (number(pixels).clip(0, 1) * 255).astype("uint8")
    return pixels


def _image_pixels(image: Any) -> tuple[tuple[int, int], int, bytes]:
    scale = max(1, max(image.size) / SIDE_MAX)
    shown = (max(1, int(image.size[0] / scale)), max(1, int(image.size[1] / scale)))
    # The nearest pixels: works in every mode, and makes no copy of the whole image.
    small = image.resize(shown, 0).convert("RGBA")
    return shown, 4, small.tobytes()


def _png(size: tuple[int, int], channels: int, pixels: bytes) -> bytes:
    width, height = size
    line = width * channels
    rows = b"".join(b"\0" + pixels[at : at + line] for at in range(0, line * height, line))
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows, 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
