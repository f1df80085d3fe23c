import { pathPart } from '../check.ts'
import type { RunAnswer, RunPageAnswer, RunWithResultAnswer } from '../contract/index.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import { Pages } from '../http/pages.ts'
import type { CallOptions } from '../options.ts'
import { eachWithinTime } from '../timing.ts'
import { type RunEvent, readRunEvents, type SentRunEvent } from './run-event.ts'
import { type RunResult, readRunResult } from './run-result.ts'
import { interruptRun } from './stream-run.ts'

/** A run, and its result after its end. */
export type Run = Omit<RunWithResultAnswer, 'result'> & { readonly result?: RunResult }

/** The runs of a sandbox, also those that other programs started. */
export class Runs {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = sandboxPath
  }

  /** Newest first. */
  list({ signal, timeoutMs }: CallOptions = {}): Pages<RunAnswer> {
    return new Pages((page) =>
      this.#http.json<RunPageAnswer>({ path: `${this.#path}/runs`, query: page, signal, timeoutMs }),
    )
  }

  /** Its state, and its result after its end. */
  async get(runId: string, { signal, timeoutMs }: CallOptions = {}): Promise<Run> {
    const path = `${this.#path}/runs/${pathPart('runId', runId)}`
    const { result, ...run } = await this.#http.json<RunWithResultAnswer>({ path, signal, timeoutMs })
    return result === undefined ? run : { ...run, result: readRunResult(result) }
  }

  /** Its events after `after`, to its end; with `follow: false`, only those that exist now. */
  events(
    runId: string,
    { after, follow: isFollowed = true, ...limits }: CallOptions & { after?: number; follow?: boolean } = {},
  ): AsyncIterable<RunEvent> {
    const path = `${this.#path}/runs/${pathPart('runId', runId)}/events`
    const headers = { accept: 'text/event-stream' }
    const events = eachWithinTime(limits, (signal) =>
      follow<SentRunEvent>({
        open: (seen) =>
          this.#http.open({ path, headers, query: { after: seen, follow: isFollowed }, signal }),
        isLast: ({ type }) => type === 'exit',
        mayEnd: !isFollowed,
        after,
        signal,
      }),
    )
    return readRunEvents(events)
  }

  /**
   * Answers the `input` event with this `seq`. Without `text` the code gets an EOFError. Throws `conflict` when the run
   * does not wait for it.
   */
  async answer(
    runId: string,
    {
      seq,
      text,
      signal,
      timeoutMs,
    }: CallOptions & { readonly seq: number; readonly text?: string | undefined },
  ): Promise<void> {
    const path = `${this.#path}/runs/${pathPart('runId', runId)}/input`
    await this.#http.json({ method: 'POST', path, json: { seq, text }, signal, timeoutMs })
  }

  /** Raises KeyboardInterrupt in it; the REPL keeps its variables. */
  async interrupt(runId: string, options: CallOptions = {}): ReturnType<typeof interruptRun> {
    return interruptRun(this.#http, this.#path, pathPart('runId', runId), options)
  }
}
