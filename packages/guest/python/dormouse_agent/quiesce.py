"""agent.quiesce: no accepted socket is left, because its other end is outside of what a snapshot holds."""

import asyncio
from typing import TYPE_CHECKING

from dormouse_agent.channel import Channel
from dormouse_agent.limits import QUIESCE_S

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# asyncio needs some turns of the loop from accepting a socket to telling its protocol, and one to close it.
ACCEPT_TURNS = 4


async def quiesce(agent: "Agent", channel: Channel) -> None:
    """Ends every other request and connection now, and the connection of this one behind its answer."""
    own = channel.connection
    own.stop_reading()
    undoing = own.cancel_channels(but=channel)
    for _ in range(ACCEPT_TURNS):
        for other in agent.connections - {own}:
            undoing |= other.cancel_channels()
            other.drop()
        await asyncio.sleep(0)
    if undoing:
        await asyncio.wait(undoing, timeout=QUIESCE_S)
    channel.on_close = own.close_when_sent
