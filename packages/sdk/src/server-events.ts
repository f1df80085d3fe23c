import type { ActivityAnswer, OverviewAnswer, ServerEventAnswer } from './contract/index.ts'
import { follow } from './http/follow.ts'
import type { Http } from './http/http.ts'
import type { Abortable } from './options.ts'

/** Something that happened on the server. */
export type ServerEvent = ServerEventAnswer
/** Numbers of all sandboxes. */
export type Overview = OverviewAnswer
/** What one sandbox did in the last day, and does now. */
export type SandboxActivity = ActivityAnswer['items'][number]

export interface EventsOptions extends Abortable {
  /** Continue after this `seq`. Default: what happens from now on. */
  readonly after?: number | undefined
  /** Only events of this sandbox. */
  readonly sandbox?: string | undefined
}

/** Events until `signal` aborts, over as many connections as needed. A `gap` means: read the lists again. */
export function followEvents(
  http: Http,
  { after, sandbox, signal }: EventsOptions,
): AsyncGenerator<ServerEvent> {
  return follow<ServerEvent>({
    open: (seen) =>
      http.open({
        path: '/v1/events',
        query: { after: seen < 0 ? undefined : seen, sandbox },
        headers: { accept: 'text/event-stream' },
        signal,
      }),
    after,
    isLast: () => false,
    signal,
  })
}
