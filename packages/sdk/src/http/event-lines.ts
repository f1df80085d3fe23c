import { unreachable } from './error-from.ts'
import type { Opened } from './http.ts'

/** The server writes something at least every 15 seconds: who is silent for three times as long is gone. */
const SILENCE_MS = 45_000

/** The objects in the `data:` lines of an event stream, as they come. Ends when the stream does, and throws when it breaks. */
export async function* eventLines<Event>({
  response,
  close,
}: Opened): AsyncGenerator<Event, void, undefined> {
  if (response.body === null) return close()
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  // Pieces of a line that is not whole yet: an image may arrive in thousands of them.
  let pieces: string[] = []
  try {
    for (;;) {
      const { done, value } = await inTime(reader)
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
    reader.cancel().catch(() => {})
    close()
  }
}

async function inTime(reader: ReadableStreamDefaultReader<Uint8Array>) {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing was heard for ${SILENCE_MS} ms`)), SILENCE_MS)
  })
  try {
    return await Promise.race([reader.read(), silence])
  } catch (cause) {
    throw unreachable('the other end', cause)
  } finally {
    clearTimeout(timer)
  }
}
