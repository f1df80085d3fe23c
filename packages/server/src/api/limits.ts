/** Limits of the HTTP server, each with its unit in the name and its reason. */

/** Request bodies without code: names, metadata, environment. */
export const JSON_BODY_MAX_BYTES = 1024 ** 2
/** Code may have 8 MiB, and JSON may encode one byte as two. */
export const RUN_BODY_MAX_BYTES = 16 * 1024 ** 2
/** The inputs of a job, and its code. */
export const JOB_BODY_MAX_BYTES = 48 * 1024 ** 2
/** A key, a few standard headers and a long path. */
export const HEADERS_MAX_BYTES = 16 * 1024
export const PATH_PARAMETER_MAX_CHARACTERS = 256

/** A reader that takes nothing for this long is disconnected. The journal has what it missed. */
export const READER_STALL_MS = 60_000

/** How long the server waits for a client. Tests shorten these. */
export interface ClientTimeouts {
  /** A client that has not sent its headers by then is disconnected. */
  readonly headersMs: number
  /** For a JSON body, which is buffered in memory. Streamed bodies have no such limit. */
  readonly jsonBodyMs: number
  readonly readerMs: number
}
export const CLIENT_TIMEOUTS: ClientTimeouts = {
  headersMs: 10_000,
  jsonBodyMs: 30_000,
  readerMs: READER_STALL_MS,
}
/** How often connections with incomplete headers are checked. */
export const HEADERS_CHECK_MS = 2000
/** Longer than the idle time-out of common proxies, so that the proxy closes first. */
export const KEEP_ALIVE_TIMEOUT_MS = 75_000
/** Smaller answers fit into the buffers of a socket, so a slow reader holds nothing up. */
export const LARGE_ANSWER_BYTES = 64 * 1024
/** Proxies close connections that are silent for a minute. */
export const SSE_KEEP_ALIVE_MS = 15_000
/** With this, TCP detects a vanished peer within about two minutes. */
export const TCP_KEEP_ALIVE_MS = 30_000
/** Far more than one host serves, far less than it has file descriptors. */
export const CONNECTIONS_MAX = 8192

/** A sender of a streamed body that pauses for this long is disconnected. */
export const SENDER_STALL_MS = 60_000
/** How long a client whose upload was refused may finish sending, so that it sees the answer. */
export const DISCARD_MAX_MS = 5_000
/** Smaller uploads are buffered and written in one short call; larger ones are streamed. */
export const WHOLE_UPLOAD_MAX_BYTES = 1024 ** 2
/** Process input is written in pieces: between two of them the sandbox may go to sleep. */
export const STDIN_PIECE_BYTES = 64 * 1024
/** How long a write waits for a process that does not read its input. */
export const STDIN_STALL_MS = 30_000
/** The largest message of a terminal: a paste. */
export const TERMINAL_MESSAGE_MAX_BYTES = 1024 ** 2
/**
 * Input that may wait before reading from the client pauses, and output that may wait before reading from the process
 * pauses.
 */
export const TERMINAL_WAITING_BYTES = 256 * 1024
/** Resizes and signals that may wait for a sandbox to wake. */
export const TERMINAL_CONTROLS_MAX = 64
/** A client that misses two pings in a row is disconnected. */
export const TERMINAL_PING_MS = 30_000
/** Bytes that may wait for the client of a TCP connection before reading from the connection pauses. */
export const TCP_WAITING_BYTES = 256 * 1024
