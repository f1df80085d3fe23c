"""Every bound of the agent, with its unit and reason."""

import os

KIB = 1024
MIB = 1024 * KIB

# Wire (PROTOCOL.md, Frames).
FRAME_MAX_BYTES = 32 * MIB
DATA_MAX_BYTES = 256 * KIB
WINDOW_BYTES = 1 * MIB
# What the host accepts of each kind; a longer frame ends the connection. An ITEM holds what a kernel may send at most.
END_MAX_BYTES = 4 * MIB
ERROR_MAX_BYTES = 64 * KIB
# A message of an error is cut here: escaped, each character takes six bytes at most.
ERROR_MESSAGE_CHARS = 8 * KIB
# What a list shows of the command of a process.
COMMAND_SHOWN_CHARS = 4 * KIB
CHANNELS_PER_CONNECTION = 4096
# What may wait in a connection beside the socket's own buffer before followers stop being served.
OUTGOING_SOFT_BYTES = 256 * KIB
# What may wait before the host's requests are not read any more. Above what one large event needs.
OUTGOING_HARD_BYTES = 24 * MIB

# Journals (PROTOCOL.md, Events and journals).
JOURNAL_BYTES = 4 * MIB
FINISHED_RUNS = 256
FINISHED_PROCESSES = 256
FINISHED_JOURNALS_BYTES = 32 * MIB
# One read of an output pipe; the decoder may hold back three bytes of a character from the read before.
OUTPUT_CHUNK_BYTES = 64 * KIB - 4
# An event this large is handed to its followers before older events make room for the next.
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
# Changes are collected this long before they are told, and not many more than this at once.
WATCH_BATCH_S = 0.01
WATCH_BATCH_EVENTS = 4096

# Relays. What is read from a connection or a process at once; the kernel hands out what is there.
RELAY_CHUNK_BYTES = 128 * KIB
# After the end of a process its terminal is read until nothing has come for so long.
TERMINAL_LINGER_S = 0.05
# What a terminal's process gets to end in when the terminal is gone, before nobody waits for it.
HANG_UP_S = 0.5
# Ports.
# How often is looked whether something listens: soon at first, then less often.
PORT_LOOK_FIRST_S = 0.01
PORT_LOOK_LAST_S = 0.1
PORTS_LISTED = 4096

# Things alive at once.
# Each costs a descriptor, and its windows up to 2 MiB.
PORT_CONNECTIONS = 512
WATCHES = 64
CONTEXTS = 16
QUEUED_RUNS_PER_CONTEXT = 256
LIVE_PROCESSES = 256
# Output pipes still held by children of something that has ended; each costs a descriptor.
LINGERING_PIPES = 128

# Kernels.
KERNEL_MESSAGE_BYTES = 24 * MIB
KERNEL_START_S = 60.0
KERNEL_START_ATTEMPTS = 3
KERNEL_RETRY_FIRST_S = 0.2
KERNEL_RETRY_LAST_S = 1.0
INTERRUPT_GRACE_S = float(os.environ.get("DORMOUSE_INTERRUPT_GRACE_S", "5"))

# Sleep and wake. What a request may take to undo its work, and the host to read its answer.
QUIESCE_S = 5.0
# Runs wait for a kernel that was woken; after this they begin all the same. Above what a hook may take.
KERNEL_ANSWER_S = 30.0
# How often a request that needs a kernel looks whether it has started.
KERNEL_LOOK_S = 0.02
PRELOAD_MODULES = 64

# Bash takes its code as an argument up to here, above it as a file.
BASH_ARGUMENT_BYTES = 100_000
# Work on many files or bytes gives way to other requests after this long.
SLICE_S = 0.005
