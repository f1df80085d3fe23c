import { type Address, type AddressOptions, findAddress } from '../address/address.ts'
import { cancelled, DormouseError, hasCode, throwIfAborted } from '../error.ts'
import { Backoff, Deadline } from '../timing.ts'
import { errorFromResponse, unreachable, wasNeverSent } from './error-from.ts'

export interface HttpOptions extends AddressOptions {
  readonly fetch?: typeof globalThis.fetch | undefined
  /** How long one answer may take. 0: no limit. */
  readonly timeoutMs?: number | undefined
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface Call {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Query | undefined
  readonly json?: unknown
  readonly body?: BodyInit | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Sending it twice does no harm. True for GET, HEAD and DELETE. */
  readonly repeatable?: boolean
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
}

/** Call `close` after reading the body, or to stop reading. */
export interface Opened {
  readonly response: Response
  readonly close: () => void
}

const ANSWER_MS = 120_000
/** A server that has answered before is probably restarting; one that never has is probably not running. */
const RESTART_MS = 30_000
const FIRST_CONTACT_MS = 2_000

/** Requests to one server: keys, time-outs, and repetition where it is safe. */
export class Http {
  readonly #options: HttpOptions
  readonly #fetch: typeof globalThis.fetch
  #address: Promise<Address> | undefined
  #hasAnswered = false

  constructor(options: HttpOptions) {
    this.#options = options
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args))
  }

  address(): Promise<Address> {
    this.#address ??= findAddress(this.#options).catch((error: unknown) => {
      this.#address = undefined
      throw error
    })
    return this.#address
  }

  /** The JSON of a success. */
  async json<Answer>(call: Call): Promise<Answer> {
    return this.#repeat(call, () =>
      this.#withDeadline(call, async (timed) => {
        const response = await this.#fetchOnce(timed)
        try {
          const text = await response.text()
          return (text === '' ? undefined : JSON.parse(text)) as Answer
        } catch (cause) {
          throw this.#lost(await this.address(), cause)
        }
      }),
    )
  }

  /** Deletes something. Succeeds also if an earlier attempt of this call deleted it. */
  async delete(call: Call): Promise<void> {
    let attempts = 0
    const deletion: Call = { ...call, method: 'DELETE' }
    await this.#repeat(deletion, () =>
      this.#withDeadline(deletion, async (timed) => {
        attempts += 1
        try {
          await (await this.#fetchOnce(timed)).text()
        } catch (error) {
          if (attempts === 1 || !hasCode(error, 'not_found', 'template_not_found')) throw error
        }
      }),
    )
  }

  /**
   * Returns a success whose body is still to be read. The time-out is for its beginning. Not repeated: the reader knows
   * where to continue.
   */
  async open(call: Call): Promise<Opened> {
    const deadline = this.#deadline(call)
    try {
      const response = await this.#fetchOnce({ ...call, signal: deadline.signal })
      deadline.stopTimer()
      return { response, close: () => deadline.release() }
    } catch (error) {
      deadline.release()
      throw reasonOf(error, call, deadline)
    }
  }

  /** The same for a body that can be read only once: repeated like any call until the body begins. */
  begin(call: Call): Promise<Opened> {
    return this.#repeat(call, () => this.open(call))
  }

  async #repeat<Answer>(call: Call, attempt: () => Promise<Answer>): Promise<Answer> {
    const backoff = new Backoff(this.#hasAnswered ? RESTART_MS : FIRST_CONTACT_MS)
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof DormouseError) || !mayRepeat(error, call)) throw error
        await backoff.wait(error, call.signal)
      }
    }
  }

  async #withDeadline<Answer>(call: Call, attempt: (timed: Call) => Promise<Answer>): Promise<Answer> {
    const deadline = this.#deadline(call)
    try {
      return await attempt({ ...call, signal: deadline.signal })
    } catch (error) {
      throw reasonOf(error, call, deadline)
    } finally {
      deadline.release()
    }
  }

  #deadline({ signal, timeoutMs = this.#options.timeoutMs ?? ANSWER_MS }: Call): Deadline {
    throwIfAborted(signal)
    return new Deadline(signal, timeoutMs)
  }

  async #fetchOnce(call: Call): Promise<Response> {
    const address = await this.address()
    const response = await this.#send(address, call)
    this.#hasAnswered = true
    if (response.ok || response.status === 304) return response
    throw await errorFromResponse(response)
  }

  async #send(address: Address, call: Call): Promise<Response> {
    const { method = 'GET', path, query, json, body, headers, signal } = call
    try {
      return await this.#fetch(address.url + path + queryString(query), {
        method,
        headers: {
          authorization: `Bearer ${address.apiKey}`,
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
        ...(body === undefined ? {} : { body }),
        ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
        ...(signal === undefined ? {} : { signal }),
      } as RequestInit)
    } catch (cause) {
      if (signal?.aborted) throw cancelled(signal)
      throw this.#lost(address, cause)
    }
  }

  #lost(address: Address, cause: unknown): DormouseError {
    // It may come back on another port, and then writes a new file.
    if (address.isFromFile) this.#address = undefined
    return unreachable(address.url, cause)
  }
}

function reasonOf(error: unknown, { path, signal }: Call, deadline: Deadline): unknown {
  if (signal?.aborted) return cancelled(signal)
  if (!deadline.hasPassed) return error
  return new DormouseError('server_unreachable', `The server did not answer ${path} in time`, {
    hint: 'Give a longer `timeoutMs`, or check what the server is doing.',
  })
}

function mayRepeat(
  error: DormouseError,
  { method = 'GET', repeatable = isRepeatable(method) }: Call,
): boolean {
  // The server has changed nothing.
  if (hasCode(error, 'overloaded', 'rate_limited')) return true
  if (hasCode(error, 'server_unreachable')) return repeatable || wasNeverSent(error)
  return repeatable && isTransient(error)
}

/** May pass in a moment: a request that can be repeated is tried again. */
export function isTransient(error: unknown): error is DormouseError {
  return hasCode(
    error,
    ...(['server_unreachable', 'overloaded', 'rate_limited', 'agent_unreachable', 'restore_failed'] as const),
  )
}

function isRepeatable(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'DELETE'
}

function queryString(query: Query = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined)
  if (entries.length === 0) return ''
  return `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`
}
