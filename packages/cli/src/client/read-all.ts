import type { Readable } from 'node:stream'

/** All that comes, until the end or until the signal. */
export async function readAll(stream: Readable, signal: AbortSignal): Promise<Buffer> {
  const pieces: Buffer[] = []
  const stop = () => stream.destroy(new DOMException('stopped', 'AbortError'))
  signal.addEventListener('abort', stop, { once: true })
  try {
    for await (const piece of stream) pieces.push(Buffer.from(piece as Uint8Array))
    return Buffer.concat(pieces)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
