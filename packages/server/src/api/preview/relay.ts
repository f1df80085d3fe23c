import type { Duplex } from 'node:stream'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { ConnectionHold } from './connection-hold.ts'
import type { KeptConnections } from './kept-connections.ts'

export interface Relay {
  readonly connection: Duplex
  readonly hold: ConnectionHold
  /** Call when a response has started. */
  answered(): void
}

/**
 * Connects to a port in a sandbox, and wakes it if necessary. Throws `port_closed`. Aborting `signal` resets the
 * connection. The hold ends with the connection.
 */
export async function openRelay(
  sandbox: SandboxHandle,
  port: number,
  { signal, idleMs, kept }: { signal: AbortSignal; idleMs: number; kept?: KeptConnections },
): Promise<Relay> {
  const what = `a connection to port ${port}`
  // Taken before the waking call ends: the sandbox could fall asleep in between.
  let answered = () => {}
  const hold = new ConnectionHold(sandbox, { what, idleMs })
  try {
    const connection = await sandbox.use({ cause: 'port', what, signal }, async (guest) => {
      const connected = await guest.ports.connect(port, { signal })
      answered = kept?.expectAnswer(guest, port) ?? answered
      hold.follow(connected)
      return connected
    })
    // Always one listener, also between two users of the connection.
    connection.on('error', () => {})
    connection.once('close', () => {
      hold[Symbol.dispose]()
      answered()
    })
    return { connection, hold, answered }
  } catch (error) {
    hold[Symbol.dispose]()
    throw error
  }
}
