/** Bounds of the SSH side, each with its unit in the name and its reason. */

/** A client that has not proved who it is by then only holds a socket. */
export const HANDSHAKE_MS = 20_000
/** Sockets of clients that have not proved who they are: in all, and from one place. */
export const UNAUTHENTICATED_MAX = 64
export const UNAUTHENTICATED_PER_SOURCE_MAX = 32
/** Connections that end without proof, from one place: so many at once, then one every other second. */
export const FAILURES_BURST = 60
export const FAILURES_PER_SECOND = 0.5
/** Places that are remembered for their failures; the oldest is forgotten first. */
export const SOURCES_MAX = 10_000
/** Keys that one connection may offer: agents hold a dozen. */
export const OFFERS_MAX = 20
/** Far more than one host serves, far less than it has file descriptors. */
export const CONNECTIONS_MAX = 1024
/** Sessions and forwarded connections at once on one connection. */
export const CHANNELS_MAX = 256
/** Locale and terminal of a session are a dozen variables. */
export const ENV_MAX = 64
export const ENV_VALUE_MAX_CHARACTERS = 1024
/** What may wait in the socket of a connection before its channels are not written to any more. */
export const OUTGOING_MAX_BYTES = 1024 ** 2
/** What one channel may hold that nobody has taken. A client may send two windows of 2 MiB while the first is being read. */
export const INCOMING_MAX_BYTES = 8 * 1024 ** 2
/** Signals that wait for a process to hear of them. */
export const SIGNALS_MAX = 16
/** A client that answers none of three questions in a row is gone. */
export const KEEP_ALIVE_MS = 20_000
export const KEEP_ALIVE_COUNT = 3
/** What a client gets to read the last words, before its socket is closed. */
export const CLOSE_GRACE_MS = 1_000
