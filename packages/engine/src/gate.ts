/**
 * The only way out of a burrow: sockets of this process inside it. The caller that opens the gate owns both descriptors
 * and closes them, even after the burrow has ended: `net.Server.listen({ fd })`, `dgram.Socket.bind({ fd })`.
 */
export interface Gate {
  /**
   * A listening socket. Every connection that a process inside makes to an address other than the burrow's own arrives
   * here; the local address of an accepted socket is the one that was asked for. Where the host has IPv6, an IPv4
   * address looks like `::ffff:192.0.2.1`.
   */
  readonly tcp: number
  /** Receives the datagrams sent to the resolver inside, 198.18.0.1 port 53. */
  readonly dns: number
  /** Post: new connections are refused. Accepted connections continue. May be called again. */
  close(): void
}

/**
 * Holds this process's ends of connections while their burrow is replaced by the next one. Without a keeper, or for a
 * connection that it does not return, the program inside finds its connection closed.
 */
export interface GateKeeper {
  /**
   * Called while a snapshot is taken. Post: the ends that it returns are out of the burrow, and what ends the burrow no
   * longer reaches them.
   */
  park(): Promise<readonly ParkedEnd[]>
  /** There is no snapshot: the burrow continues, and the ends in it as if nothing had happened. */
  unpark(): Promise<void>
}

/** An end that was taken out of its burrow. */
export interface ParkedEnd {
  /** Chosen by the keeper. */
  readonly id: number
  /** Its state, as the engine's addon describes it. */
  readonly record: Uint8Array
}

/** Parked ends with what the snapshot says about the other ends. They fit that snapshot only. */
export type ParkedConnections = readonly ParkedEnd[]

/** An end in a new burrow. */
export interface OpenEnd {
  readonly id: number
  /** A connected socket. */
  readonly fd: number
}
