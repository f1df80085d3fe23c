import { DormouseError } from '@dormouse/contracts'
import {
  type CreatedKeyAnswer,
  type CreateKeyBody,
  createdKeySchema,
  errorSchema,
  type KeyAnswer,
  keyPageSchema,
  keySchema,
  PAGE_LIMIT_MAX,
  type UpdateKeyBody,
} from '@dormouse/contracts/http'
import type { Client } from '@dormouse/server'
import type { KeyAdmin } from './key-admin.ts'

const TIMEOUT_MS = 30_000

/** Calls the running server, so that changes apply to its next request. */
export class HttpKeyAdmin implements KeyAdmin {
  readonly #client: Client

  constructor(client: Client) {
    this.#client = client
  }

  async create(request: CreateKeyBody): Promise<CreatedKeyAnswer> {
    return createdKeySchema.parse(await this.#request('POST', '/v1/keys', request))
  }

  async list(): Promise<readonly KeyAnswer[]> {
    const keys: KeyAnswer[] = []
    let cursor: string | undefined
    do {
      const query = new URLSearchParams({
        limit: String(PAGE_LIMIT_MAX),
        ...(cursor === undefined ? {} : { cursor }),
      })
      const page = keyPageSchema.parse(await this.#request('GET', `/v1/keys?${query}`))
      keys.push(...page.items)
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return keys
  }

  async update(id: string, change: UpdateKeyBody): Promise<KeyAnswer> {
    return keySchema.parse(await this.#request('PATCH', `/v1/keys/${encodeURIComponent(id)}`, change))
  }

  async revoke(id: string): Promise<KeyAnswer> {
    return keySchema.parse(await this.#request('DELETE', `/v1/keys/${encodeURIComponent(id)}`))
  }

  async #request(method: string, path: string, body?: unknown): Promise<unknown> {
    const { url, key } = this.#client
    const headers: Record<string, string> = { authorization: `Bearer ${key}` }
    if (body !== undefined) headers['content-type'] = 'application/json'
    try {
      const response = await fetch(new URL(path, url), {
        method,
        headers,
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const answer = await response.json()
      if (response.ok) return answer
      throw toError(answer)
    } catch (cause) {
      if (cause instanceof DormouseError) throw cause
      throw unreachable(url, cause)
    }
  }
}

function unreachable(url: string, error: unknown): DormouseError {
  // The error of `fetch` has the reason in its cause.
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const message = reason instanceof Error ? reason.message : String(reason)
  return new DormouseError('server_unreachable', `Cannot reach the server at ${url}: ${message}`, {
    ...(/certificate|altname/i.test(message)
      ? {
          hint: 'Set NODE_EXTRA_CA_CERTS to a file with your certificate authority, and the setting `domain` to the name in the certificate.',
        }
      : {}),
    cause: error,
  })
}

function toError(answer: unknown): DormouseError {
  const { code, message, hint, details } = errorSchema.parse(answer).error
  if (code === 'unauthorized') {
    return new DormouseError('unauthorized', 'The key in client.json is not valid', {
      hint: 'Stop the server, then run `./dormouse key create NAME --scope admin --save`.',
    })
  }
  return new DormouseError(code, message, { hint, details: details ?? {} })
}
