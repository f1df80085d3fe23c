"""A sandbox as six tools for an agent: a name, a JSON Schema and a function each.

    from dormouse import Sandbox
    from dormouse.tools import sandbox_tools

    with Sandbox() as sandbox:
        tools = {tool.name: tool for tool in sandbox_tools(sandbox)}
        tools["run_python"].execute({"code": "x = 41"})
        print(tools["run_python"].execute({"code": "x + 1"}).text)
"""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass, field
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from ._bounded_text import BoundedText
from ._errors import DormouseError, InvalidArgumentError
from ._execution import Execution
from ._process import CommandResult
from ._result import Result
from ._sync.sandbox import Sandbox

TEXT_MAX_BYTES = 20_000
READ_DEFAULT_BYTES = 50_000
READ_MAX_BYTES = 1024**2
# Common models refuse images of more than 5 MB as base64.
IMAGE_MAX_BYTES = 3_900_000
IMAGES_MAX = 10
LISTED_MAX = 500
TIMEOUT_MAX_MS = 24 * 3600 * 1000
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1_600
# The first bytes of an image. The sandbox chose the label, so the label proves nothing.
IMAGE_STARTS = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF8"),
    ("image/webp", b"RIFF"),
)
IMAGE_NAME = re.compile(r"\.(png|jpe?g|gif|webp)$", re.IGNORECASE)
CORRECT = "Correct the named input and call again."


@dataclass(frozen=True)
class ToolImage:
    media_type: str
    # Base64 without line breaks.
    data: str


@dataclass(frozen=True)
class ToolOutput:
    """What a tool returns to a model. A note in `text` says how to get what was left out."""

    text: str
    images: Tuple[ToolImage, ...] = ()
    # The tool could not do what was asked, or the code raised an exception. `text` says what to do next.
    is_error: bool = False

    @property
    def tokens(self) -> int:
        """About how many tokens a model reads for this result."""
        return -(-len(self.text) // CHARACTERS_PER_TOKEN) + TOKENS_PER_IMAGE * len(self.images)


SandboxSource = Union[Sandbox, Callable[[], Sandbox], None]


@dataclass
class SandboxTool:
    """A tool of a sandbox, for any framework that takes JSON Schema and a function."""

    name: str
    # For the model: what it does, what it keeps, when to use it, what it returns.
    description: str
    input_schema: Mapping[str, Any]
    _run: Callable[[Sandbox, Mapping[str, Any]], ToolOutput] = field(repr=False)
    _find: Callable[[], Sandbox] = field(repr=False)

    def execute(self, input: Any) -> ToolOutput:
        """Failures of the tool and of the code are results for the model, not exceptions."""
        try:
            checked = _check_input(self.input_schema, input)
            return self._run(self._find(), checked)
        except DormouseError as error:
            hint = f"\nHint: {error.hint}" if error.hint else ""
            return ToolOutput(_bounded(f"{error.code}: {error.message}{hint}"), is_error=True)

    async def execute_async(self, input: Any) -> ToolOutput:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.execute, input)


def sandbox_tools(sandbox: SandboxSource = None, *, only: Optional[Sequence[str]] = None) -> List[SandboxTool]:
    """The six tools of a sandbox. All of them use the same one, so state is kept from call to call.

    `sandbox` is a Sandbox, or a function that returns one when a tool is first used. Without it, the first use creates
    a sandbox. `only` names the tools to return; default: all of them.
    """
    names = [name for name, *_ in _DEFINITIONS]
    unknown = [name for name in only or () if name not in names]
    if unknown:
        raise InvalidArgumentError("invalid_argument", f"only: {unknown[0]!r} is not a tool", hint=f"The tools are {', '.join(names)}.")
    found: List[Sandbox] = [sandbox] if isinstance(sandbox, Sandbox) else []

    def find() -> Sandbox:
        if not found:
            found.append(sandbox() if callable(sandbox) else Sandbox(persistent=True))
        return found[0]

    return [
        SandboxTool(name, description, _schema(fields, required), run, find)
        for name, description, fields, required, run in _DEFINITIONS
        if only is None or name in only
    ]


