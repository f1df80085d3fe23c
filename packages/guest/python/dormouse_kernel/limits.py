"""Every bound of the kernel, with its unit and reason."""

KIB = 1024
MIB = 1024 * KIB

MESSAGE_MAX_BYTES = 16 * MIB
# Text forms are for reading; whoever needs more than this prints it.
RESULT_TEXT_CHARS = 1 * MIB
ERROR_MESSAGE_CHARS = 64 * KIB
TRACEBACK_CHARS = 256 * KIB
# Source kept for the tracebacks of functions from earlier cells.
SOURCE_CHARS = 64 * MIB
# Above this IPython's line by line search for magics takes seconds.
TRANSFORM_CHARS = 128 * KIB
# How long output waits for the agent to take what was written before it (PROTOCOL.md).
BARRIER_S = 2.0
BARRIER_STEP_S = 0.00002
