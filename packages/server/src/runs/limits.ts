/** Bounds of runs and their journal. The settings say how much the journal keeps; these say how events are handled. */

const KIB = 1024
const MIB = 1024 * KIB

/** A run that exceeds its bound keeps this much of its last events: as much as one window of the agent. */
export const TAIL_MAX_BYTES = MIB
/** The journal takes at most this share of a sandbox's disk limit, so that output cannot use up the sandbox's disk. */
export const DISK_SHARE = 1 / 4
/** What an event and a run take in the database besides their text. */
export const EVENT_OVERHEAD_BYTES = 32
export const RUN_OVERHEAD_BYTES = 256
/** Stripping a run that is smaller than this would free too little. */
export const STRIPPED_MAX_BYTES = 8 * KIB

/**
 * The first bytes of a run are written in the event loop, which is fastest for short runs; the rest on another
 * thread.
 */
export const WRITTEN_HERE_BYTES = 256 * KIB
/** How much of a run may wait to be written. The agent keeps what the server does not take. */
export const PENDING_MAX_BYTES = 256 * KIB

/** This much of a run's newest events is kept in memory for readers. */
export const RECENT_MAX_BYTES = 256 * KIB

/**
 * How much output of all runs together the server takes per second: at most a third of what one core can handle, less
 * when the event loop is late, and always more than people read.
 */
export const OUTPUT_MOST_BYTES_PER_SECOND = 64 * MIB
export const OUTPUT_LEAST_BYTES_PER_SECOND = 8 * MIB
/** A timer that is later than this has waited for the event loop or for a CPU. */
export const OUTPUT_LATE_MS = 3
/** Output is taken this often, and this much from one run before the next gets its turn. */
export const OUTPUT_TICK_MS = 5
export const OUTPUT_TURN_BYTES = 64 * KIB
/** The first bytes of a run are not throttled: short runs do not wait for those that print without end. */
export const OUTPUT_FREE_BYTES = 64 * KIB

/** Large enough to fill a socket's buffer, small enough to hold for every reader and to parse at once. */
export const PAGE_EVENTS = 256
export const PAGE_BYTES = 256 * KIB

/** A forked child gets this much of each run under way in its parent. The child's own agent has the newest events. */
export const FORKED_MAX_BYTES = 256 * KIB
/** How much is deleted in one transaction. */
export const DELETED_AT_ONCE_BYTES = MIB
export const DELETED_AT_ONCE_EVENTS = 16
export const DELETED_AT_ONCE_RUNS = 64
/** Free pages that are kept for the next runs, and how many are returned in one transaction. */
export const FREE_PAGES = 1_024
export const RETURNED_AT_ONCE_PAGES = 128

/** The agent cuts the prompt of `input()` here; a compromised one may not. A character may count as two. */
export const PROMPT_MAX_CHARACTERS = 8 * KIB

/** For texts in `start` and `exit`, which stay when all other events of a run are removed. */
export const MARK_TEXT_MAX_CHARACTERS = 1_000
