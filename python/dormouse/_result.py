"""A value that code displayed: text, tables, pictures."""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any, Optional, Union

from ._arguments import invalid_argument

# By the ending of a file.
_MIME_TYPES = {
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".md": "text/markdown",
    ".tex": "text/latex",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}


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
        """The bytes of a binary value; None if there is none, or if it is not base64."""
        value = self.get(mime_type)
        if not isinstance(value, str):
            return None
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            return None

    def save_to(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes it to a file of this machine. The ending says in which form: `plot.png`, `table.html`, `data.json`."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        mime_type = _MIME_TYPES.get(ending)
        content = None if mime_type is None else self._content_of(mime_type)
        if content is None:
            known = [each for each, of in _MIME_TYPES.items() if self._content_of(of) is not None]
            hint = f"This result can be saved as {', '.join(known)}." if known else ""
            problem = f"the result has no form for a file that ends in {ending!r}"
            raise invalid_argument("path", problem, hint=hint)
        with open(path, "wb") as file:
            file.write(content)

    def _content_of(self, mime_type: str) -> Optional[bytes]:
        value = self.get(mime_type)
        if value is None:
            return None
        if mime_type == "application/json":
            return json.dumps(value, ensure_ascii=False, indent=2).encode()
        if mime_type.startswith("text/") or mime_type == "image/svg+xml":
            return value.encode() if isinstance(value, str) else None
        return self.data_of(mime_type)

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

    def _repr_markdown_(self) -> Optional[str]:
        return self.markdown

    def _repr_latex_(self) -> Optional[str]:
        return self.latex

    def _repr_json_(self) -> Any:
        return self.json
