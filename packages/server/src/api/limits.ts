/** Bounds of the HTTP side, each with its unit in the name and its reason. */

/** Bodies of requests without code in them: names, metadata, environment. */
export const JSON_BODY_MAX_BYTES = 1024 ** 2
/** Code may be 8 MiB, and JSON may write a byte of it as two. */
export const RUN_BODY_MAX_BYTES = 16 * 1024 ** 2
/** A key, a few standard headers and a long path. */
export const HEADERS_MAX_BYTES = 16 * 1024
export const PATH_PARAMETER_MAX_CHARACTERS = 256

/** A reader that takes nothing for so long has gone; what it would have read is in the journal. */
export const READER_STALL_MS = 60_000

/** How long a client may keep the server waiting. Tests shorten them. */
export interface ClientTimeouts {
  /** A client that cannot send its headers in this time only holds a socket. */
  readonly headersMs: number
  /** For a JSON body, which is held in memory while it arrives. Streamed bodies have no such limit: a big file takes what it takes. */
  readonly jsonBodyMs: number
  readonly readerMs: number
}
export const CLIENT_TIMEOUTS: ClientTimeouts = {
  headersMs: 10_000,
  jsonBodyMs: 30_000,
  readerMs: READER_STALL_MS,
}
/** How often connections are looked at whose headers are not complete. */
export const HEADERS_CHECK_MS = 2000
/** Longer than the idle time of common proxies, so that the proxy is the one to close. */
export const KEEP_ALIVE_TIMEOUT_MS = 75_000
/** Answers below this fit into the buffers of a socket: nobody has to wait for their reader. */
export const LARGE_ANSWER_BYTES = 64 * 1024
/** Proxies cut connections that are silent for a minute. */
export const SSE_KEEP_ALIVE_MS = 15_000
/** TCP notices in about two minutes that a peer has vanished without a word. */
export const TCP_KEEP_ALIVE_MS = 30_000
/** Far more than one host serves, far less than it has file descriptors. */
export const CONNECTIONS_MAX = 8192

/** A sender of a streamed body that sends nothing for so long has gone. */
export const SENDER_STALL_MS = 60_000
/** Who is told "no" in the middle of an upload gets this long to finish sending, so that the answer is seen. */
export const DISCARD_MAX_MS = 5_000
/** An upload up to here is held in memory and written in one short call; a larger one is passed on as it comes. */
export const WHOLE_UPLOAD_MAX_BYTES = 1024 ** 2
/** Input of a process goes in pieces: between two of them the sandbox may go to sleep. */
export const STDIN_PIECE_BYTES = 64 * 1024
/** A process that does not read its input for so long is not waited for. */
export const STDIN_STALL_MS = 30_000
/** One message of a terminal: a paste. */
export const TERMINAL_MESSAGE_MAX_BYTES = 1024 ** 2
/** What may wait to be typed before the client is not read any more, and to be shown before the process's journal is not. */
export const TERMINAL_WAITING_BYTES = 256 * 1024
/** Resizes and signals that may wait for a sandbox to wake. */
export const TERMINAL_CONTROLS_MAX = 64
/** A client that answers no ping of two in a row is gone. */
export const TERMINAL_PING_MS = 30_000
/** What may wait for the client of a TCP connection before the connection is not read any more. */
export const TCP_WAITING_BYTES = 256 * 1024
