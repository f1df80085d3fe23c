import type { ErrorAnswer } from '../contract/index.ts'
import { cancelled, DormouseError } from '../error.ts'
import { Backoff } from '../timing.ts'
import { errorFromAnswer } from './error-from.ts'
import { eventLines } from './event-lines.ts'
import { isTransient, type Opened } from './http.ts'

/** How long a stream tries to reconnect without receiving another event. */
const RECONNECT_MS = 60_000

export interface Follow<Event> {
  /** Opens the stream after `after`; called again after every lost connection. */
  readonly open: (after: number) => Promise<Opened>
  readonly after?: number | undefined
  readonly isLast: (event: Event) => boolean
  /** The stream may end without a last event. */
  readonly mayEnd?: boolean
  readonly signal?: AbortSignal | undefined
}

type Failed = { readonly type: 'failed'; readonly error: ErrorAnswer['error'] }

/** Numbered events, each once and in order, over as many connections as needed. */
export async function* follow<Event extends { readonly seq: number; readonly type: string }>(
  how: Follow<Event>,
): AsyncGenerator<Event, void, undefined> {
  const { open, isLast, mayEnd = false, signal } = how
  const backoff = new Backoff(RECONNECT_MS)
  let seen = how.after ?? -1
  for (;;) {
    try {
      for await (const event of eventLines<Event | Failed>(await open(seen))) {
        if (event.type === 'failed') throw errorFromAnswer((event as Failed).error)
        const numbered = event as Event
        if (numbered.seq <= seen) continue
        seen = numbered.seq
        backoff.reset()
        yield numbered
        if (isLast(numbered)) return
      }
      if (mayEnd) return
      throw new DormouseError('server_unreachable', 'The stream ended before the last event.', {
        hint: 'Read again from the last event that you have seen.',
      })
    } catch (error) {
      if (signal?.aborted) throw cancelled(signal)
      if (!isTransient(error)) throw error
      await backoff.wait(error, signal)
    }
  }
}
