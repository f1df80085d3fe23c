import type { Socket } from 'node:net'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Guest, GuestInfo } from '@dormouse/engine'
import type { Channel } from './channel.ts'
import { AgentConnection } from './connection.ts'
import { AgentContexts } from './contexts.ts'
import { AgentFiles } from './files.ts'
import { checkGuestInfo } from './info-check.ts'
import { AgentPorts } from './ports.ts'
import { AgentProcesses } from './processes.ts'
import { AgentRuns } from './runs.ts'
import { silent } from './silence-watch.ts'

export interface AgentClientOptions {
  /** Makes a connected socket to the agent. */
  readonly connect: () => Promise<Socket>
  /** Called each time a connection ends that was not closed here. Calls that were under way fail once it has settled. */
  readonly onDisconnect?: () => Promise<void>
  /** Called each time none can be made, before the call fails. */
  readonly onUnreachable?: () => Promise<void>
}

/** An agent that has agreed to close its connections does so at once. */
const QUIESCE_TIMEOUT_MS = 5_000
/** More than an honest agent needs for any call that has one answer: one in hostile hands keeps a caller no longer. */
const ANSWER_TIMEOUT_MS = 5 * 60_000
/** For requests of the engine itself: others wait until they are answered, and the agent answers them at once. */
const ENGINE_TIMEOUT_MS = 20_000

export interface AgentIdentity {
  readonly sandboxId: string
  readonly user?: string
  readonly env?: Readonly<Record<string, string>>
}

interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** Until the answer, once the request is sent. */
  readonly timeoutMs?: number
}

/** The host's end of the agent protocol. Connects when first used, and again after a connection was lost. */
export class AgentClient implements Guest {
  readonly runs = new AgentRuns(this)
  readonly contexts = new AgentContexts(this)
  readonly processes = new AgentProcesses(this)
  readonly files = new AgentFiles(this)
  readonly ports = new AgentPorts(this)
  readonly #options: AgentClientOptions
  #connection: AgentConnection | undefined
  #connecting: Promise<AgentConnection> | undefined
  #closedWith: DormouseError | undefined
  /** Ends a greeting that is under way. */
  readonly #closing = new AbortController()
  #isQuiet = false
  /** The host has stopped the processes of the burrow: that they say nothing means nothing. */
  isHeld = false
  /** Settles when the latest connection has ended and it is known what that means. */
  #disconnected: Promise<void> = Promise.resolve()

  constructor(options: AgentClientOptions) {
    this.#options = options
  }

  async configure(identity: AgentIdentity): Promise<void> {
    await this.call('agent.configure', identity, { timeoutMs: ENGINE_TIMEOUT_MS })
  }

  /** After a restore: who the sandbox is now, and why it woke. */
  async wake(identity: AgentIdentity & { reason: string; reseed: boolean }): Promise<void> {
    await this.call('agent.wake', identity, { timeoutMs: ENGINE_TIMEOUT_MS })
  }

  /** Makes the agent close all connections. Calls fail until `resume`. Throws `agent_unreachable` when it does not answer. */
  async quiesce(): Promise<void> {
    await this.call('agent.quiesce', {}, { timeoutMs: ENGINE_TIMEOUT_MS })
    this.#isQuiet = true
    // The agent closes its end; waiting for that, not closing ours, tells that it has.
    const connection = this.#connection
    const timer = setTimeout(() => connection?.close(), QUIESCE_TIMEOUT_MS)
    await connection?.closed
    clearTimeout(timer)
  }

  resume(): void {
    this.#isQuiet = false
  }

  /** Whether it would be told if the agent ended now. */
  get isConnected(): boolean {
    return this.#connection?.isOpen === true
  }

  async info(): Promise<GuestInfo> {
    return checkGuestInfo(await this.call('agent.info', {}, { timeoutMs: ENGINE_TIMEOUT_MS }))
  }

