"""A sandbox as tools of LangChain and LangGraph: `model.bind_tools(dormouse_tools(sandbox))`."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from .tools import SandboxSource, SandboxTool, ToolOutput, sandbox_tools


def dormouse_tools(sandbox: SandboxSource = None, *, only: Optional[Sequence[str]] = None) -> List[Any]:
    """`StructuredTool`s of the package `langchain-core`, which must be installed. Artifacts have images and tokens."""
    try:
        from langchain_core.tools import StructuredTool
    except ImportError as error:
        raise ImportError("Install the framework first: pip install langchain-core") from error
    return [_structured_tool(StructuredTool, tool) for tool in sandbox_tools(sandbox, only=only)]


def _structured_tool(structured_tool: Any, tool: SandboxTool) -> Any:
    def call(**input: Any) -> Tuple[Any, ToolOutput]:
        return _answer(tool.execute(input))

    async def call_async(**input: Any) -> Tuple[Any, ToolOutput]:
        return _answer(await tool.execute_async(input))

    return structured_tool.from_function(
        func=call,
        coroutine=call_async,
        name=tool.name,
        description=tool.description,
        args_schema=dict(tool.input_schema),
        response_format="content_and_artifact",
    )


def _answer(output: ToolOutput) -> Tuple[Any, ToolOutput]:
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}} for image in output.images
    ]
    return ([{"type": "text", "text": output.text}, *images] if images else output.text), output
