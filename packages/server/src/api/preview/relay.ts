import type { Duplex } from 'node:stream'
import type { Sandbox } from '../../sandbox/service.ts'
import { ConnectionWork } from './connection-work.ts'

export interface Relay {
  readonly connection: Duplex
  readonly work: ConnectionWork
}

/**
 * Connects to a port inside, and wakes the sandbox for it if need be. Throws `port_closed`. Aborting `signal` resets the connection;
 * the work is over when the connection is.
 */
export async function openRelay(
  sandbox: Sandbox,
  port: number,
  { signal, idleMs }: { signal: AbortSignal; idleMs: number },
): Promise<Relay> {
  const what = `a connection to port ${port}`
  // Before the call that wakes it ends: in between it could fall asleep again.
  const work = new ConnectionWork(sandbox, { what, idleMs })
  try {
    const connection = await sandbox.use({ cause: 'port', what, signal }, (guest) =>
      guest.ports.connect(port, { signal }),
    )
    // Also between two users of it, none of whom listens.
    connection.on('error', () => {})
    connection.once('close', () => work[Symbol.dispose]())
    return { connection, work }
  } catch (error) {
    work[Symbol.dispose]()
    throw error
  }
}
