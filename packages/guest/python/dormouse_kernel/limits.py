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
# A line without its end is shown after this long.
PARTIAL_LINE_S = 0.1
# What input() may show. Longer prompts are cut.
PROMPT_CHARS = 4 * KIB
# input() fails when no answer comes for this long: a caller that is gone for good must not hold the context.
ANSWER_WAIT_S = 3600.0
# A list of names that a person can still read, and the longest name in it.
COMPLETIONS = 200
COMPLETION_CHARS = 256
# Finding names is interrupted after this long, and then again at this interval.
COMPLETION_S = 2.0
COMPLETION_REPEAT_S = 0.5
# How many of the last inputs have a name of their own, such as _i7.
NAMED_INPUTS = 256
# The largest variables, which an error about memory names. They are measured after every run.
LARGEST_VARIABLES = 5
VARIABLE_BYTES = 1 * MIB
VARIABLE_NAME_CHARS = 60
VARIABLES_MEASURED = 2_000
VARIABLE_ELEMENTS = 32
VARIABLES_S = 0.002
# The code of a rehearsed run. Calls nothing: even a built-in function may be one of the user's.
REHEARSED = "x = 1\ny = [x, x + 1]\ny"
