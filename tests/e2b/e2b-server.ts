import type * as Interpreter from '../packages/node_modules/@e2b/code-interpreter/dist/index.js'
// Their real packages, which `./dormouse test` installs in tests/packages.
import type * as E2b from '../packages/node_modules/e2b/dist/index.js'
import { ServerProcess } from '../server/server-process.ts'

export type Client = typeof E2b
export type InterpreterClient = typeof Interpreter

const load = (path: string) => import(new URL(`../packages/node_modules/${path}`, import.meta.url).href)

/** The newest client and the oldest one that is supported: it creates and connects with the first version of the API. */
export const CLIENTS: Record<string, () => Promise<Client>> = {
  'e2b 2.51': () => load('e2b/dist/index.mjs'),
  'e2b 2.45': () => load('e2b-2.45/dist/index.mjs'),
}

/** The newest client. */
export const loadClient = (): Promise<Client> => load('e2b/dist/index.mjs')
export const loadInterpreter = (): Promise<InterpreterClient> => load('@e2b/code-interpreter/dist/index.mjs')

export interface Connection {
  readonly apiKey: string
  readonly apiUrl: string
  readonly sandboxUrl: string
}

/** A real server, and what a client needs to reach it. */
export class E2bServer {
  #server: ServerProcess | undefined

  get server(): ServerProcess {
    if (this.#server === undefined) throw new Error('the server has not started')
    return this.#server
  }

  /** Also builds the template of E2B's names: clients give up on a create after a minute. */
  async start(): Promise<void> {
    this.#server = await ServerProcess.start()
    while (!(await this.#hasTemplate()));
  }

  /** False: not within a minute. The build continues. */
  async #hasTemplate(): Promise<boolean> {
    const { apiUrl, apiKey } = this.options
    try {
      const create = await fetch(`${apiUrl}/sandboxes`, {
        method: 'POST',
        headers: { 'x-api-key': apiKey },
        body: JSON.stringify({ templateID: 'base', timeout: 0 }),
        signal: AbortSignal.timeout(60_000),
      })
      if (create.status !== 201) throw new Error(await create.text())
      return true
    } catch (error) {
      if ((error as Error).name === 'TimeoutError') return false
      throw error
    }
  }

  get options(): Connection {
    const { url } = this.server
    return { apiKey: this.apiKey, apiUrl: url, sandboxUrl: url }
  }

  get apiKey(): string {
    return `e2b_${Buffer.from(this.server.key).toString('hex')}`
  }

  /** Asks our own API. */
  async own(path: string, init: { method?: string; body?: unknown } = {}) {
    const response = await fetch(`${this.server.url}/v1${path}`, {
      method: init.method ?? 'GET',
      headers: {
        authorization: `Bearer ${this.server.key}`,
        ...(init.body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(init.body !== undefined && { body: JSON.stringify(init.body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }

  async end(): Promise<void> {
    await this.#server?.cleanUp()
  }
}