def _schema(fields: Mapping[str, Any], required: Sequence[str]) -> Mapping[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def _check_input(schema: Mapping[str, Any], input: Any) -> Mapping[str, Any]:
    if not isinstance(input, Mapping):
        raise InvalidArgumentError("invalid_argument", "the input must be an object", hint=CORRECT)
    # Some models fill in all inputs.
    given = {name: value for name, value in input.items() if value is not None}
    problems = [f"{name}: is missing" for name in schema["required"] if name not in given]
    for name, value in given.items():
        problem = _problem_of(schema["properties"].get(name), value)
        if problem is not None:
            problems.append(f"{name}: {problem}")
    if problems:
        raise InvalidArgumentError("invalid_argument", "; ".join(problems), hint=CORRECT)
    return given


def _problem_of(field: Optional[Mapping[str, Any]], value: Any) -> Optional[str]:
    if field is None:
        return "is not an input of this tool"
    if field["type"] == "string":
        if not isinstance(value, str):
            return "must be text"
        return "must not be empty" if len(value) < field.get("minLength", 0) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return "must be a whole number"
    low, high = field.get("minimum", value), field.get("maximum", value)
    return None if low <= value <= high else f"must be from {low} to {high}"


def _run_python(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    return _describe_run(sandbox.run_code(input["code"], timeout=_seconds(input)))


def _run_shell(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    return _describe_command(sandbox.commands.run(input["command"], cwd=input.get("cwd"), timeout=_seconds(input)))


def _read_file(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    path, offset = input["path"], input.get("offsetBytes", 0)
    size = sandbox.files.stat(path).size_bytes
    if IMAGE_NAME.search(path) and size <= IMAGE_MAX_BYTES:
        image = _image_of(sandbox.files.read_bytes(path))
        if image is not None:
            return ToolOutput(f"[{path}]", (image,))
    part = _read_part(sandbox, path, offset, input.get("maxBytes", READ_DEFAULT_BYTES))
    whole = _whole_characters(part)
    text = whole.decode("utf-8", "replace")
    if "\0" in text:
        return ToolOutput(f"[a binary file of {size} bytes: work on it with run_python]")
    end = offset + len(whole)
    if end >= size or not whole:
        return ToolOutput(text or "[empty]")
    return ToolOutput(f"{text}\n[{size} bytes in total: continue with offsetBytes {end}]")


def _write_file(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    written = sandbox.files.write(input["path"], input["content"])
    return ToolOutput(f"[wrote {written.size_bytes} bytes to {written.path}]")


def _list_files(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    entries = sandbox.files.list(input.get("path", "."), depth=input.get("depth", 1))
    lines = [
        f"{entry.path}/"
        if entry.type == "directory"
        else f"{entry.path} -> {entry.target}"
        if entry.target is not None
        else f"{entry.path}  {entry.size_bytes} bytes"
        for entry in entries[:LISTED_MAX]
    ]
    more = f"\n[{len(entries) - LISTED_MAX} more: use find]" if len(entries) > LISTED_MAX else ""
    return ToolOutput("\n".join(lines) + more if lines else "[empty]")


def _preview_url(sandbox: Sandbox, input: Mapping[str, Any]) -> ToolOutput:
    sandbox.ports.wait(input["port"], timeout=5)
    return ToolOutput(sandbox.ports.link(input["port"]).path_url)


def _seconds(input: Mapping[str, Any]) -> Optional[float]:
    return input["timeoutMs"] / 1000 if "timeoutMs" in input else None


def _describe_run(run: Execution) -> ToolOutput:
    images = [image for result in run.results for image in _images_of(result)]
    error = run.error
    parts = [
        run.context_restarted and f"[The earlier variables are lost: {run.context_restarted}]",
        _bounded(run.stdout),
        run.stderr and f"[stderr]\n{_bounded(run.stderr)}",
        *(_bounded(text) for text in _displayed(run)),
        run.text and _bounded(run.text),
        # Usually stderr has it as well.
        error and error.traceback.rstrip() not in run.stderr and _bounded(error.traceback),
        run.timed_out and "[timed out: run it with a longer timeoutMs, or in smaller steps; the variables are kept]",
        error is None and run.out_of_memory and f"[{run.out_of_memory}]",
        error is None and run.exit_code != 0 and f"[exit code {run.exit_code}]",
        len(images) > IMAGES_MAX and f"[{len(images) - IMAGES_MAX} images left out]",
    ]
    return ToolOutput(_join(parts, bool(images)), tuple(images[:IMAGES_MAX]), error is not None)


def _describe_command(result: CommandResult) -> ToolOutput:
    parts = [
        _bounded(result.stdout),
        result.stderr and f"[stderr]\n{_bounded(result.stderr)}",
        result.timed_out and "[timed out: give it a longer timeoutMs, or start it in the background with `&`]",
        result.out_of_memory and f"[{result.out_of_memory}]",
        result.exit_code != 0 and f"[exit code {result.exit_code}]",
    ]
    return ToolOutput(_join(parts, False))


def _displayed(run: Execution) -> List[str]:
    shown = [result for result in run.results if not result.is_main and not _images_of(result)]
    texts = [result.markdown or result.text for result in shown]
    return [text for text in texts if text and text != run.text][:IMAGES_MAX]


def _images_of(result: Result) -> List[ToolImage]:
    for media_type, _ in IMAGE_STARTS:
        data = result.data_of(media_type)
        image = None if data is None or len(data) > IMAGE_MAX_BYTES else _image_of(data)
        if image is not None:
            return [image]
    return []


def _image_of(data: bytes) -> Optional[ToolImage]:
    for media_type, start in IMAGE_STARTS:
        if data.startswith(start):
            return ToolImage(media_type, base64.b64encode(data).decode())
    return None


def _read_part(sandbox: Sandbox, path: str, offset: int, size: int) -> bytes:
    part, at = bytearray(), 0
    with sandbox.files.stream(path) as pieces:
        for piece in pieces:
            part += piece[max(0, offset - at) :]
            at += len(piece)
            if len(part) >= size:
                break
    return bytes(part[:size])


def _whole_characters(data: bytes) -> bytes:
    """Without a character of UTF-8 that the end cuts in half."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _bounded(text: str) -> str:
    kept = BoundedText(TEXT_MAX_BYTES)
    kept.add(text)
    if kept.lost_bytes == 0:
        return text
    return f"{kept.text()}\n[cut: print less, or write it to a file and read parts of it with read_file]"


def _join(parts: Sequence[Any], has_images: bool) -> str:
    shown = [part for part in parts if isinstance(part, str) and part]
    if shown:
        return "\n".join(part[:-1] if part.endswith("\n") else part for part in shown)
    return "[no text, see the images]" if has_images else "[no output]"


_PATH = {"type": "string", "minLength": 1, "description": "Absolute, or relative to the home directory."}
_TIMEOUT = {
    "type": "integer",
    "minimum": 1,
    "maximum": TIMEOUT_MAX_MS,
    "description": "Stop it after this many milliseconds. Default: no limit.",
}
_DEFINITIONS: Sequence[Any] = (
    (
        "run_python",
        "Run Python code in a REPL that keeps its state: variables, imports, open files and threads of earlier calls "
        "are still there, even days later. Load data once and use it in later calls; do not repeat earlier code. "
        "numpy, pandas, matplotlib, scipy, scikit-learn, requests and openpyxl are installed. Returns stdout, stderr, "
        "the value of the last expression, plots as images, and the traceback of an exception (the variables stay).",
        {
            "code": {"type": "string", "description": "As in a notebook cell. The value of the last expression is returned."},
            "timeoutMs": _TIMEOUT,
        },
        ["code"],
        _run_python,
    ),
    (
        "run_shell",
        "Run a bash command. Files and background processes stay; the working directory and shell variables do not "
        "(give `cwd`, or use `cd dir && …`). Start a server with `nohup … >log 2>&1 &`. Returns stdout, stderr and the "
        "exit code.",
        {
            "command": {"type": "string", "minLength": 1, "description": "For `bash -c`."},
            "cwd": {"type": "string", "minLength": 1, "description": "Working directory. Default: the home directory."},
            "timeoutMs": _TIMEOUT,
        },
        ["command"],
        _run_shell,
    ),
    (
        "preview_url",
        "Return a link that opens a web server inside the sandbox in a browser, for an hour. Opening it wakes the "
        "sandbox.",
        {"port": {"type": "integer", "minimum": 1, "maximum": 65_535, "description": "The port of the program."}},
        ["port"],
        _preview_url,
    ),
    (
        "read_file",
        "Read a file, or a part of it. Images are returned as images. Work on large data with run_python instead.",
        {
            "path": _PATH,
            "offsetBytes": {"type": "integer", "minimum": 0, "description": "Where to start. Default: 0."},
            "maxBytes": {
                "type": "integer",
                "minimum": 1,
                "maximum": READ_MAX_BYTES,
                "description": f"The most to read. Default: {READ_DEFAULT_BYTES}.",
            },
        },
        ["path"],
        _read_file,
    ),
    (
        "write_file",
        "Write a text file. Makes missing directories and replaces an existing file in one step.",
        {"path": _PATH, "content": {"type": "string", "description": "The whole new content."}},
        ["path", "content"],
        _write_file,
    ),
    (
        "list_files",
        f"List a directory with types and sizes, at most {LISTED_MAX} entries. To search, use run_shell with find or grep.",
        {
            "path": {**_PATH, "description": "The directory. Default: the home directory."},
            "depth": {"type": "integer", "minimum": 1, "maximum": 10, "description": "1, the default: only this directory."},
        },
        [],
        _list_files,
    ),
)
