"""A value that code displayed: text, tables, pictures."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Optional


class Result(dict):  # type: ignore[type-arg]
    """Mime types and values, as in a notebook: text as it is, binary as base64, JSON as JSON.

    A notebook displays it like its own results. `is_main` is true for the value of the last line, false for what the
    code displayed before.
    """

    def __init__(self, data: Any = (), is_main: bool = False) -> None:
        super().__init__(data)
        self.is_main = is_main

    @property
    def text(self) -> Optional[str]:
        return self.get("text/plain")

    @property
    def html(self) -> Optional[str]:
        return self.get("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self.get("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        return self.get("text/latex")

    @property
    def svg(self) -> Optional[str]:
        return self.get("image/svg+xml")

    @property
    def json(self) -> Any:
        return self.get("application/json")

    @property
    def png(self) -> Optional[bytes]:
        return self.data_of("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self.data_of("image/jpeg")

    def data_of(self, mime_type: str) -> Optional[bytes]:
        """The bytes of a binary value; None if there is none."""
        value = self.get(mime_type)
        if not isinstance(value, str):
            return None
        try:
            return base64.b64decode(value)
        except (binascii.Error, ValueError):
            return None

    def __repr__(self) -> str:
        return self.text if self.text is not None else f"Result({', '.join(self)})"

    def __reduce__(self) -> Any:
        return Result, (dict(self), self.is_main)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown = dict(self)
        if not shown:
            shown = {"text/plain": repr(self)}
        if include:
            shown = {name: value for name, value in shown.items() if name in include}
        return {name: value for name, value in shown.items() if name not in (exclude or ())}

    def _repr_html_(self) -> Optional[str]:
        return self.html

    def _repr_png_(self) -> Optional[bytes]:
        return self.png

    def _repr_jpeg_(self) -> Optional[bytes]:
        return self.jpeg

    def _repr_svg_(self) -> Optional[str]:
        return self.svg
