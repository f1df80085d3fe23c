import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { FirstProcess } from '../process/first-process.ts'
import { connectPort } from './open-gate.ts'
import { PortSocket } from './port-socket.ts'

/** Each costs a descriptor of this process, and up to 1 MiB in the kernel. */
const MAX_CONNECTIONS = 512

/**
 * The connections of this process to ports inside one burrow. Its ends of them are not in a snapshot, so they are
 * closed before one is taken, except those that outlive it: their owner parks or closes them.
 */
export class PortConnections {
  readonly #first: FirstProcess
  readonly #open = new Set<PortSocket>()
  readonly #opening = new Set<Promise<unknown>>()
  #stopped: DormouseError | undefined

  constructor(first: FirstProcess) {
    this.#first = first
  }

  /** See `GuestPorts.connect`. */
  async connect(port: number, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<PortSocket> {
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      throw new DormouseError('invalid_argument', `port: ${port} is not a port from 1 to 65535`)
    if (this.#stopped !== undefined) throw this.#stopped
    if (this.#open.size + this.#opening.size >= MAX_CONNECTIONS)
      throw new DormouseError('limit_reached', `${MAX_CONNECTIONS} connections are open already`)
    const opening = this.#connect(port)
    this.#opening.add(opening)
    const socket = await opening.finally(() => this.#opening.delete(opening))
    const aborted = () => new DormouseError('cancelled', 'The call was cancelled.', { cause: signal?.reason })
    if (signal?.aborted) socket.destroy()
    if (signal?.aborted) throw aborted()
    if (this.#stopped !== undefined) throw this.#stopped
    const listener = onAbort(signal, () => socket.destroy(aborted()))
    socket.once('close', () => listener[Symbol.dispose]())
    return socket
  }

  async #connect(port: number): Promise<PortSocket> {
    const socket = new PortSocket(await connectPort(this.#first, port), port)
    this.#open.add(socket)
    // Always one listener, also between two users of the connection.
    socket.on('error', () => {})
    socket.once('close', () => this.#open.delete(socket))
    if (this.#stopped !== undefined) socket.destroy(this.#stopped)
    return socket
  }

  /**
   * Before a snapshot: new connections are refused, and the open ones begin to end in order. Settles when no connection
   * is being opened any more.
   */
  async stop(): Promise<void> {
    const reason = new DormouseError('agent_unreachable', 'The sandbox is being saved.')
    this.#stopped = reason
    for (const socket of this.#open) if (!socket.outlives) socket.endBecause(reason)
    await Promise.allSettled(this.#opening)
  }

  /** Post: no connection of ours is open, and new ones are refused. Those that have not ended yet are reset. */
  reset(): void {
    const reason = this.#stopped ?? new DormouseError('agent_unreachable', 'The burrow was closed.')
    this.#stopped = reason
    for (const socket of this.#open) if (!socket.outlives) socket.destroy(reason)
  }

  resume(): void {
    this.#stopped = undefined
  }
}
