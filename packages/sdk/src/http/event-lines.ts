import { cancelled } from '../error.ts'
import { withTimeout } from '../timing.ts'
import { unreachable } from './error-from.ts'
import type { Opened } from './http.ts'

/** The server writes to a stream at least every 15 seconds; one that is silent for three times as long is lost. */
const SILENCE_MS = 45_000

/** Parses the `data:` lines of an event stream. Ends with the stream, and throws if it breaks or the caller aborts. */
export async function* eventLines<Event>({
  response,
  signal,
  close,
}: Opened): AsyncGenerator<Event, void, undefined> {
  if (response.body === null) return close()
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  // The pieces of an incomplete line: an image may arrive in thousands of them.
  let pieces: string[] = []
  try {
    for (;;) {
      const { done, value } = await readWithTimeout(reader, signal)
      if (done) return
      const lines = decoder.decode(value, { stream: true }).split('\n')
      for (const [index, text] of lines.entries()) {
        pieces.push(text)
        if (index === lines.length - 1) continue
        const line = pieces.join('')
        pieces = []
        if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length)) as Event
      }
    }
  } finally {
    // The caller reads no more, so an error has no meaning.
    reader.cancel().catch(() => {})
    close()
  }
}

async function readWithTimeout(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  signal: AbortSignal | undefined,
) {
  try {
    return await withTimeout(reader.read(), SILENCE_MS, `nothing was received for ${SILENCE_MS} ms`)
  } catch (cause) {
    throw signal?.aborted ? cancelled(signal) : unreachable('the other end', cause)
  }
}
