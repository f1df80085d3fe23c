/** Bounds that both sides of an interface must agree on, each with its unit in the name and its reason. */

/** The three default limits of a sandbox. A small VPS can hold a few of these at once. */
export const DEFAULT_MEMORY_BYTES = 1024 ** 3
export const DEFAULT_CPUS = 1
export const DEFAULT_PIDS = 512

/** What a sandbox may write before it is put to standby; a host must survive one that fills its disk. */
export const DEFAULT_DISK_BYTES = 10 * 1024 ** 3
/** Less than a first package would take. */
export const MIN_DISK_BYTES = 16 * 1024 ** 2
export const MAX_DISK_BYTES = 1024 ** 5
/** Files, directories and links that a sandbox may have made: inodes run out before bytes when they are small. */
export const DEFAULT_FILES = 1_000_000
/** Less than one environment of Python packages has. */
export const MIN_FILES = 1_000
export const MAX_FILES = 1_000_000_000
/** What a volume may hold unless its creator or the configuration says otherwise. */
export const DEFAULT_VOLUME_BYTES = 10 * 1024 ** 3

/** Below this the agent and one kernel with pandas do not fit and every run would end in the OOM killer. */
export const MIN_MEMORY_BYTES = 64 * 1024 ** 2
export const MAX_MEMORY_BYTES = 1024 ** 4
export const MIN_CPUS = 0.05
export const MAX_CPUS = 1024
/** Agent, kernel, a shell and its pipeline need a handful; fewer could not even report an error. */
export const MIN_PIDS = 16
export const MAX_PIDS = 32768

/** Longer code belongs into a file: it is held in memory by host, agent and kernel at once. */
export const CODE_MAX_BYTES = 8 * 1024 ** 2
/** What a collected run result keeps of each stream: its beginning and its end. The journal has a bound of its own (`journal.runBytes`). */
export const RUN_OUTPUT_MAX_BYTES = 4 * 1024 ** 2
/** What a collected run result keeps in results: about two hundred plots. */
export const RUN_RESULTS_MAX_BYTES = 64 * 1024 ** 2
export const RUN_TIMEOUT_MAX_MS = 24 * 3600 * 1000

/** A shorter value of a secret could stand in an answer by chance, and be guessed by trying. */
export const SECRET_MIN_BYTES = 8

export const ENV_MAX_ENTRIES = 256
export const ENV_MAX_BYTES = 64 * 1024
