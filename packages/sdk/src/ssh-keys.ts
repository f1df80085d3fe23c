import { pathPart } from './check.ts'
import type { AddSshKeyBody, SshEndpointAnswer, SshKeyAnswer, SshKeyPageAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

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
  add(key: AddSshKey, { signal, timeoutMs }: CallOptions = {}): Promise<SshKey> {
    return this.#http.json({ method: 'POST', path: '/v1/ssh-keys', json: key, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<SshKey> {
    return new Pages((query) =>
      this.#http.json<SshKeyPageAnswer>({ path: '/v1/ssh-keys', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<SshKey> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Closes its open connections. */
  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }

  /** Throws `not_found` if the server has SSH turned off. */
  endpoint({ signal, timeoutMs }: CallOptions = {}): Promise<SshEndpoint> {
    return this.#http.json({ path: '/v1/ssh', signal, timeoutMs })
  }
}

function pathOf(name: string): string {
  return `/v1/ssh-keys/${pathPart('name', name)}`
}
