import { pathPart } from './check.ts'
import type {
  CompletionsAnswer,
  ContextAnswer,
  ContextListAnswer,
  CreateContextBody,
} from './contract/index.ts'
import { follow } from './http/follow.ts'
import type { Http } from './http/http.ts'
import type { CallOptions } from './options.ts'
import { type RunEvent, readRunEvents, type SentRunEvent } from './runs/run-event.ts'
import { eachWithinTime } from './timing.ts'

export type Context = ContextAnswer

export type Completions = CompletionsAnswer

/** The REPLs of a sandbox. `default` always exists. */
export class Contexts {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = `${sandboxPath}/contexts`
  }

  /**
   * Makes a REPL for `runCode(code, { context: name })`, for Python unless `language` says otherwise. `python` is the
   * interpreter or virtual environment of a Python one.
   */
  create(
    name: string,
    { signal, timeoutMs, ...options }: CallOptions & Omit<CreateContextBody, 'name'> = {},
  ): Promise<Context> {
    return this.#http.json({
      method: 'POST',
      path: this.#path,
      json: { name, ...options },
      signal,
      timeoutMs,
    })
  }

  async list({ signal, timeoutMs }: CallOptions = {}): Promise<readonly Context[]> {
    return (await this.#http.json<ContextListAnswer>({ path: this.#path, signal, timeoutMs })).items
  }

  /** Interrupts its runs. `default` is replaced by a new one. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: `${this.#path}/${pathPart('name', name)}`, signal, timeoutMs })
  }

  /**
   * Names that fit the end of half-typed code, as after Tab in a notebook. Throws `conflict` while the context has
   * a run.
   */
  complete(name: string, code: string, { signal, timeoutMs }: CallOptions = {}): Promise<Completions> {
    const path = `${this.#path}/${pathPart('name', name)}/complete`
    return this.#http.json({ method: 'POST', path, json: { code }, repeatable: true, signal, timeoutMs })
  }

  /** What threads and child processes write between runs. Reading keeps the sandbox awake. */
  output(name: string, { after, ...limits }: CallOptions & { after?: number } = {}): AsyncIterable<RunEvent> {
    const path = `${this.#path}/${pathPart('name', name)}/output`
    const headers = { accept: 'text/event-stream' }
    const events = eachWithinTime(limits, (signal) =>
      follow<SentRunEvent>({
        open: (seen) => this.#http.open({ path, headers, query: { after: seen }, signal }),
        isLast: () => false,
        after,
        signal,
      }),
    )
    return readRunEvents(events)
  }
}
