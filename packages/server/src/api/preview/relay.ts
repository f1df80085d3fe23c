import type { Duplex } from 'node:stream'
import type { Sandbox } from '../../sandbox/service.ts'
import { ConnectionHold } from './connection-hold.ts'

export interface Relay {
  readonly connection: Duplex
  readonly hold: ConnectionHold
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
  const hold = new ConnectionHold(sandbox, { what, idleMs })
  try {
    const connection = await sandbox.use({ cause: 'port', what, signal }, (guest) =>
      guest.ports.connect(port, { signal }),
    )
    // Also between two users of it, none of whom listens.
    connection.on('error', () => {})
    connection.once('close', () => hold[Symbol.dispose]())
    return { connection, hold }
  } catch (error) {
    hold[Symbol.dispose]()
    throw error
  }
}
