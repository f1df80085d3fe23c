import type { ErrorAnswer } from '../contract/index.ts'
import { cancelled, DormouseError } from '../error.ts'
import { errorFromAnswer } from './error-from.ts'
import { eventLines } from './event-lines.ts'
import { isPassing, type Opened } from './http.ts'
import { Patience } from './patience.ts'

/** How long a stream tries to be connected again without one event more. */
const PATIENCE_MS = 60_000

export interface Follow<Event> {
  /** Opens the stream behind `after`; called again whenever the connection is lost. */
  readonly open: (after: number) => Promise<Opened>
  readonly after?: number | undefined
  readonly isLast: (event: Event) => boolean
  /** A stream that ends without a last event is complete, and not cut off. */
  readonly mayEnd?: boolean
  readonly signal?: AbortSignal | undefined
}

type Failed = { readonly type: 'failed'; readonly error: ErrorAnswer['error'] }

/** Numbered events, each once and in order, over as many connections as it takes. */
export async function* follow<Event extends { readonly seq: number; readonly type: string }>(
  how: Follow<Event>,
): AsyncGenerator<Event, void, undefined> {
  const { open, isLast, mayEnd = false, signal } = how
  const patience = new Patience(PATIENCE_MS)
  let seen = how.after ?? -1
  for (;;) {
    try {
      for await (const event of eventLines<Event | Failed>(await open(seen))) {
        if (event.type === 'failed') throw errorFromAnswer((event as Failed).error)
        const numbered = event as Event
        if (numbered.seq <= seen) continue
        seen = numbered.seq
        patience.renew()
        yield numbered
        if (isLast(numbered)) return
      }
      if (mayEnd) return
      throw new DormouseError('server_unreachable', 'The stream ended before the last event.', {
        hint: 'Ask again for what comes after the last event that was seen.',
      })
    } catch (error) {
      if (signal?.aborted) throw cancelled(signal)
      if (!isPassing(error)) throw error
      await patience.wait(error, signal)
    }
  }
}
