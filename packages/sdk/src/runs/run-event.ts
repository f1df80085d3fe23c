import type { RunEventAnswer } from '../contract/index.ts'
import { Result } from './result.ts'

/** As the server sends it, except `failed`, which is thrown. */
export type SentRunEvent = Exclude<RunEventAnswer, { type: 'failed' }>

/** An event of a run; `seq` starts at 0 and increases by one, and `exit` is the last event. */
export type RunEvent =
  | Exclude<SentRunEvent, { type: 'result' }>
  | (Omit<Extract<SentRunEvent, { type: 'result' }>, 'data'> & { data: Result })

export function readRunEvent(event: SentRunEvent): RunEvent {
  return event.type === 'result' ? { ...event, data: new Result(event.data, event.main) } : event
}

export async function* readRunEvents(
  events: AsyncIterable<SentRunEvent>,
): AsyncGenerator<RunEvent, void, undefined> {
  for await (const event of events) yield readRunEvent(event)
}
