import type { Duplex } from 'node:stream'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { ConnectionHold } from './connection-hold.ts'

export interface Relay {
  readonly connection: Duplex
  readonly hold: ConnectionHold
}

/**
 * Connects to a port in a sandbox, and wakes it if necessary. Throws `port_closed`. Aborting `signal` resets the
 * connection. The hold ends with the connection.
 */
export async function openRelay(
  sandbox: SandboxHandle,
  port: number,
  { signal, idleMs }: { signal: AbortSignal; idleMs: number },
): Promise<Relay> {
  const what = `a connection to port ${port}`
  // Taken before the waking call ends: the sandbox could fall asleep in between.
  const hold = new ConnectionHold(sandbox, { what, idleMs })
  try {
    const connection = await sandbox.use({ cause: 'port', what, signal }, (guest) =>
      guest.ports.connect(port, { signal }),
    )
    // Always one listener, also between two users of the connection.
    connection.on('error', () => {})
    connection.once('close', () => hold[Symbol.dispose]())
    return { connection, hold }
  } catch (error) {
    hold[Symbol.dispose]()
    throw error
  }
}
