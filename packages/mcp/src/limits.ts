/** Limits, with the unit in the name. Most bound what a model has to read at once. */

/** For stdout, stderr and a traceback, each: about five thousand tokens. The start and the end are kept. */
export const OUTPUT_MAX_BYTES = 20_000
/** Per run. */
export const IMAGES_MAX = 10
/** As base64. Common models refuse larger images. */
export const IMAGE_MAX_CHARACTERS = 5 * 1024 ** 2
export const FILE_READ_DEFAULT_BYTES = 50_000
/** Larger files are for code inside the sandbox, or for other clients. */
export const FILE_READ_MAX_BYTES = 4 * 1024 ** 2
export const FILES_LISTED_MAX = 500
/** Files of the home directory that are listed as resources. */
export const RESOURCES_LISTED_MAX = 100
/** The newest runs whose plots are listed as resources. Each costs a request. */
export const RUNS_WITH_PLOTS_MAX = 10
export const SANDBOXES_LISTED_MAX = 100
export const SNAPSHOTS_LISTED_MAX = 100
export const VOLUMES_LISTED_MAX = 100
export const TEMPLATES_LISTED_MAX = 100
export const SERVICES_LISTED_MAX = 100
export const JOBS_LISTED_MAX = 100
/** Lines of the log of a service in one answer: what a model reads at once. */
export const LOG_LINES_DEFAULT = 100
export const LOG_LINES_MAX = 1_000

/** The maximum of the server. */
export const TIMEOUT_MAX_MS = 24 * 3600 * 1000

/** The maximum of the server: one tebibyte. */
export const MEMORY_MAX_MB = 1024 ** 2

/** Maximums of the server: of a hold, a link to a port, and the wait for a port. */
export const HOLD_MAX_MINUTES = 24 * 60
export const CHECKPOINT_MAX_MINUTES = 24 * 60
export const LINK_MAX_MINUTES = 30 * 24 * 60
export const PORT_WAIT_MAX_MS = 10 * 60_000
/** The maximum of the server: a week. */
export const KEEP_CONNECTIONS_MAX_MINUTES = 7 * 24 * 60

/** Shorter than the time-out of common clients, which is a minute. */
export const WAIT_DEFAULT_MS = 50_000

/** Many clients cancel calls that send no progress for a minute. */
export const PROGRESS_INTERVAL_MS = 5_000
/** Progress is sent at most this often. */
export const PROGRESS_MIN_GAP_MS = 250
export const PROGRESS_MESSAGE_MAX_CHARACTERS = 200

/** An unnamed sandbox is deleted after this time without use: its conversation will not come back. */
export const UNNAMED_IDLE_MS = 30 * 24 * 3600 * 1000

/** Per conversation. A model makes a few calls at once; each may hold megabytes of output. */
export const CONCURRENT_CALLS_MAX = 16

/** Sessions in memory. An evicted session comes back with its next request. */
export const SESSIONS_MAX = 1_000
export const SESSIONS_OF_ONE_KEY_MAX = 100
/** A session is evicted after this time without a request. */
export const SESSION_IDLE_MS = 30 * 60_000
export const SESSION_SWEEP_MS = 60_000
/** Sessions that their clients ended, and that must stay ended. */
export const ENDED_SESSIONS_MAX = 10_000

/** One message on stdin: a file as base64. */
export const STDIO_MESSAGE_MAX_BYTES = 16 * 1024 ** 2

/** Results of `map_inputs` in one answer, and characters of each: what a model reads at once. */
export const MAP_TASKS_SHOWN_MAX = 200
export const MAP_RESULT_CHARACTERS = 500
