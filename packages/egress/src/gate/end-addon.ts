/**
 * Swaps what the descriptor of a socket refers to; the socket itself does not notice. Works only on sockets of the
 * calling thread. See native/src/gate-ends-addon.h of the engine.
 */
export interface EndAddon {
  /**
   * Takes the ends of connections out of their burrow, as long as their records have at most `maxBytes` together.
   * Undefined stands for one that stays as it is.
   */
  parkEnds(fds: Int32Array, maxBytes: number): readonly (TakenEnd | undefined)[]
  /** For each end three descriptors: of the socket, `old`, `standIn`. The last two are closed. */
  reviveEnds(ends: Int32Array): readonly boolean[]
  /** For each end three descriptors: of the socket, of the new end, `standIn`. The last two are closed. */
  putEnds(ends: Int32Array): readonly boolean[]
  /** Whether closing these sockets resets their connections, also when this process is killed. */
  resetOnClose(fds: Int32Array, isOn: boolean): void
}

export interface TakenEnd {
  readonly record: Uint8Array
  /** The end that was taken out. Closing it does not reach the other end. */
  readonly old: number
  /** The other side of what the socket refers to meanwhile. */
  readonly standIn: number
}
