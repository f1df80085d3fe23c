/** Bounds, each with its unit in the name and its reason. Most are about what a model can take in at once. */

/** Of stdout, of stderr and of a traceback, each: about five thousand tokens. The beginning and the end are kept. */
export const OUTPUT_MAX_BYTES = 20_000
/** Of one run. A model looks at a few pictures, not at a film. */
export const IMAGES_MAX = 10
/** As base64; what common models refuse is just above. */
export const IMAGE_MAX_CHARACTERS = 5 * 1024 ** 2
export const FILE_READ_DEFAULT_BYTES = 50_000
/** What is larger is worked on inside the sandbox, or fetched by other means. */
export const FILE_READ_MAX_BYTES = 4 * 1024 ** 2
export const FILES_LISTED_MAX = 500
export const SANDBOXES_LISTED_MAX = 100
export const SNAPSHOTS_LISTED_MAX = 100

/** What the server takes. */
export const TIMEOUT_MAX_MS = 24 * 3600 * 1000

/** Clients give up on calls that are silent, many after a minute. */
export const PROGRESS_BEAT_MS = 5_000
/** More often than this nobody can read. */
export const PROGRESS_PAUSE_MS = 250
export const PROGRESS_MESSAGE_MAX_CHARACTERS = 200

/** A sandbox that nobody gave a name is deleted when it was not used for so long: nobody would find it again. */
export const UNNAMED_IDLE_MS = 30 * 24 * 3600 * 1000

/** Of one conversation at the same time. A model makes a few; each may hold megabytes of answer. */
export const CALLS_AT_ONCE_MAX = 16

/** Sessions held in memory. One that was let go comes back with its next request. */
export const SESSIONS_MAX = 1_000
export const SESSIONS_OF_ONE_KEY_MAX = 100
/** Then it is let go. */
export const SESSION_IDLE_MS = 30 * 60_000
export const SESSION_SWEEP_MS = 60_000
/** Sessions that were ended by their client, so that they stay ended. */
export const ENDED_SESSIONS_MAX = 10_000

/** One message on stdin: a file as base64. */
export const STDIO_MESSAGE_MAX_BYTES = 16 * 1024 ** 2
