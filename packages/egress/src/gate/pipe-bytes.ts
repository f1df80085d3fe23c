import type { Socket } from 'node:net'
import { HALF_CLOSED_TIMEOUT_MS } from '../limits.ts'

export interface PipeBytesOptions {
  readonly from: Socket
  readonly to: Socket
  /** Bytes that were read earlier and held back. */
  readonly held?: Buffer
  readonly onBytes: (count: number) => void
  /** False: nothing may be copied any more, and the caller ends the connection. */
  readonly mayPass?: () => boolean
}

/** Copies one direction of a connection, with back-pressure, and its end. The caller handles errors of both sockets. */
export function pipeBytes({ from, to, held, onBytes, mayPass }: PipeBytesOptions): void {
  const end = () => {
    to.end()
    from.setTimeout(HALF_CLOSED_TIMEOUT_MS)
    to.setTimeout(HALF_CLOSED_TIMEOUT_MS)
  }
  const pass = (chunk: Buffer) => {
    if (mayPass?.() === false) return
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
