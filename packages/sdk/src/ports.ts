import type {
  CreatePortLinkBody,
  PortAccess,
  PortAnswer,
  PortLinkAnswer,
  PortListAnswer,
  WaitForPortBody,
} from './contract/index.ts'
import type { Http } from './http/http.ts'
import type { Abortable } from './options.ts'

export type Port = PortAnswer
export type PortLink = PortLinkAnswer
export type { PortAccess }

/** The server's own time-out has to come first. */
const ANSWER_MS = 10_000
const WAIT_MS = 30_000

/** What listens inside a sandbox, and who may reach it from outside. A request to `url` of a port wakes the sandbox. */
export class Ports {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = `${sandboxPath}/ports`
  }

  /** Those that something listens on, and those that are public. */
  async list({ signal }: Abortable = {}): Promise<readonly Port[]> {
    return (await this.#http.json<PortListAnswer>({ path: this.#path, signal })).items
  }

  get(port: number, { signal }: Abortable = {}): Promise<Port> {
    return this.#http.json({ path: `${this.#path}/${port}`, signal })
  }

  /** Until something listens. Throws `port_closed` when nothing does in time, 30 s if not said otherwise. */
  wait(port: number, { signal, timeoutMs = WAIT_MS }: Abortable & WaitForPortBody = {}): Promise<Port> {
    return this.#http.json({
      method: 'POST',
      path: `${this.#path}/${port}/wait`,
      json: { timeoutMs },
      repeatable: true,
      timeoutMs: timeoutMs + ANSWER_MS,
      signal,
    })
  }

  /** `private`: with a key or a link. `public`: anybody who knows the address. */
  setAccess(port: number, access: PortAccess, { signal }: Abortable = {}): Promise<Port> {
    const path = `${this.#path}/${port}`
    return this.#http.json({ method: 'PUT', path, json: { access }, repeatable: true, signal })
  }

  /** An address that opens the port without a key, for a while: an hour if not said otherwise. */
  link(port: number, { signal, ...options }: Abortable & CreatePortLinkBody = {}): Promise<PortLink> {
    const path = `${this.#path}/${port}/link`
    return this.#http.json({ method: 'POST', path, json: options, repeatable: true, signal })
  }
}
