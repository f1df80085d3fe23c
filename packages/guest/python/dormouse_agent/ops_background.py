"""background.*"""

from typing import TYPE_CHECKING, Any

from dormouse_agent.background import watch_background
from dormouse_agent.channel import Channel
from dormouse_agent.operations import operation

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent


@operation("background.watch", {})
async def watch(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    return await watch_background(agent, channel)


OPERATIONS = (watch,)
