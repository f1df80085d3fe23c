import { DormouseError, hasCode } from '../error.ts'
import { unreachable } from '../http/error-from.ts'
import { type Http, isPassing, type Opened, type Query } from '../http/http.ts'
import { Patience } from '../http/patience.ts'

const PATIENCE_MS = 60_000

/** The bytes of one and the same file: after a lost connection it goes on where it was, if the file has not changed meanwhile. */
export async function* readFile(
  http: Http,
  { path, query, signal }: { path: string; query: Query; signal: AbortSignal | undefined },
): AsyncGenerator<Uint8Array, void, undefined> {
  const patience = new Patience(PATIENCE_MS)
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
      // Without a length the kernel makes it up as it is read: what was read cannot be skipped.
      const isSteady = opened.response.headers.has('content-length')
      for await (const piece of pieces(opened)) {
        position = isSteady ? position + piece.byteLength : Number.NaN
        patience.renew()
        yield piece
      }
      return
    } catch (error) {
      // It is not as long any more as what was read of it.
      if (position > 0 && hasCode(error, 'range_not_satisfiable')) throw changed(query, error)
      if (!isPassing(error) || Number.isNaN(position)) throw error
      await patience.wait(error, signal)
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
    reader.cancel().catch(() => {})
    close()
  }
}

function drop({ response, close }: Opened): void {
  response.body?.cancel().catch(() => {})
  close()
}

function changed(query: Query, cause?: unknown): DormouseError {
  return new DormouseError('conflict', `${query['path']}: changed while it was read`, {
    hint: 'Something wrote to it meanwhile. Read it again, or read a copy.',
    cause,
  })
}
