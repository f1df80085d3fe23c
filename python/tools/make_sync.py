"""Writes `dormouse/_sync` from `dormouse/_async`. `--check` only reports files that are not up to date."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "dormouse"
# Written by hand, one for each half.
TWINS = {"io.py", "__init__.py"}
NOTE = "# Written by tools/make_sync.py from _async/{name}: change that one.\n"
NAMES = {
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "StopAsyncIteration": "StopIteration",
    "AsyncIterator": "Iterator",
    # Of httpx.
    "aclose": "close",
    "aiter_raw": "iter_raw",
}


def sync_source(source: str, name: str) -> str:
    # An awaitable of a value becomes the value.
    source = re.sub(r"Awaitable\[([^\[\]]+)\]", r"\1", source)
    source = re.sub(r"\bAwaitable, ", "", source)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    # From the end, so that the positions of earlier tokens stay right.
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        (row, start), (_, end) = token.start, token.end
        if token.type == tokenize.NAME:
            if token.string in ("async", "await"):
                # With the space behind it.
                lines[row - 1] = lines[row - 1][:start] + lines[row - 1][end:].lstrip(" ")
                continue
            replaced = NAMES.get(token.string, re.sub(r"^Async(?=[A-Z])", "", token.string))
        elif token.type in (tokenize.STRING, tokenize.COMMENT) and row == token.end[0]:
            replaced = _words(token.string)
        elif token.type == tokenize.STRING:
            for line in range(row - 1, token.end[0]):
                lines[line] = _words(lines[line])
            continue
        else:
            continue
        lines[row - 1] = lines[row - 1][:start] + replaced + lines[row - 1][end:]
    return NOTE.format(name=name) + _unique_imports("".join(lines))


def _words(text: str) -> str:
    return re.sub(r"\bAsync(?=[A-Z])", "", text)


def _unique_imports(source: str) -> str:
    """`AsyncIterator, Iterator` has become one name twice."""

    def once(match: re.Match[str]) -> str:
        names = dict.fromkeys(match.group(1).split(", "))
        return f"from typing import {', '.join(names)}\n"

    return re.sub(r"^from typing import (.+)\n", once, source, flags=re.MULTILINE)


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    stale = []
    wanted = {path.name for path in (PACKAGE / "_async").glob("*.py")}
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        if path.name in TWINS:
            continue
        target = PACKAGE / "_sync" / path.name
        written = sync_source(path.read_text("utf-8"), path.name)
        if target.exists() and target.read_text("utf-8") == written:
            continue
        stale.append(path.name)
        if not is_check:
            target.write_text(written, "utf-8")
    extra = sorted({path.name for path in (PACKAGE / "_sync").glob("*.py")} - wanted)
    for name in [*stale, *extra]:
        print(f"dormouse/_sync/{name} is not up to date with dormouse/_async", file=sys.stderr)
    return 1 if (is_check and stale) or extra else 0


if __name__ == "__main__":
    sys.exit(main())
