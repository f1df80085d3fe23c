import type { ContextAnswer, ContextListAnswer, CreateContextBody } from './contract/index.ts'
import { follow } from './http/follow.ts'
import type { Http } from './http/http.ts'
import type { Abortable } from './options.ts'
import type { RunEvent } from './runs/run-options.ts'

export type Context = ContextAnswer

/** The REPLs of a sandbox. `default` always exists. */
export class Contexts {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = `${sandboxPath}/contexts`
  }

  /** Makes a REPL for `runCode(code, { context: name })`. */
  create(
    name: string,
    { signal, ...options }: Abortable & Omit<CreateContextBody, 'name'> = {},
  ): Promise<Context> {
    return this.#http.json({ method: 'POST', path: this.#path, json: { name, ...options }, signal })
  }

  async list({ signal }: Abortable = {}): Promise<readonly Context[]> {
    return (await this.#http.json<ContextListAnswer>({ path: this.#path, signal })).items
  }

  /** Interrupts its runs. `default` is replaced by a new one. */
  delete(name: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: `${this.#path}/${encodeURIComponent(name)}`, signal })
  }

  /** What threads and child processes write between runs. Reading keeps the sandbox awake. */
  output(name: string, { after, signal }: Abortable & { after?: number } = {}): AsyncIterable<RunEvent> {
    const path = `${this.#path}/${encodeURIComponent(name)}/output`
    const headers = { accept: 'text/event-stream' }
    return follow<RunEvent>({
      open: (seen) => this.#http.open({ path, headers, query: { after: seen }, signal }),
      isLast: () => false,
      after,
      signal,
    })
  }
}
