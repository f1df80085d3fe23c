import type { RunAnswer, RunPageAnswer, RunWithResultAnswer } from '../contract/index.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import { Pages } from '../http/pages.ts'
import type { Abortable } from '../options.ts'
import type { RunEvent } from './run-options.ts'
import { interruptRun } from './stream-run.ts'

/** The runs of a sandbox: also those that somebody else has started, or that nobody waits for. */
export class Runs {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = sandboxPath
  }

  /** The newest first. */
  list({ signal }: Abortable = {}): Pages<RunAnswer> {
    return new Pages((page) =>
      this.#http.json<RunPageAnswer>({ path: `${this.#path}/runs`, query: page, signal }),
    )
  }

  /** Its state, and its result once it is over. */
  get(runId: string, { signal }: Abortable = {}): Promise<RunWithResultAnswer> {
    return this.#http.json({ path: `${this.#path}/runs/${encodeURIComponent(runId)}`, signal })
  }

  /** Replays its events behind `after` and follows it to its end; `follow: false`: only what is there now. */
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

  /** KeyboardInterrupt; the REPL and its variables live on. */
  interrupt(runId: string, { signal }: Abortable = {}): ReturnType<typeof interruptRun> {
    return interruptRun(this.#http, this.#path, encodeURIComponent(runId), signal)
  }
}
