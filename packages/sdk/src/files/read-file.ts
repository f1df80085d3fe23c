import { DormouseError, hasCode } from '../error.ts'
import { unreachable } from '../http/error-from.ts'
import { type Http, isTransient, type Opened, type Query } from '../http/http.ts'
import { Backoff } from '../timing.ts'

const RECONNECT_MS = 60_000

/** The bytes of a file. Continues after a lost connection if the file has not changed. */
export async function* readFile(
  http: Http,
  { path, query, signal }: { path: string; query: Query; signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array, void, undefined> {
  const backoff = new Backoff(RECONNECT_MS)
  let tag: string | null | undefined
  let position = 0
  for (;;) {
    try {
      const headers = position === 0 ? {} : { range: `bytes=${position}-` }
      const opened = await http.open({ path, query, headers, signal })
      const found = opened.response.headers.get('etag')
      if (position > 0 && (found !== tag || opened.response.status !== 206)) {
        drop(opened)
        throw changed(query)
      }
      tag = found
      // A file without a length, as in /proc, cannot be continued in the middle.
      const hasLength = opened.response.headers.has('content-length')
      for await (const piece of pieces(opened)) {
        position = hasLength ? position + piece.byteLength : Number.NaN
        backoff.reset()
        yield piece
      }
      return
    } catch (error) {
      // The file is shorter now than what was read of it.
      if (position > 0 && hasCode(error, 'range_not_satisfiable')) throw changed(query, error)
      if (!isTransient(error) || Number.isNaN(position)) throw error
      await backoff.wait(error, signal)
    }
  }
}

async function* pieces({ response, close }: Opened): AsyncGenerator<Uint8Array, void, undefined> {
  if (response.body === null) return close()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw unreachable(new URL(response.url).origin, cause)
      })
      if (done) return
      yield value
    }
  } finally {
    // The caller reads no more, so an error has no meaning.
    reader.cancel().catch(() => {})
    close()
  }
}

function drop({ response, close }: Opened): void {
  // The caller reads no more, so an error has no meaning.
  response.body?.cancel().catch(() => {})
  close()
}

function changed(query: Query, cause?: unknown): DormouseError {
  return new DormouseError('conflict', `${query['path']}: changed while it was read`, {
    hint: 'Read it again, or read a copy.',
    cause,
  })
}
