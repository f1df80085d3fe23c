/** Limits of this package, each with its unit in the name and its reason. A sandbox can reach them, not change them. */

/**
 * A browser or package manager opens some dozens, a crawler a few hundred. A stalled connection holds about 128 KiB
 * here.
 */
export const CONNECTIONS_MAX_PER_SANDBOX = 512
/** For all sandboxes. Each connection takes two descriptors; all of them stalled take half a gigabyte. */
export const CONNECTIONS_MAX = 4096
/**
 * Connections that wait in the kernel while the worker is busy. The engine made the listener and may set a lower bound.
 */
export const GATE_BACKLOG = 512

/**
 * What is in flight when a sandbox falls asleep, in memory until it wakes. A connection on which nothing flows takes
 * 100 bytes. Connections that do not fit end.
 */
export const KEPT_MAX_BYTES_PER_SANDBOX = 32 * 1024 ** 2
/** For all sandboxes. */
export const KEPT_MAX_BYTES = 256 * 1024 ** 2

/** Enough for the other side of the world and three lost packets. */
export const DIAL_TIMEOUT_MS = 20_000
/** No byte in either direction. Routers in between have forgotten the connection by then. */
export const IDLE_TIMEOUT_MS = 2 * 3600 * 1000
/** One side has ended its half, and the other sends nothing either. */
export const HALF_CLOSED_TIMEOUT_MS = 5 * 60 * 1000
/** The kernel detects a dead peer after this and some probes. */
export const KEEP_ALIVE_MS = 60_000

/**
 * A ClientHello with post-quantum keys takes 2 KiB, a request head with cookies 8 KiB. No honest client needs more to
 * name its host.
 */
export const HELLO_MAX_BYTES = 32 * 1024
/** From the first to the last byte of a ClientHello or request head. */
export const HELLO_TIMEOUT_MS = 10_000
/** How long the gate waits for a ClientHello before it dials, when the edge might have to dial instead. */
export const HELLO_EXPECTED_MS = 250
/** The longest response head of a proxy. */
export const PROXY_ANSWER_MAX_BYTES = 16 * 1024

/** Further questions are dropped unread: all sandboxes share one thread, and an answer costs more than a question. */
export const QUESTIONS_MAX_PER_SECOND = 1000
/** Questions of one sandbox that wait for an upstream name server. */
export const QUESTIONS_MAX_IN_FLIGHT = 32
export const QUESTIONS_MAX_QUEUED = 128
/** Unanswered questions on one TCP connection. */
export const QUESTIONS_MAX_PER_CONNECTION = 16
/** A question is a name and a few options. */
export const QUESTION_MAX_BYTES = 4096
export const DNS_TCP_IDLE_TIMEOUT_MS = 10_000
/** Passes every link without fragments (DNS flag day 2020). */
export const DNS_UDP_MAX_BYTES = 1232
export const DNS_UDP_DEFAULT_BYTES = 512
export const UPSTREAM_TIMEOUT_MS = 2_000
export const UPSTREAM_ATTEMPTS = 2
/** The C library asks at most three name servers, too. */
export const UPSTREAM_SERVERS_MAX = 3
/** Records read from one answer: a flood of records must not fill the pins. */
export const ANSWER_RECORDS_MAX = 64
export const CACHE_MAX_ENTRIES = 256
export const CACHE_TTL_MAX_SECONDS = 300
export const CACHE_NEGATIVE_TTL_MAX_SECONDS = 30
/** Registry names are resolved by the host's own resolver, which reports no time to live. */
export const REGISTRY_TTL_SECONDS = 60

/** Programs use addresses longer than their time to live. */
export const PIN_MIN_MS = 15 * 60 * 1000
export const PIN_MAX_MS = 24 * 3600 * 1000
/** Name-address pairs of one sandbox. The oldest go first. */
export const PINS_MAX = 4096
/** Names with a synthetic address. The oldest go first. */
export const SYNTHETIC_MAX = 4096

/** Denials of one kind within this time make one event. */
export const DENIAL_WINDOW_MS = 2_000
/** Events of one sandbox within that time. Further denials are counted in one more event. */
export const DENIAL_EVENTS_MAX = 10

/** Reports of failed look-ups of one sandbox: a loop that tries new names must not flood the main thread. */
export const FAILED_LOOKUPS_BURST = 20
export const FAILED_LOOKUPS_PER_SECOND = 5

/** How long a reading of the host's addresses counts: interfaces come and go. */
export const HOST_ADDRESSES_TTL_MS = 1_000
export const IPV6_ROUTE_TTL_MS = 30_000
/** Bounds the CPU time that a crashing worker can take. */
export const WORKER_RESTART_DELAY_MS = 1_000
/** Closing takes a few system calls per connection. A worker that needs longer is stuck and is terminated. */
export const WORKER_CLOSE_TIMEOUT_MS = 5_000
