import type { AddSshKeyBody, SshEndpointAnswer, SshKeyAnswer, SshKeyPageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'

export type SshKey = SshKeyAnswer
export type AddSshKey = AddSshKeyBody
/** Where SSH clients connect, and the host key of the server. */
export type SshEndpoint = SshEndpointAnswer

/** Public keys that give access to your sandboxes with `ssh <sandbox>@host`. */
export class SshKeys {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /**
   * Adds a key, which gives access to the sandboxes of this API key. It works after its holder has confirmed it: by
   * connecting once with the private key as the user `confirmAs` (`ssh <confirmAs>@host -p <port>`).
   */
  add(key: AddSshKey, { signal }: Abortable = {}): Promise<SshKey> {
    return this.#http.json({ method: 'POST', path: '/v1/ssh-keys', json: key, signal })
  }

  list({ signal }: Abortable = {}): Pages<SshKey> {
    return new Pages((query) => this.#http.json<SshKeyPageAnswer>({ path: '/v1/ssh-keys', query, signal }))
  }

  get(name: string, { signal }: Abortable = {}): Promise<SshKey> {
    return this.#http.json({ path: pathOf(name), signal })
  }

  /** Closes its open connections. */
  delete(name: string, { signal }: Abortable = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal })
  }

  /** Throws `not_found` if the server has SSH turned off. */
  endpoint({ signal }: Abortable = {}): Promise<SshEndpoint> {
    return this.#http.json({ path: '/v1/ssh', signal })
  }
}

function pathOf(name: string): string {
  return `/v1/ssh-keys/${encodeURIComponent(name)}`
}
