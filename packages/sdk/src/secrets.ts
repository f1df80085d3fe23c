import type { CreateSecretBody, SecretAnswer, SecretPageAnswer, UpdateSecretBody } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'

/** Without its value, which nothing shows again. */
export type Secret = SecretAnswer
export type CreateSecret = CreateSecretBody
export type UpdateSecret = UpdateSecretBody

/** Values that sandboxes use in requests and never hold. Give them with `secrets` of `Sandbox.create`. */
export class Secrets {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** A sandbox that has it finds a placeholder in the variable `name`; requests to `domains` over HTTPS get the value in its place. */
  create(secret: CreateSecret, { signal }: Abortable = {}): Promise<Secret> {
    return this.#http.json({ method: 'POST', path: '/v1/secrets', json: secret, signal })
  }

  list({ signal }: Abortable = {}): Pages<Secret> {
    return new Pages((query) => this.#http.json<SecretPageAnswer>({ path: '/v1/secrets', query, signal }))
  }

  get(name: string, { signal }: Abortable = {}): Promise<Secret> {
    return this.#http.json({ path: pathOf(name), signal })
  }

  /** Counts for the next requests of all sandboxes that have it. */
  update(name: string, change: UpdateSecret, { signal }: Abortable = {}): Promise<Secret> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, repeatable: true, signal })
  }

  /** Refused while a sandbox has it, unless `force` takes it from them. */
  delete(name: string, { force, signal }: Abortable & { force?: boolean } = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), query: { force }, signal })
  }
}

function pathOf(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`
}
