import { connect, type Socket } from 'node:net'
import { KEEP_ALIVE_MS } from '../limits.ts'
import { untilConnected } from './until-connected.ts'

export interface DirectTarget {
  /**
   * Must be an address when a sandbox has a say in it. Then nothing is resolved again, and we dial the address that the
   * policy judged.
   */
  readonly host: string
  readonly port: number
}

/** Returns a connection from which nothing was read yet. Rejects when it takes too long or `signal` aborts. */
export function dialDirect({ host, port }: DirectTarget, signal: AbortSignal): Promise<Socket> {
  const socket = connect({
    host,
    port,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  })
  return untilConnected(socket, signal, (resolve) => socket.once('connect', () => resolve(socket)))
}
