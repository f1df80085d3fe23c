import type { Readable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { isTerminalLost, terminalLost } from './terminal-loss.ts'

/** Reads a stream to its end. Rejects when `signal` aborts, and when the stream is a terminal that is lost. */
export async function readAll(stream: Readable, signal: AbortSignal): Promise<Buffer> {
  const pieces: Buffer[] = []
  using _listener = onAbort(signal, () => stream.destroy(new DOMException('stopped', 'AbortError')))
  for await (const piece of stream) pieces.push(Buffer.from(piece as Uint8Array))
  if (isTerminalLost(stream)) throw terminalLost()
  return Buffer.concat(pieces)
}
