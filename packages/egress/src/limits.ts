/** Bounds of this package, each with its unit in the name and its reason. A sandbox meets them; it must not be able to move them. */

/** A browser or a package manager has some dozens; a crawler a few hundred. A stalled one holds about 128 KiB of ours. */
export const CONNECTIONS_MAX_PER_SANDBOX = 512
/** All sandboxes together: two descriptors each, and half a gigabyte if every one of them is stalled. */
export const CONNECTIONS_MAX = 4096
/** Connections that wait to be accepted while the worker is busy. The listener was made by the engine, which has the last word. */
export const GATE_BACKLOG = 512

/** Long enough for the other side of the world and three lost packets. */
export const DIAL_TIMEOUT_MS = 20_000
/** Nothing in either direction: what sits between has forgotten the connection by then. */
export const IDLE_TIMEOUT_MS = 2 * 3600 * 1000
/** One side is done and the other says nothing either. */
export const HALF_CLOSED_TIMEOUT_MS = 5 * 60 * 1000
/** A dead peer is found out after this and some probes. */
export const KEEP_ALIVE_MS = 60_000

/** A ClientHello with post-quantum keys has 2 KiB, heads with cookies 8; nothing honest needs more to say whom it wants. */
export const HELLO_MAX_BYTES = 32 * 1024
/** From the first byte of a ClientHello or a request head to its last. */
export const HELLO_TIMEOUT_MS = 10_000
/** How long dialing waits for a ClientHello when it may turn out that the edge dials instead. */
export const HELLO_EXPECTED_MS = 250
/** What a proxy may say before the tunnel begins. */
export const PROXY_ANSWER_MAX_BYTES = 16 * 1024

/** What is beyond is dropped unread: asking is cheap for a sandbox, answering is not, and all share one thread. */
export const QUESTIONS_MAX_PER_SECOND = 1000
/** Questions of one sandbox that wait for a name server. */
export const QUESTIONS_MAX_IN_FLIGHT = 32
export const QUESTIONS_MAX_QUEUED = 128
/** Questions on one TCP connection that are not answered yet. */
export const QUESTIONS_MAX_PER_CONNECTION = 16
/** A question is a name and some options. */
export const QUESTION_MAX_BYTES = 4096
export const DNS_TCP_IDLE_TIMEOUT_MS = 10_000
/** What passes every link without being cut into fragments (DNS flag day 2020). */
export const DNS_UDP_MAX_BYTES = 1232
export const DNS_UDP_DEFAULT_BYTES = 512
export const UPSTREAM_TIMEOUT_MS = 2_000
export const UPSTREAM_ATTEMPTS = 2
/** As the C library: more name servers than three are not asked. */
export const UPSTREAM_SERVERS_MAX = 3
/** Records of one answer that are looked at: a flood must not fill the pins. */
export const ANSWER_RECORDS_MAX = 64
export const CACHE_MAX_ENTRIES = 256
export const CACHE_TTL_MAX_SECONDS = 300
export const CACHE_NEGATIVE_TTL_MAX_SECONDS = 30
/** Names of registries are looked up as the host does it, which tells no time to live. */
export const REGISTRY_TTL_SECONDS = 60

/** Programs keep addresses longer than they were told to. */
export const PIN_MIN_MS = 15 * 60 * 1000
export const PIN_MAX_MS = 24 * 3600 * 1000
/** Pairs of one sandbox; the oldest go first. */
export const PINS_MAX = 4096
/** Names that stand for a made-up address; the oldest go first. */
export const SYNTHETIC_MAX = 4096

/** Refusals of one kind within this time are one event. */
export const DENIAL_WINDOW_MS = 2_000
/** Events of one sandbox within that time; what is beyond is counted in one more. */
export const DENIAL_EVENTS_MAX = 10

/** How long the addresses of this host are believed: interfaces come and go. */
export const HOST_ADDRESSES_TTL_MS = 1_000
export const IPV6_ROUTE_TTL_MS = 30_000
/** A worker that dies over and over must not take the host's CPU with it. */
export const WORKER_RESTART_DELAY_MS = 1_000
/** Closing is a few system calls for each connection; a worker that takes longer is stuck, and is ended. */
export const WORKER_CLOSE_TIMEOUT_MS = 5_000