  /** Ends the connection for good. Calls made afterwards fail with `reason`. */
  close(reason = new DormouseError('agent_unreachable', 'The connection to this burrow was let go.')): void {
    this.#closedWith ??= reason
    this.#closing.abort()
    this.#connection?.close()
  }

  /** A request whose answer is one result. */
  async call(op: string, fields: object, options: RequestOptions = {}): Promise<unknown> {
    const channel = await this.open(op, fields, options)
    return this.answer(channel, channel.result, options.timeoutMs)
  }

  /** A request that streams; see Channel. */
  async open(op: string, fields: object, { signal }: Pick<RequestOptions, 'signal'> = {}): Promise<Channel> {
    if (signal?.aborted)
      throw new DormouseError('cancelled', 'The call was cancelled.', { cause: signal.reason })
    const connection =
      this.#connection?.isOpen && this.#closedWith === undefined ? this.#connection : await this.#connect()
    const channel = connection.request(op, fields)
    if (signal !== undefined) {
      const cancel = () => channel.cancel(signal.reason)
      signal.addEventListener('abort', cancel, { once: true })
      const forget = () => signal.removeEventListener('abort', cancel)
      channel.result.then(forget, forget)
    }
    return channel
  }

  /** Streams what a request yields, each element checked by `check`. */
  async *stream<Element>(
    op: string,
    fields: object,
    { check, signal }: { check: (value: unknown) => Element; signal?: AbortSignal | undefined },
  ): AsyncGenerator<Element> {
    const channel = await this.open(op, fields, { signal })
    try {
      for await (const value of channel.received()) yield check(value)
    } catch (error) {
      throw await this.#reasonFor(error)
    }
  }

  /** What comes on a channel, in time. Where the burrow has ended, that says more than a broken connection. */
  async answer<Value>(
    channel: Channel,
    result: Promise<Value>,
    timeoutMs: number = ANSWER_TIMEOUT_MS,
  ): Promise<Value> {
    let isLate = false
    const giveUp = () => {
      isLate = true
      channel.cancel(undefined)
    }
    const timer = setTimeout(giveUp, timeoutMs).unref()
    try {
      return await result
    } catch (error) {
      throw isLate
        ? silent('The agent of the sandbox has not answered in time.', error)
        : await this.#reasonFor(error)
    } finally {
      clearTimeout(timer)
    }
  }

  async #reasonFor(error: unknown): Promise<unknown> {
    // A connection that lasts has no end to wait for: the agent answered, with something malformed.
    if (!hasErrorCode(error, 'agent_unreachable') || this.#connection?.isOpen) return error
    await this.#disconnected
    return this.#closedWith ?? error
  }

  async #connect(): Promise<AgentConnection> {
    if (this.#closedWith !== undefined) throw this.#closedWith
    if (this.#isQuiet) throw new DormouseError('agent_unreachable', 'The sandbox is being saved.')
    this.#connecting ??= this.#greet().finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #greet(): Promise<AgentConnection> {
    const connection = await this.#options
      .connect()
      .catch((cause: unknown) => {
        // It listens, and has taken none of the connections that wait.
        if ((cause as NodeJS.ErrnoException).code === 'EAGAIN')
          throw silent('The agent of the sandbox does not take connections.', cause)
        throw new DormouseError('agent_unreachable', 'The agent cannot be reached.', { cause })
      })
      .then((socket) =>
        AgentConnection.open(socket, { isHeld: () => this.isHeld, signal: this.#closing.signal }),
      )
      .catch(async (error: unknown) => {
        if (this.#closedWith === undefined) await this.#options.onUnreachable?.()
        throw this.#closedWith ?? error
      })
    if (this.#closedWith !== undefined) {
      connection.close()
      throw this.#closedWith
    }
    this.#connection = connection
    this.#disconnected = connection.closed.then(() =>
      this.#closedWith === undefined ? this.#options.onDisconnect?.() : undefined,
    )
    return connection
  }
}
