"""Start of a kernel, as `python3 <dir>/dormouse_kernel <control fd>`."""

import sys
from pathlib import PurePosixPath

# A directory on the command line is not a package to Python; only its parent makes it one.
HERE = PurePosixPath(__file__).parent
sys.path[:] = [entry for entry in sys.path if entry != str(HERE)]
sys.path.insert(0, str(HERE.parent))

# What user code imports is cached as usual; our own directory stays as it is.
WRITES_NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, True

from dormouse_kernel.kernel import main  # noqa: E402

sys.dont_write_bytecode = WRITES_NO_BYTECODE

# User code finds imports as at a Python prompt: in the working directory first, and nothing of ours.
sys.path[0] = ""
main(int(sys.argv[1]))
