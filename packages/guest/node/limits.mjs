/** Every bound of the Node kernel, with its unit and reason. */

const KIB = 1024
const MIB = 1024 * KIB

/** The agent ends a kernel that sends a longer message. */
export const MESSAGE_MAX_BYTES = 16 * MIB
/** Text forms are for reading: code that needs more than this can print it. */
export const RESULT_TEXT_CHARS = 256 * KIB
/** An image or a document in a result. */
export const RESULT_BINARY_BYTES = 8 * MIB
/** Larger values have no JSON form: code that needs it can print it. */
export const RESULT_JSON_BYTES = 1 * MIB
export const RESULT_JSON_VALUES = 50_000
/** The host reads at most 1,000 levels (PROTOCOL.md, Frames). */
export const RESULT_JSON_DEPTH = 100
export const ERROR_MESSAGE_CHARS = 64 * KIB
export const TRACEBACK_CHARS = 128 * KIB
/** One message of output. */
export const OUTPUT_CHARS = 64 * KIB
/** How long a write to a full control socket sleeps before it tries again. */
export const WRITE_RETRY_MS = 1
/** A run that has not ended this long after an interrupt keeps its thread busy, and is stopped from another one. */
export const BUSY_AFTER_MS = 300
/** Functions registered with dormouse.onResume, and with dormouse.onFork. */
export const HOOKS = 256
/** The kernel stops waiting for a hook after this long. */
export const HOOK_MS = 10_000
export const PROMPT_CHARS = 4 * KIB
/** A list of names that a person can still read, and the longest name in it. */
export const COMPLETIONS = 200
export const COMPLETION_CHARS = 256
/** Looking up the value before a dot ends after this long. */
export const COMPLETION_MS = 500
/** After this many attempts to stop a busy main thread, the programs that it may wait for are interrupted. */
export const TERMINATIONS_BEFORE_CHILDREN = 3
/** A list of variables, and the longest name in it. */
export const VARIABLES = 500
export const VARIABLE_NAME_CHARS = 100
/** CPU time. */
export const VARIABLES_MS = 500
/** Reading one variable, which executes nothing. On a busy host it waits for its turn. */
export const PEEK_MS = 2_000
/** Rows of a variable that can be sorted and filtered; later ones are not shown. */
export const ROWS_MAX = 200_000
export const CELL_CHARS = 200
/** Of a text that is opened. */
export const OPENED_TEXT_CHARS = 64 * KIB
