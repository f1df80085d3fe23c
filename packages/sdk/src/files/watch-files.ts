import type { ErrorAnswer, FileChangeAnswer } from '../contract/index.ts'
import { cancelled } from '../error.ts'
import { errorFromAnswer } from '../http/error-from.ts'
import { eventLines } from '../http/event-lines.ts'
import { type Http, isTransient, type Query } from '../http/http.ts'
import { Backoff } from '../timing.ts'

const RECONNECT_MS = 60_000

type Failed = { readonly type: 'failed'; readonly error: ErrorAnswer['error'] }

/** Changes are not numbered: one `overflow` stands for those during a lost connection. */
export async function* watchFiles(
  http: Http,
  { path, query, signal }: { path: string; query: Query; signal: AbortSignal | undefined },
): AsyncGenerator<FileChangeAnswer, void, undefined> {
  const backoff = new Backoff(RECONNECT_MS)
  let isReady = false
  for (;;) {
    try {
      const opened = await http.open({ path, query, headers: { accept: 'text/event-stream' }, signal })
      for await (const change of eventLines<FileChangeAnswer | Failed>(opened)) {
        if (change.type === 'failed') throw errorFromAnswer(change.error)
        backoff.reset()
        if (change.type === 'ready' && isReady) yield { type: 'overflow', path: change.path }
        else yield change
        isReady = true
      }
      return
    } catch (error) {
      if (signal?.aborted) throw cancelled(signal)
      if (!isTransient(error)) throw error
      await backoff.wait(error, signal)
    }
  }
}
