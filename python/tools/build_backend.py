"""Builds the package with the standard library alone (PEP 517 and 660): installing it takes nothing from anywhere."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

ROOT = Path(__file__).resolve().parent.parent
# The same bytes from the same files, whenever it is built.
BUILT_AT = (2026, 1, 1, 0, 0, 0)
Files = Mapping[str, bytes]


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None
) -> str:
    return _write_wheel(wheel_directory, dict(_package_files()))


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None
) -> str:
    return _write_wheel(wheel_directory, {"dormouse.pth": f"{ROOT}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    project = _project()
    base = f"{project['name']}-{project['version']}"
    files = {"PKG-INFO": _metadata(project), **dict(_package_files())}
    for name in ("pyproject.toml", "README.md", "tools/build_backend.py"):
        files[name] = (ROOT / name).read_bytes()
    with tarfile.open(Path(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return f"{base}.tar.gz"


def _write_wheel(directory: str, files: Files) -> str:
    project = _project()
    base = f"{project['name']}-{project['version']}"
    info = f"{base}.dist-info"
    tag = "py3-none-any"
    said = f"Wheel-Version: 1.0\nGenerator: {project['name']}\nRoot-Is-Purelib: true\nTag: {tag}\n"
    all_files = {**files, f"{info}/METADATA": _metadata(project), f"{info}/WHEEL": said.encode()}
    lines = [f"{name},{_digest(content)},{len(content)}" for name, content in all_files.items()]
    record = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(Path(directory, f"{base}-{tag}.whl"), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**all_files, f"{info}/RECORD": record}.items():
            entry = zipfile.ZipInfo(name, BUILT_AT)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return f"{base}-{tag}.whl"


def _package_files() -> Iterator[tuple[str, bytes]]:
    for path in sorted((ROOT / "dormouse").rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _metadata(project: Mapping[str, Any]) -> bytes:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {each}" for each in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(lines) + "\n\n" + (ROOT / project["readme"]).read_text("utf-8")).encode()


def _project() -> dict[str, Any]:
    """`[project]` of pyproject.toml. Python has no reader of TOML before 3.11; our strings and lists are those of Python, too."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    section = text.partition("\n[project]\n")[2].partition("\n[")[0]
    found = re.findall(r"^([\w-]+) = (.+?)(?=^[\w-]+ = |\Z)", section, re.M | re.S)
    return {name: ast.literal_eval(value.strip()) for name, value in found}
