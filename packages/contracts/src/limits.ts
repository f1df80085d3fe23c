/** Bounds that several packages must agree on. Each has its unit in its name, and a reason. */

/**
 * Limits of a burrow, unless the server says otherwise, and the least that it gives a sandbox by default. A small VPS can
 * hold a few such sandboxes.
 */
export const DEFAULT_MEMORY_BYTES = 1024 ** 3
export const DEFAULT_CPUS = 1
export const DEFAULT_PIDS = 512

/** Bytes that a sandbox may write before it is put to standby: it must not fill the disk of the host. */
export const DEFAULT_DISK_BYTES = 10 * 1024 ** 3
/** Less than the first installed package needs. */
export const MIN_DISK_BYTES = 16 * 1024 ** 2
export const MAX_DISK_BYTES = 1024 ** 5
/** Files, directories and links that a sandbox may create: small files use up inodes before bytes. */
export const DEFAULT_FILES = 1_000_000
/** Less than one environment of Python packages has. */
export const MIN_FILES = 1_000
export const MAX_FILES = 1_000_000_000
/** Size of a volume, unless its creator or the settings say otherwise. */
export const DEFAULT_VOLUME_BYTES = 10 * 1024 ** 3

/** The agent and one kernel with pandas need this much. Below it the OOM killer would end every run. */
export const MIN_MEMORY_BYTES = 64 * 1024 ** 2
export const MAX_MEMORY_BYTES = 1024 ** 4
export const MIN_CPUS = 0.05
export const MAX_CPUS = 1024
/** Agent, kernel, a shell and its pipeline need a few. With fewer the agent could not report an error. */
export const MIN_PIDS = 16
export const MAX_PIDS = 32768

/** Host, agent and kernel each hold the code in memory. Longer code belongs in a file. */
export const CODE_MAX_BYTES = 8 * 1024 ** 2
/** What the journal keeps of the code of a run: enough to recognise it. */
export const KEPT_CODE_MAX_BYTES = 4 * 1024
/** One answer to `input()`. People type it. */
export const RUN_INPUT_MAX_BYTES = 64 * 1024
/** Code to complete. People type it. */
export const COMPLETED_CODE_MAX_BYTES = 64 * 1024
/**
 * What a run result keeps of each stream: its beginning and its end. The journal has its own bound
 * (`journal.runBytes`).
 */
export const RUN_OUTPUT_MAX_BYTES = 4 * 1024 ** 2
/** What a run result keeps of results: about two hundred plots. */
export const RUN_RESULTS_MAX_BYTES = 64 * 1024 ** 2
export const RUN_TIMEOUT_MAX_MS = 24 * 3600 * 1000

/** A shorter secret could be guessed, and could occur in a response by chance. */
export const SECRET_MIN_BYTES = 8

export const ENV_MAX_ENTRIES = 256
export const ENV_MAX_BYTES = 64 * 1024
