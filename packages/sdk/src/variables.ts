import { pathPart } from './check.ts'
import type { VariableDetailAnswer, VariablesAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import type { CallOptions } from './options.ts'

export type VariableList = VariablesAnswer

export type VariableDetail = VariableDetailAnswer

export interface ReadVariableOptions extends CallOptions {
  /** Default: `default`. */
  readonly context?: string
  /** The first row, and the largest number of rows. */
  readonly offset?: number
  readonly limit?: number
  readonly columnOffset?: number
  readonly columns?: number
  /** The position of the column to sort by. */
  readonly sort?: number
  readonly descending?: boolean
  /** By the position of a column: a part of its text, or a comparison such as `>5` or `=ok`. */
  readonly filter?: Readonly<Record<number, string>>
}

/** What contexts have in memory. Looking at it runs no code of the sandbox. */
export class Variables {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = sandboxPath
  }

  /** Of all contexts. Does not wake a sleeping sandbox, whose variables were recorded when it was saved. */
  list({ signal, timeoutMs }: CallOptions = {}): Promise<VariableList> {
    return this.#http.json({ path: `${this.#path}/variables`, signal, timeoutMs })
  }

  /** A window of a table, a picture or a text. Wakes a sleeping sandbox. Throws `conflict` during a run. */
  read(
    name: string,
    { context = 'default', filter = {}, signal, timeoutMs, ...window }: ReadVariableOptions = {},
  ): Promise<VariableDetail> {
    const path = `${this.#path}/contexts/${pathPart('context', context)}/variables/${pathPart('name', name)}`
    const filters = Object.entries(filter).map(([column, text]) => [`filter.${column}`, text])
    return this.#http.json({ path, query: { ...window, ...Object.fromEntries(filters) }, signal, timeoutMs })
  }
}
