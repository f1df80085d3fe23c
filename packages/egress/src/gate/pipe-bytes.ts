import type { Socket } from 'node:net'
import { HALF_CLOSED_TIMEOUT_MS } from '../limits.ts'

export interface PipeBytesOptions {
  readonly from: Socket
  readonly to: Socket
  /** Said before, and held back until now. */
  readonly held?: Buffer
  readonly onBytes: (count: number) => void
}

/**
 * Carries one direction of a connection: no faster than it is read at the other end, and the end of it as well. What breaks is the business of
 * the caller, who sees both sockets.
 */
export function pipeBytes({ from, to, held, onBytes }: PipeBytesOptions): void {
  const end = () => {
    to.end()
    from.setTimeout(HALF_CLOSED_TIMEOUT_MS)
    to.setTimeout(HALF_CLOSED_TIMEOUT_MS)
  }
  const pass = (chunk: Buffer) => {
    onBytes(chunk.length)
    // One chunk of at most 64 KiB lies here while the other end is slow; the rest waits in the kernel.
    if (!to.write(chunk)) from.pause()
  }
  from.on('data', pass)
  from.on('end', end)
  to.on('drain', () => from.resume())
  if (held !== undefined && held.length > 0) pass(held)
  if (from.readableEnded) end()
  else if (!to.writableNeedDrain) from.resume()
}
