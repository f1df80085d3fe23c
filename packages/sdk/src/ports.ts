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

/** Longer than the time-out of the server, so that the server answers first. */
const ANSWER_MS = 10_000
const WAIT_MS = 30_000

/** Ports of a sandbox. A request to the `url` of a port wakes the sandbox. */
export class Ports {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = `${sandboxPath}/ports`
  }

  /** Ports that a process listens on, and public ports. */
  async list({ signal }: Abortable = {}): Promise<readonly Port[]> {
    return (await this.#http.json<PortListAnswer>({ path: this.#path, signal })).items
  }

  get(port: number, { signal }: Abortable = {}): Promise<Port> {
    return this.#http.json({ path: `${this.#path}/${port}`, signal })
  }

  /** Waits until a process listens. Throws `port_closed` if none does within `timeoutMs` (default 30 s). */
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

  /** `private` needs a key or a link. `public` is open to everyone who knows the URL. */
  setAccess(port: number, access: PortAccess, { signal }: Abortable = {}): Promise<Port> {
    const path = `${this.#path}/${port}`
    return this.#http.json({ method: 'PUT', path, json: { access }, repeatable: true, signal })
  }

  /** Returns a URL that opens the port without a key until it expires (default: an hour). */
  link(port: number, { signal, ...options }: Abortable & CreatePortLinkBody = {}): Promise<PortLink> {
    const path = `${this.#path}/${port}/link`
    return this.#http.json({ method: 'POST', path, json: options, repeatable: true, signal })
  }
}
