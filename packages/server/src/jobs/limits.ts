/** Bounds of jobs. Each has its unit in its name, and a reason. */

const KIB = 1024
const MIB = 1024 * KIB

/** What a result keeps of each output stream, and of all displayed values. A task that returns more writes a file. */
export const RESULT_STREAM_MAX_BYTES = 128 * KIB
export const RESULT_VALUES_MAX_BYTES = 512 * KIB
/** Further results of a job that has this much keep only this much of each. */
export const JOB_RESULTS_MAX_BYTES = 64 * MIB
export const SHORT_RESULT_MAX_BYTES = 2 * KIB
/** Of the traceback and message of an exception. */
export const ERROR_TEXT_MAX_BYTES = 16 * KIB

/** Jobs that one key may have under way at once. */
export const LIVE_JOBS_MAX = 100
/** Inputs of one request, all together. */
export const INPUTS_MAX_BYTES = 32 * MIB

/** After its time-out an agent has this long to interrupt the run. Then its sandbox is deleted. */
export const TIMEOUT_GRACE_MS = 15_000
/** How often an attempt that was cut short is repeated without counting as a failure: code may end its own sandbox. */
export const LOSSES_MAX = 5
/** How often a task that finds no room is tried again, and the longest pause between two tries. */
export const REFUSALS_MAX = 200
export const REFUSAL_PAUSE_MS = 500
export const PAUSE_MAX_MS = 30_000
export const BACKOFF_MAX_MS = 3_600_000
/** How often a write that failed, as on a full disk, is tried again. */
export const RECORD_RETRY_MS = 1_000
/** If no server looks after it, a sandbox of a job is deleted after this time without work. */
export const ABANDONED_MS = 10 * 60_000
/** How many ended tasks a reader of events gets at once. */
export const EVENTS_PAGE = 64
/** How long a task is left to hosts of the cluster that run fewer tasks. */
export const OTHERS_FIRST_MS = 150
/** How long the end of a job is left to the host that has recorded its last task. */
export const OTHERS_FINISH_MS = 2_000
