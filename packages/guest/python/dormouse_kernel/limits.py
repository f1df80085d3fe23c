"""Every bound of the kernel, with its unit and reason."""

KIB = 1024
MIB = 1024 * KIB

MESSAGE_MAX_BYTES = 16 * MIB
# Text forms are for reading: code that needs more than this can print it.
RESULT_TEXT_BYTES = 1 * MIB
# Deeper JSON is shown as text: the host reads at most 1,000 levels (PROTOCOL.md, Frames).
RESULT_DEPTH = 500
ERROR_MESSAGE_BYTES = 64 * KIB
TRACEBACK_BYTES = 256 * KIB
# Source code kept for tracebacks of functions from earlier cells.
SOURCE_CHARS = 64 * MIB
# For longer code IPython's line-by-line search for magics takes seconds.
TRANSFORM_CHARS = 128 * KIB
# Functions registered with dormouse.on_resume, and with dormouse.on_fork.
HOOKS = 256
# A hook is interrupted after this long, and then again at this interval.
HOOK_S = 10.0
HOOK_REPEAT_S = 1.0
# How long output waits for the agent to read earlier output (PROTOCOL.md, Agent and kernel).
READ_WAIT_S = 2.0
READ_WAIT_STEP_S = 0.00002
