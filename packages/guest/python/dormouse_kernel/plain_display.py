"""Shows values without IPython, by the methods that its display protocol names (`_repr_html_` and the like)."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from dormouse_kernel.report import report_of
from dormouse_kernel.results import ResultSender

METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
    "application/pdf": "_repr_pdf_",
}
Format = Callable[[Any], Any]


class TypeFormats:
    """Functions for types by name: the types' modules are not imported for them."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], Format] = {}

    def for_type_by_name(self, module: str, name: str, format_: Format) -> None:
        self._by_name[module, name] = format_

    def find(self, kind: type) -> Format | None:
        for each in kind.__mro__:
            found = self._by_name.get((each.__module__, each.__name__))
            if found is not None:
                return found
        return None


class PlainDisplay:
    """Has the parts of IPython's formatter and publisher that Figures uses."""

    def __init__(self, sender: ResultSender) -> None:
        self._sender = sender
        self.formatters: defaultdict[str, TypeFormats] = defaultdict(TypeFormats)
        self.display_formatter = self.display_pub = self

    def display(self, *values: Any) -> None:
        """What IPython's `display` is to user code."""
        for value in values:
            self.publish(self.format(value)[0])

    def publish(self, data: dict[str, Any], metadata: Any = None) -> None:
        if data:
            self._sender.send(data, main=False)

    def format(self, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data = {"text/plain": _attempt(repr, value, "<its repr() failed>")}
        kind = type(value)
        # A class has the methods of its instances, which it cannot call.
        if not isinstance(value, type):
            bundle = getattr(kind, "_repr_mimebundle_", None)
            if bundle is not None:
                found = _attempt(bundle, value)
                found = found[0] if isinstance(found, tuple) else found
                data.update(found if isinstance(found, dict) else {})
            for mime, name in METHODS.items():
                self._add(data, mime, getattr(kind, name, None), value)
            for mime, formats in self.formatters.items():
                self._add(data, mime, formats.find(kind), value)
        return data, {}

    def _add(self, data: dict[str, Any], mime: str, format_: Format | None, value: Any) -> None:
        found = None if format_ is None else _attempt(format_, value)
        if found is not None:
            # `_repr_html_` and the like may return a pair with metadata.
            data[mime] = found[0] if isinstance(found, tuple) and len(found) == 2 else found


def _attempt(function: Format, value: Any, instead: Any = None) -> Any:
    """What the function returns. An error of the user's class is printed, and the other forms are still shown."""
    try:
        return function(value)
    except Exception as error:  # noqa: BLE001 - methods of user code may raise anything
        print(report_of(error).traceback, end="", file=sys.stderr)
        return instead
