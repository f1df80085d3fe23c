/** Limits of one connection at the edge. The gate limits how many there are. */

/** Fits large cookies and signed tokens; servers accept less. */
export const HEAD_MAX_BYTES = 64 * 1024
/** TLS handshake with the client. */
export const CLIENT_HANDSHAKE_MS = 30_000
/** Look-up, connection and TLS handshake with the server. */
export const SERVER_HANDSHAKE_MS = 30_000
/** Pipelined requests. Each takes memory; few clients send a second one. */
export const REQUESTS_WAITING_MAX = 64
/** `SECRET_MIN_BYTES` of the contracts. Repeated here, so that the worker thread does not load zod. */
export const CONCEALED_MIN_BYTES = 8
