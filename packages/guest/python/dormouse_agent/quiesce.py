"""agent.quiesce: closes every accepted socket, because a snapshot does not contain its other end."""

import asyncio
from typing import TYPE_CHECKING

from dormouse_agent.channel import Channel
from dormouse_agent.limits import QUIESCE_S

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

# asyncio needs some iterations of the loop between accepting a socket and calling its protocol, and one to close it.
ACCEPT_ITERATIONS = 4


async def quiesce(agent: "Agent", channel: Channel) -> None:
    """Ends every other request and connection now, and this connection after its answer is sent."""
    own = channel.connection
    own.stop_reading()
    undoing = own.cancel_channels(but=channel) | agent.hanging_up
    for _ in range(ACCEPT_ITERATIONS):
        for other in agent.connections - {own}:
            undoing |= other.cancel_channels()
            other.drop()
        await asyncio.sleep(0)
    if undoing:
        await asyncio.wait(undoing, timeout=QUIESCE_S)
    channel.on_close = own.close_when_sent
