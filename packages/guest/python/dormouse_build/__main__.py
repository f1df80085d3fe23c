"""Start, as `python3 -I -B <dir>/dormouse_build pack|unpack <JSON>`. The archive comes from stdin or goes to stdout."""

import json
import sys
from pathlib import PurePosixPath

sys.path.insert(0, str(PurePosixPath(__file__).parent.parent))

from dormouse_build.pack import pack  # noqa: E402
from dormouse_build.unpack import Destination, unpack  # noqa: E402

try:
    if sys.argv[1] == "pack":
        pack(json.loads(sys.argv[2]), sys.stdout.buffer)
    else:
        unpack(Destination(**json.loads(sys.argv[2])), sys.stdin.buffer)
except (OSError, ValueError) as error:
    sys.exit(str(error))
