"""Every bound of the kernel, with its unit and reason."""

KIB = 1024
MIB = 1024 * KIB

MESSAGE_MAX_BYTES = 16 * MIB
# Text forms are for reading: code that needs more than this can print it.
RESULT_TEXT_BYTES = 1 * MIB
# JSON that is nested deeper is shown as text: the host does not read more levels than 1,000 (PROTOCOL.md, Frames).
RESULT_DEPTH = 500
ERROR_MESSAGE_BYTES = 64 * KIB
TRACEBACK_BYTES = 256 * KIB
# Source kept for the tracebacks of functions from earlier cells.
SOURCE_CHARS = 64 * MIB
# Above this IPython's line by line search for magics takes seconds.
TRANSFORM_CHARS = 128 * KIB
# Functions of dormouse.on_resume and of dormouse.on_fork, each.
HOOKS = 256
# How long one may take, and how often it is interrupted from then on.
HOOK_S = 10.0
HOOK_AGAIN_S = 1.0
# How long output waits for the agent to take what was written before it (PROTOCOL.md).
BARRIER_S = 2.0
BARRIER_STEP_S = 0.00002
