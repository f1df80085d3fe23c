import { pathPart } from './check.ts'
import type { CreateSecretBody, SecretAnswer, SecretPageAnswer, UpdateSecretBody } from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

/** Without its value, which the server never returns. */
export type Secret = SecretAnswer
export type CreateSecret = CreateSecretBody
export type UpdateSecret = UpdateSecretBody

/** Values that sandboxes use in requests without seeing them. Name them in `secrets` of `Sandbox.create`. */
export class Secrets {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Sandboxes see a placeholder in the variable `name`; HTTPS requests to `domains` carry the value. */
  create(secret: CreateSecret, { signal, timeoutMs }: CallOptions = {}): Promise<Secret> {
    return this.#http.json({ method: 'POST', path: '/v1/secrets', json: secret, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Secret> {
    return new Pages((query) =>
      this.#http.json<SecretPageAnswer>({ path: '/v1/secrets', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Secret> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  /** Applies to the next requests of all sandboxes that use it. */
  async update(name: string, change: UpdateSecret, { signal, timeoutMs }: CallOptions = {}): Promise<Secret> {
    return this.#http.json({
      method: 'PATCH',
      path: pathOf(name),
      json: change,
      repeatable: true,
      signal,
      timeoutMs,
    })
  }

  /** Refused while a sandbox uses it; `force` takes it from them. */
  async delete(
    name: string,
    { force, signal, timeoutMs }: CallOptions & { force?: boolean } = {},
  ): Promise<void> {
    return this.#http.delete({ path: pathOf(name), query: { force }, signal, timeoutMs })
  }
}

function pathOf(name: string): string {
  return `/v1/secrets/${pathPart('name', name)}`
}
