import type { RunAnswer, RunPageAnswer, RunWithResultAnswer } from '../contract/index.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import { Pages } from '../http/pages.ts'
import type { Abortable } from '../options.ts'
import type { RunEvent } from './run-options.ts'
import { interruptRun } from './stream-run.ts'

/** The runs of a sandbox, also those that other programs started. */
export class Runs {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = sandboxPath
  }

  /** Newest first. */
  list({ signal }: Abortable = {}): Pages<RunAnswer> {
    return new Pages((page) =>
      this.#http.json<RunPageAnswer>({ path: `${this.#path}/runs`, query: page, signal }),
    )
  }

  /** Its state, and its result after its end. */
  get(runId: string, { signal }: Abortable = {}): Promise<RunWithResultAnswer> {
    return this.#http.json({ path: `${this.#path}/runs/${encodeURIComponent(runId)}`, signal })
  }

  /** Its events after `after`, to its end; with `follow: false`, only those that exist now. */
  events(
    runId: string,
    { after, follow: isFollowed = true, signal }: Abortable & { after?: number; follow?: boolean } = {},
  ): AsyncIterable<RunEvent> {
    const path = `${this.#path}/runs/${encodeURIComponent(runId)}/events`
    return follow<RunEvent>({
      open: (seen) =>
        this.#http.open({
          path,
          headers: { accept: 'text/event-stream' },
          query: { after: seen, follow: isFollowed },
          signal,
        }),
      isLast: ({ type }) => type === 'exit',
      mayEnd: !isFollowed,
      after,
      signal,
    })
  }

  /** Raises KeyboardInterrupt in it; the REPL keeps its variables. */
  interrupt(runId: string, { signal }: Abortable = {}): ReturnType<typeof interruptRun> {
    return interruptRun(this.#http, this.#path, encodeURIComponent(runId), signal)
  }
}
