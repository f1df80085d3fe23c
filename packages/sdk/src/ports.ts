import { invalidArgument } from './check.ts'
import type {
  CreatePortLinkBody,
  PortAccess,
  PortAnswer,
  PortLinkAnswer,
  PortListAnswer,
  WaitForPortBody,
} from './contract/index.ts'
import { DormouseError } from './error.ts'
import type { RequestBody } from './http/content.ts'
import { fetchBelow } from './http/fetch-below.ts'
import type { Http } from './http/http.ts'
import type { Abortable, CallOptions } from './options.ts'

export type Port = PortAnswer
export type PortLink = PortLinkAnswer
export type { PortAccess }

export interface PortFetchOptions extends CallOptions {
  /** Default: `GET`. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: RequestBody
}

/** Longer than the time-out of the server, so that the server answers first. */
const ANSWER_MS = 10_000
const WAIT_MS = 30_000
const PORT_MAX = 65_535

/**
 * Ports of a sandbox. A request to the `url` of a port wakes the sandbox. Browsers open `url`; programs open `pathUrl`,
 * or use `fetch()`.
 */
export class Ports {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = `${sandboxPath}/ports`
  }

  /** Ports that a process listens on, and public ports. */
  async list({ signal, timeoutMs }: CallOptions = {}): Promise<readonly Port[]> {
    return (await this.#http.json<PortListAnswer>({ path: this.#path, signal, timeoutMs })).items
  }

  async get(port: number, { signal, timeoutMs }: CallOptions = {}): Promise<Port> {
    return this.#http.json({ path: this.#at(port), signal, timeoutMs })
  }

  /** Waits until a process listens. Throws `port_closed` if none does within `timeoutMs` (default 30 s). */
  async wait(port: number, { signal, timeoutMs = WAIT_MS }: Abortable & WaitForPortBody = {}): Promise<Port> {
    return this.#http.json({
      method: 'POST',
      path: `${this.#at(port)}/wait`,
      json: { timeoutMs },
      repeatable: true,
      answerMs: timeoutMs + ANSWER_MS,
      signal,
    })
  }

  /**
   * Sends a request to the program on a port, with the key of this client, and returns its response, whatever its
   * status. Wakes the sandbox. Throws when the request does not reach the program: `port_closed` if none listens.
   * Follows redirects within the port only: others would send the key where the program wants.
   */
  async fetch(port: number, path = '/', options: PortFetchOptions = {}): Promise<Response> {
    if (Object.keys(options.headers ?? {}).some((name) => name.toLowerCase() === 'authorization'))
      throw new DormouseError('invalid_argument', 'headers: `Authorization` carries the key of this client', {
        hint: 'Send the request with your own client to `pathUrl` of `ports.link()`, which needs no key.',
      })
    return fetchBelow(this.#http, this.#at(port), path, options)
  }

  /** `private` needs a key or a link. `public` is open to everyone who knows the URL. */
  async setAccess(port: number, access: PortAccess, { signal, timeoutMs }: CallOptions = {}): Promise<Port> {
    const path = this.#at(port)
    return this.#http.json({ method: 'PUT', path, json: { access }, repeatable: true, signal, timeoutMs })
  }

  /** Returns a URL that opens the port without a key until it expires (default: an hour). */
  async link(
    port: number,
    { signal, timeoutMs, ...options }: CallOptions & CreatePortLinkBody = {},
  ): Promise<PortLink> {
    const path = `${this.#at(port)}/link`
    return this.#http.json({ method: 'POST', path, json: options, repeatable: true, signal, timeoutMs })
  }

  #at(port: number): string {
    if (!Number.isInteger(port) || port < 1 || port > PORT_MAX)
      throw invalidArgument('port', `must be a whole number from 1 to ${PORT_MAX}`, port)
    return `${this.#path}/${port}`
  }
}
