"""Start of a driver, as `python3 <dir>/dormouse_driver <control fd> <language> <program>`."""

import sys
from pathlib import PurePosixPath

HERE = PurePosixPath(__file__).parent
sys.path[0] = str(HERE.parent)
sys.dont_write_bytecode = True

from dormouse_driver.bash import Bash  # noqa: E402
from dormouse_driver.driver import Driver  # noqa: E402
from dormouse_driver.r import R  # noqa: E402

INTERPRETERS = {"bash": Bash, "r": R}

control_fd, language, program = sys.argv[1:]
sys.exit(Driver(int(control_fd), INTERPRETERS[language](program)).serve())
