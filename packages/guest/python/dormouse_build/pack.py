"""Writes files of a sandbox to an archive. What the source with the number 2 copies is below `d/2` or `f/2`."""

import glob
import os
import tarfile
from typing import BinaryIO


def pack(sources: list[str], output: BinaryIO) -> None:
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for number, source in enumerate(sources):
            found = sorted(glob.glob(os.path.join("/", source), include_hidden=True))
            if not found:
                raise ValueError(f"there is no {source}")
            for path in found:
                _add(archive, path, number)


def _add(archive: tarfile.TarFile, path: str, number: int) -> None:
    # A link that is named itself stands for what it points to; links below it stay links.
    path = os.path.realpath(path)
    if not os.path.isdir(path):
        archive.add(path, f"f/{number}/{os.path.basename(path)}")
        return
    for directory, names, files in os.walk(path):
        below = os.path.relpath(directory, path)
        archive.add(directory, os.path.normpath(f"d/{number}/{below}"), recursive=False)
        for name in sorted([*files, *(name for name in names if os.path.islink(os.path.join(directory, name)))]):
            archive.add(os.path.join(directory, name), os.path.normpath(f"d/{number}/{below}/{name}"))
