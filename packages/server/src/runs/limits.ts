/** Bounds of runs and their journal, each with its unit and reason. `config.json` sets how much is kept; these say how it is handled. */

const KIB = 1024
const MIB = 1024 * KIB

/** Of what a run said beyond its bound, this much of the end is kept: as much as one window of the agent. */
export const TAIL_MAX_BYTES = MIB
/** The journal of a sandbox is at most this share of its disk limit: what it printed must not lock it out of its own disk. */
export const DISK_SHARE = 1 / 4
/** Besides its text, what an event and a run take in the database. */
export const EVENT_OVERHEAD_BYTES = 32
export const RUN_OVERHEAD_BYTES = 256
/** A run that takes no more than this gives nothing worth having when it is stripped. */
export const STRIPPED_MAX_BYTES = 8 * KIB

/** A run's first bytes are written in the event loop, which is quickest for short runs; the rest on another thread. */
export const WRITTEN_HERE_BYTES = 256 * KIB
/** What of a run may wait to be written. What is not taken the agent keeps. */
export const PENDING_MAX_BYTES = 256 * KIB

/** Readers who keep up with a run take this much from memory. */
export const RECENT_MAX_BYTES = 256 * KIB

/**
 * What the server takes in of all runs together in a second: up to a third of what one core can, less when the event loop is late, and
 * always more than people read.
 */
export const OUTPUT_MOST_BYTES_PER_SECOND = 64 * MIB
export const OUTPUT_LEAST_BYTES_PER_SECOND = 8 * MIB
/** A timer that is later than this has waited for something: for the event loop, or for a CPU. */
export const OUTPUT_LATE_MS = 3
/** Output is let in this often, and so much from one run before it is the turn of the next. */
export const OUTPUT_TICK_MS = 5
export const OUTPUT_TURN_BYTES = 64 * KIB
/** A run's first bytes do not wait for those that print without end. */
export const OUTPUT_FREE_BYTES = 64 * KIB

/** Enough to fill a socket's buffer, and little enough to hold for every reader and to parse in one go. */
export const PAGE_EVENTS = 256
export const PAGE_BYTES = 256 * KIB

/** A child gets this much of each run that is under way in its parent. The agent that it has with it holds the end. */
export const FORKED_MAX_BYTES = 256 * KIB
/** What is deleted in one transaction. */
export const DELETED_AT_ONCE_BYTES = MIB
export const DELETED_AT_ONCE_EVENTS = 16
/** Free pages that are kept for what comes next, and how many are given back in one transaction. */
export const FREE_PAGES = 1_024
export const RETURNED_AT_ONCE_PAGES = 128

/** Of texts in `start` and `exit`, which are kept when everything else of a run is gone. */
export const MARK_TEXT_MAX_CHARACTERS = 1_000
