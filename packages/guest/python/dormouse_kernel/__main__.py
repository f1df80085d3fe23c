"""Start of a kernel, as `python3 <dir>/dormouse_kernel <control fd> [<directory with IPython>]`."""

import sys
from pathlib import PurePosixPath

# Python does not treat a directory on the command line as a package: its parent must be on the path.
HERE = PurePosixPath(__file__).parent
sys.path[:] = [entry for entry in sys.path if entry != str(HERE)]
sys.path.insert(0, str(HERE.parent))

# Python writes bytecode for modules that user code imports, but none into our own directory.
WRITES_NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, True

from dormouse_kernel.borrowed_modules import borrow_from  # noqa: E402

for directory in sys.argv[2:]:
    borrow_from(directory)

from dormouse_kernel.kernel import main  # noqa: E402

sys.dont_write_bytecode = WRITES_NO_BYTECODE

# User code imports as at a Python prompt: from the working directory first, and none of our modules.
sys.path[0] = ""
main(int(sys.argv[1]))
