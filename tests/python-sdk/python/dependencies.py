"""The packages that the SDK needs, as Debian installs them, for a Python that is not Debian's.

`python3 dependencies.py DIRECTORY` links them into a directory.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

# httpx and websockets, and what they import. Versions of httpx differ in the rest of the list.
NAMES = ("httpx", "httpcore", "h11", "anyio", "sniffio", "idna", "certifi", "rfc3986", "websockets")


def package_directories() -> list[pathlib.Path]:
    """All of them are pure Python; the extension module of websockets is optional."""
    specs = [importlib.util.find_spec(name) for name in NAMES]
    return [pathlib.Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


if __name__ == "__main__":
    for directory in package_directories():
        os.symlink(directory, os.path.join(sys.argv[1], directory.name))
