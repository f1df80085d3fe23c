"""A sandbox as tools of the OpenAI Agents SDK: `Agent(name="analyst", tools=dormouse_tools(sandbox))`."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Sequence

from .tools import SandboxSource, SandboxTool, sandbox_tools


def dormouse_tools(sandbox: SandboxSource = None, *, only: Optional[Sequence[str]] = None) -> List[Any]:
    """`FunctionTool`s of the package `openai-agents`, which must be installed."""
    try:
        from agents import FunctionTool
    except ImportError as error:
        raise ImportError("Install the framework first: pip install openai-agents") from error
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.input_schema),
            on_invoke_tool=_invoker(tool),
            # Strict schemas have no optional inputs.
            strict_json_schema=False,
        )
        for tool in sandbox_tools(sandbox, only=only)
    ]


def _invoker(tool: SandboxTool) -> Any:
    async def invoke(_context: Any, input: str) -> Any:
        try:
            given = json.loads(input or "{}")
        except ValueError:
            return "invalid_argument: the input is not JSON"
        output = await tool.execute_async(given)
        if not output.images:
            return output.text
        images = [
            {"type": "image", "image_url": f"data:{image.media_type};base64,{image.data}"} for image in output.images
        ]
        return [{"type": "text", "text": output.text}, *images]

    return invoke
