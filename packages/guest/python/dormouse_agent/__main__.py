"""Start of the agent, as `python3 -I -B -S <dir>/dormouse_agent`."""

import sys
from pathlib import PurePosixPath

if not __package__:
    # Python does not treat a directory on the command line as a package: its parent must be on the path.
    HERE = PurePosixPath(__file__).parent
    sys.path[:] = [entry for entry in sys.path if entry != str(HERE)]
    sys.path.insert(0, str(HERE.parent))

# asyncio would load OpenSSL for TLS streams. The agent uses none, and OpenSSL costs memory.
sys.modules["ssl"] = None  # type: ignore[assignment]

from dormouse_agent.agent import main  # noqa: E402

sys.exit(main())
