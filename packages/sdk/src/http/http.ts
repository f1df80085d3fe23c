import { type Address, type AddressOptions, findAddress } from '../address/address.ts'
import { checkTimeout, toJson } from '../check.ts'
import { cancelled, DormouseError, hasCode, throwIfAborted } from '../error.ts'
import { Backoff, Deadline, withinTime } from '../timing.ts'
import type { RequestBody } from './content.ts'
import { errorFromResponse, unreachable, wasNeverSent } from './error-from.ts'
import { Owners } from './owners.ts'

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
  readonly body?: RequestBody | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Sending it twice does no harm. True for GET, HEAD and DELETE. */
  readonly repeatable?: boolean
  readonly signal?: AbortSignal | undefined
  /** How long the call may take, with all repetitions. 0: no limit. */
  readonly timeoutMs?: number | undefined
  /** How long one answer may take. 0: no limit. Default: `timeoutMs`, then that of the client. */
  readonly answerMs?: number | undefined
}

/** A request to a program in a sandbox. */
export interface Fetch extends Pick<Call, 'headers' | 'body' | 'signal'> {
  readonly method?: string
  readonly redirect?: 'manual'
}

/** Call `close` after reading the body, or to stop reading. */
export interface Opened {
  readonly response: Response
  /** What the caller ends the call with. */
  readonly signal?: AbortSignal | undefined
  readonly close: () => void
}

const ANSWER_MS = 120_000
/** On answers of the server itself to a request for a program in a sandbox. */
const REFUSED_HEADER = 'dormouse-refused'
/** A server that has answered before is probably restarting; one that never has is probably not running. */
const RESTART_MS = 30_000
const FIRST_CONTACT_MS = 2_000

/** Requests to one server: keys, time-outs, and repetition where it is safe. */
export class Http {
  readonly #options: HttpOptions
  readonly #fetch: typeof globalThis.fetch
  readonly #owners: Owners
  #address: Promise<Address> | undefined
  #hasAnswered = false

  constructor(options: HttpOptions) {
    checkTimeout('timeoutMs', options.timeoutMs)
    this.#options = options
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args))
    this.#owners = new Owners(this.#fetch)
  }

  address(): Promise<Address> {
    this.#address ??= findAddress(this.#options).catch((error: unknown) => {
      this.#address = undefined
      throw error
    })
    return this.#address
  }

  /** Where a call goes: in a cluster, to the host of the sandbox once an answer has named it. */
  async addressFor(path: string): Promise<Address> {
    const address = await this.address()
    const owner = this.#owners.find(path)
    return owner === undefined ? address : { ...address, url: owner, isFromFile: false }
  }

  /** The JSON of a success. */
  async json<Answer>(call: Call): Promise<Answer> {
    return this.#repeat(call, (attempt) =>
      this.#withDeadline(attempt, async (timed) => {
        const response = await this.#fetchOnce(timed)
        try {
          const text = await response.text()
          return (text === '' ? undefined : JSON.parse(text)) as Answer
        } catch (cause) {
          throw this.#lost(await this.addressFor(call.path), cause)
        }
      }),
    )
  }

  /** Deletes something. Succeeds also if an earlier attempt of this call deleted it. */
  async delete(call: Call): Promise<void> {
    let attempts = 0
    const deletion: Call = { ...call, method: 'DELETE' }
    await this.#repeat(deletion, (attempt) =>
      this.#withDeadline(attempt, async (timed) => {
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
      return { response, signal: call.signal, close: () => deadline.release() }
    } catch (error) {
      deadline.release()
      throw reasonOf(error, call, deadline)
    }
  }

  /**
   * Returns the response of a program in a sandbox, whatever its status. Throws when this server refused the request.
   * Neither repeated nor redirected.
   */
  async fetch(path: string, { method = 'GET', headers, body, signal }: Fetch): Promise<Response> {
    const address = await this.addressFor(path)
    const response = await this.#send(address, { method, path, headers, body, signal, redirect: 'manual' })
    this.#hasAnswered = true
    if (response.headers.has(REFUSED_HEADER)) throw await errorFromResponse(response)
    return response
  }

  /** The same for a body that can be read only once: repeated like any call until the body begins. */
  begin(call: Call): Promise<Opened> {
    return this.#repeat(call, (attempt) => this.open(attempt))
  }

  #repeat<Answer>(call: Call, attempt: (call: Call) => Promise<Answer>): Promise<Answer> {
    return withinTime(call, async (signal) => {
      const backoff = new Backoff(this.#hasAnswered ? RESTART_MS : FIRST_CONTACT_MS)
      for (;;) {
        try {
          return await attempt({ ...call, signal })
        } catch (error) {
          if (!(error instanceof DormouseError) || !mayRepeat(error, call)) throw error
          await backoff.wait(error, signal)
        }
      }
    })
  }

  async #withDeadline<Answer>(call: Call, attempt: (timed: Call) => Promise<Answer>): Promise<Answer> {
    const deadline = this.#deadline(call)
    try {
      return await attempt({ ...call, signal: deadline.signal })
    } catch (error) {
      if (deadline.hasPassed) this.#owners.forget((await this.addressFor(call.path)).url)
      throw reasonOf(error, call, deadline)
    } finally {
      deadline.release()
    }
  }

  #deadline({ signal, timeoutMs, answerMs }: Call): Deadline {
    throwIfAborted(signal)
    return new Deadline(signal, answerMs ?? timeoutMs ?? this.#options.timeoutMs ?? ANSWER_MS)
  }

  async #fetchOnce(call: Call): Promise<Response> {
    const address = await this.addressFor(call.path)
    const response = await this.#send(address, call)
    this.#hasAnswered = true
    this.#owners.learn(call.path, response, address.url)
    if (response.ok || response.status === 304) return response
    throw await errorFromResponse(response)
  }

  async #send(address: Address, call: Omit<Call, 'method'> & Fetch): Promise<Response> {
    const { method = 'GET', path, query, json, body, headers, signal, redirect } = call
    const text = json === undefined ? undefined : toJson(json)
    try {
      return await this.#fetch(address.url + path + queryString(query), {
        method,
        headers: {
          authorization: `Bearer ${address.apiKey}`,
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(text === undefined ? {} : { body: text }),
        ...(body === undefined ? {} : { body }),
        ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
        ...(signal === undefined ? {} : { signal }),
        ...(redirect === undefined ? {} : { redirect }),
      } as RequestInit)
    } catch (cause) {
      if (signal?.aborted) throw cancelled(signal)
      throw this.#lost(address, cause)
    }
  }

  #lost(address: Address, cause: unknown): DormouseError {
    this.#owners.forget(address.url)
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
  { method = 'GET', repeatable = isRepeatable(method), body }: Call,
): boolean {
  // A stream can be read only once.
  if (body instanceof ReadableStream) return false
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
