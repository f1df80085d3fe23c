"""Every bound of the agent, with its unit and reason."""

import os

KIB = 1024
MIB = 1024 * KIB

# Wire (PROTOCOL.md, Frames).
FRAME_MAX_BYTES = 32 * MIB
DATA_MAX_BYTES = 256 * KIB
WINDOW_BYTES = 1 * MIB
# The longest frame of each kind that the host accepts; a longer one ends the connection.
END_MAX_BYTES = 4 * MIB
ERROR_MAX_BYTES = 64 * KIB
# Error messages are cut here. Escaped, a character takes at most six bytes.
ERROR_MESSAGE_CHARS = 8 * KIB
# A list shows at most this much of a command.
COMMAND_SHOWN_CHARS = 4 * KIB
CHANNELS_PER_CONNECTION = 4096
# Read from a connection at once.
RECEIVE_BYTES = 256 * KIB
# Above this many unsent bytes, beside the socket's own buffer, followers stop sending.
OUTGOING_SOFT_BYTES = 256 * KIB
# Above this many unsent bytes the agent stops reading requests. Larger than any event.
OUTGOING_HARD_BYTES = 24 * MIB

# Journals (PROTOCOL.md, Events and journals).
JOURNAL_BYTES = 4 * MIB
FINISHED_RUNS = 256
FINISHED_PROCESSES = 256
FINISHED_JOURNALS_BYTES = 32 * MIB
# One read of an output pipe. The decoder may add three bytes that it held back from the read before.
OUTPUT_CHUNK_BYTES = 64 * KIB - 4
# The events of a run's first moment are sent together: until so much time has passed, or so much has come.
FIRST_MOMENT_S = 0.002
FIRST_MOMENT_BYTES = 64 * KIB
# Followers get an event this large before the journal drops older events.
LARGE_EVENT_BYTES = 1 * MIB

# Requests.
CODE_BYTES = 8 * MIB
TIMEOUT_MAX_MS = 86_400_000
PATH_BYTES = 4096
ENV_ENTRIES = 1024
ENV_BYTES = 128 * KIB
ARGUMENTS = 4096
ARGUMENT_BYTES = 128 * KIB  # MAX_ARG_STRLEN of the kernel
LIST_DEPTH = 64
# A directory is sorted in memory before it is listed.
LIST_DIRECTORY_ENTRIES = 200_000

# Watches. A tree is walked once when a watch begins; each directory costs the kernel about 1 KiB.
WATCHED_DIRECTORIES = 8192
# Changes are collected for this long before they are reported, and about this many at once.
WATCH_BATCH_S = 0.01
WATCH_BATCH_EVENTS = 4096

# Relays. One read from a process.
RELAY_CHUNK_BYTES = 128 * KIB
# After a process has ended, its terminal is read until it is quiet for this long.
TERMINAL_LINGER_S = 0.05
# How long the relay waits for a process to end after its terminal was hung up.
HANG_UP_S = 0.5
# A connected process waits this long for the host to connect again after a wake. Then its terminal hangs up.
DETACHED_TICK_S = 1.0
DETACHED_TICKS = 30
# Ports.
# How often `port.wait` asks the kernel: often at first, then less often.
PORT_POLL_FIRST_S = 0.01
PORT_POLL_LAST_S = 0.1
PORTS_LISTED = 4096

# Background processes that are reported and watched at once; each costs a descriptor.
BACKGROUND_PROCESSES = 64
BACKGROUND_COMMAND_CHARS = 1024
# A process that counts as work is looked at again after this long.
BACKGROUND_SETTLES_S = 1.0
# One read of a file in /proc. Environments and command lines may be longer.
PROC_FILE_BYTES = 256 * KIB

# What may exist at the same time.
WATCHES = 64
CONTEXTS = 16
QUEUED_RUNS_PER_CONTEXT = 256
LIVE_PROCESSES = 256
# Output pipes of ended processes whose children still hold them. Each costs a descriptor.
LINGERING_PIPES = 128

# Kernels.
KERNEL_MESSAGE_BYTES = 24 * MIB
KERNEL_START_S = 60.0
KERNEL_START_ATTEMPTS = 3
KERNEL_RETRY_FIRST_S = 0.2
KERNEL_RETRY_LAST_S = 1.0
INTERRUPT_GRACE_S = float(os.environ.get("DORMOUSE_INTERRUPT_GRACE_S", "5"))
# How often the agent nudges a kernel that has been interrupted and still runs.
INTERRUPT_NUDGE_S = 0.1
# What an error about memory shows of the variables that a kernel reported.
LARGEST_VARIABLES = 5
VARIABLE_NAME_CHARS = 60

# Sleep and wake. How long a request may undo its work, and how long the host may take to read its answer.
QUIESCE_S = 5.0
# Runs wait this long for a kernel to process a wake, then begin anyway. Longer than one hook may take.
KERNEL_ANSWER_S = 30.0
# A host that is about to freeze the sandbox waits this long for kernels to process a wake.
SETTLE_S = 0.1
# How often a request that needs a kernel checks whether it is ready.
KERNEL_POLL_S = 0.02
PRELOAD_MODULES = 64
# Code to complete: a person types it. The kernel gives up after 2 s, so an answer comes well before this.
COMPLETE_BYTES = 64 * KIB
COMPLETE_S = 5.0
# The kernel lists variables for at most 0.2 s of CPU time and orders the rows of a table for 3 s, so answers come well
# before this.
VARIABLES_S = 2.0
VARIABLE_ROWS_S = 20.0
# The longest name of a variable, and what one request may ask for of a table.
VARIABLE_NAME_BYTES = 400
ROWS = 500
COLUMNS = 100
CELLS = 20_000
FILTERS = 8
FILTER_BYTES = 400
POSITION_MAX = 2**48
# The prompt of one input(), and one answer.
PROMPT_CHARS = 4 * KIB
ANSWER_BYTES = 64 * KIB

# Shorter code is passed to bash as an argument, longer code as a file.
BASH_ARGUMENT_BYTES = 100_000
# Work on many files or bytes lets other requests run after this long.
TIME_SLICE_S = 0.005
