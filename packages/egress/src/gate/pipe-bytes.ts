import type { Socket } from 'node:net'
import { HALF_CLOSED_TIMEOUT_MS } from '../limits.ts'

export interface PipeBytesOptions {
  readonly from: Socket
  readonly to: Socket
  /** Bytes that were read earlier and held back. */
  readonly held?: Buffer
  readonly onBytes: (count: number) => void
}

/** Copies one direction of a connection, with back-pressure, and its end. The caller handles errors of both sockets. */
export function pipeBytes({ from, to, held, onBytes }: PipeBytesOptions): void {
  const end = () => {
    to.end()
    from.setTimeout(HALF_CLOSED_TIMEOUT_MS)
    to.setTimeout(HALF_CLOSED_TIMEOUT_MS)
  }
  const pass = (chunk: Buffer) => {
    onBytes(chunk.length)
    // At most one chunk of 64 KiB is buffered here; the rest waits in the kernel.
    if (!to.write(chunk)) from.pause()
  }
  from.on('data', pass)
  from.on('end', end)
  to.on('drain', () => from.resume())
  if (held !== undefined && held.length > 0) pass(held)
  if (from.readableEnded) end()
  else if (!to.writableNeedDrain) from.resume()
}
