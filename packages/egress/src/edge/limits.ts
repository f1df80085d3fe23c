/** Bounds of what the edge holds for one connection. How many there are is the gate's to say. */

/** Large cookies and signed tokens fit; servers take less than this. */
export const HEAD_MAX_BYTES = 64 * 1024
/** Handshake with the client. */
export const CLIENT_HANDSHAKE_MS = 30_000
/** Name, connection and handshake with the server. */
export const SERVER_HANDSHAKE_MS = 30_000
/** Requests that a client has sent without waiting for answers. Each takes memory; hardly anybody sends a second one. */
export const REQUESTS_WAITING_MAX = 64
/** `SECRET_MIN_BYTES` of the contract. Said again, because the worker thread loads no other package of ours: tests run it from sources. */
export const CONCEALED_MIN_BYTES = 8
