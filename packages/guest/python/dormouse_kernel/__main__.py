"""Start of a kernel, as `python3 <dir>/dormouse_kernel <control fd> [<directory with IPython> [<note>…]]`."""

import json
import os
import struct
import sys

if sys.version_info < (3, 9):
    WHY = "%s is Python %d.%d, and contexts need 3.9 or later" % ((sys.executable,) + sys.version_info[:2])
    MESSAGE = json.dumps({"type": "unusable", "why": WHY}).encode("utf-8")
    os.write(int(sys.argv[1]), struct.pack(">I", len(MESSAGE)) + MESSAGE)
    sys.exit(1)

# Python does not treat a directory on the command line as a package: its parent must be on the path.
HERE = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != HERE]
sys.path.insert(0, os.path.dirname(HERE))

# Python writes bytecode for modules that user code imports, but none into our own directory.
WRITES_NO_BYTECODE, sys.dont_write_bytecode = sys.dont_write_bytecode, True

from dormouse_kernel.borrowed_modules import borrow_from  # noqa: E402

CONTROL_FD, DIRECTORY, NOTES = int(sys.argv[1]), "".join(sys.argv[2:3]), sys.argv[3:]
if DIRECTORY:
    borrow_from(DIRECTORY)

from dormouse_kernel.kernel import main  # noqa: E402

sys.dont_write_bytecode = WRITES_NO_BYTECODE

# User code imports as at a Python prompt: from the working directory first, and none of our modules.
sys.path[0] = ""
main(CONTROL_FD, NOTES)
