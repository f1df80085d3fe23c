"""port.*"""

from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.fields import Whole
from dormouse_agent.operations import operation
from dormouse_agent.port_list import listeners, wait_for_listener

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

PORT = Whole(1, 65535)


@operation("port.wait", {"port": PORT, "timeoutMs": Whole(0, limits.TIMEOUT_MAX_MS)})
async def wait(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    listener = await wait_for_listener(args["port"], args["timeoutMs"] / 1000)
    return {"port": listener.port, "address": listener.address}


@operation("port.list", {})
def list_ports(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    return {"ports": [{"port": one.port, "address": one.address} for one in listeners()]}


OPERATIONS = (
    wait,
    list_ports,
)
