"""file.*"""

import os
import stat
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.channel import Channel
from dormouse_agent.errors import OpError
from dormouse_agent.fields import USER, Flag, PathText, Text, Whole
from dormouse_agent.file_list import list_directory
from dormouse_agent.file_move import move
from dormouse_agent.file_read import read_file
from dormouse_agent.file_remove import remove
from dormouse_agent.file_stat import Describer
from dormouse_agent.file_watch import watch_files
from dormouse_agent.file_write import append_file, make_parents, replace_file
from dormouse_agent.operations import operation
from dormouse_agent.users import acting_as

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

PATH = PathText()
AS_USER = Text(USER, default=None)
MODE = Whole(0, 0o7777, default=None)
BYTES = 2**53


@operation(
    "file.read",
    {
        "path": PATH,
        "offset": Whole(0, BYTES, default=0),
        "length": Whole(0, BYTES, default=None),
        "user": AS_USER,
    },
)
async def read(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    return await read_file(channel, user, user.resolve(args["path"]), args["offset"], args["length"])


@operation(
    "file.write",
    {
        "path": PATH,
        "mode": MODE,
        "append": Flag(default=False),
        "parents": Flag(default=False),
        "user": AS_USER,
    },
    takes_data=True,
)
async def write(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    path = user.resolve(args["path"])
    if args["parents"]:
        make_parents(path, user)
    if args["append"]:
        return await append_file(channel, user, path, args["mode"])
    return await replace_file(channel, user, path, args["mode"])


@operation("file.stat", {"path": PATH, "follow": Flag(default=True), "user": AS_USER})
def stat_file(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    with acting_as(user):
        return Describer().describe_path(user.resolve(args["path"]), args["follow"])


@operation("file.list", {"path": PATH, "depth": Whole(1, limits.LIST_DEPTH, default=1), "user": AS_USER})
async def list_files(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    return await list_directory(channel, user, user.resolve(args["path"]), args["depth"])


@operation("file.mkdir", {"path": PATH, "parents": Flag(default=True), "mode": MODE, "user": AS_USER})
def make_directory(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    path = user.resolve(args["path"])
    with acting_as(user):
        created = _make_directory(path, args["parents"])
        if created and args["mode"] is not None:
            # mkdir applies the umask.
            os.chmod(path, args["mode"])
        return Describer().describe_path(path, follow=True)


@operation("file.move", {"from": PATH, "to": PATH, "overwrite": Flag(default=True), "user": AS_USER})
async def move_file(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    return await move(user, user.resolve(args["from"]), user.resolve(args["to"]), args["overwrite"])


@operation("file.remove", {"path": PATH, "recursive": Flag(default=False), "user": AS_USER})
async def remove_file(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    return await remove(user, user.resolve(args["path"]), args["recursive"])


@operation("file.watch", {"path": PATH, "recursive": Flag(default=False), "user": AS_USER})
async def watch(agent: "Agent", channel: Channel, args: dict[str, Any]) -> dict[str, Any]:
    user = agent.user(args["user"])
    if agent.watches >= limits.WATCHES:
        raise OpError("limit_reached", f"{limits.WATCHES} watches are open already")
    agent.watches += 1
    try:
        return await watch_files(channel, user, user.resolve(args["path"]), args["recursive"])
    finally:
        agent.watches -= 1


def _make_directory(path: str, parents: bool) -> bool:
    """Whether the directory was created. With `parents` an existing one is no error."""
    try:
        if parents and (above := os.path.dirname(path.rstrip("/"))):
            os.makedirs(above, exist_ok=True)
        os.mkdir(path)
        return True
    except FileExistsError:
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        except OSError:
            is_directory = False
        if parents and is_directory:
            return False
        raise OpError("already_exists", f"{path}: File exists") from None


OPERATIONS = (
    read,
    write,
    stat_file,
    list_files,
    make_directory,
    move_file,
    remove_file,
    watch,
)
