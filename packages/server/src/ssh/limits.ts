/** Limits of the SSH server, each with its unit in the name and its reason. */

/** A client that has not authenticated by then is disconnected. */
export const HANDSHAKE_MS = 20_000
/** Connections that have not authenticated yet: in total, and from one source network. */
export const UNAUTHENTICATED_MAX = 64
export const UNAUTHENTICATED_PER_SOURCE_MAX = 32
/** Failed logins from one source network: this many at once, then one every two seconds. */
export const FAILURES_BURST = 60
export const FAILURES_PER_SECOND = 0.5
/** Source networks whose failures are remembered. The oldest goes first. */
export const SOURCES_MAX = 10_000
/** Keys that one connection may try. SSH agents hold about a dozen. */
export const OFFERS_MAX = 20
/** Far more than one host serves, far less than it has file descriptors. */
export const CONNECTIONS_MAX = 1024
/** Open sessions and forwarded connections of one connection. */
export const CHANNELS_MAX = 256
/** A session sends about a dozen variables for locale and terminal. */
export const ENV_MAX = 64
export const ENV_VALUE_MAX_CHARACTERS = 1024
/** Bytes that may wait in the socket of a connection before writes to its channels pause. */
export const OUTGOING_MAX_BYTES = 1024 ** 2
/** Unread bytes of one channel. A client may send two windows of 2 MiB while the first is being read. */
export const INCOMING_MAX_BYTES = 8 * 1024 ** 2
/** Signals that wait for delivery to a process. */
export const SIGNALS_MAX = 16
/** A client that misses three keep-alives in a row is disconnected. */
export const KEEP_ALIVE_MS = 20_000
export const KEEP_ALIVE_COUNT = 3
/** Time for a client to read the last bytes before its socket is closed. */
export const CLOSE_GRACE_MS = 1_000
