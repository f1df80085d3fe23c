import type { Socket } from 'node:net'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Guest, GuestInfo } from '@dormouse/engine'
import type { Channel, ChannelHandlers } from './channel.ts'
import { AgentConnection } from './connection.ts'
import { AgentContexts } from './contexts.ts'
import { AgentFiles } from './files.ts'
import { AgentPorts } from './ports.ts'
import { AgentProcesses } from './processes.ts'
import { AgentRuns } from './runs.ts'

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
/** One that does not agree in this time hangs, or has no memory left; others wait for their turn meanwhile. */
const QUIESCE_ANSWER_TIMEOUT_MS = 20_000

export interface AgentIdentity {
  readonly sandboxId: string
  readonly user?: string
  readonly env?: Readonly<Record<string, string>>
}

export interface RequestOptions extends ChannelHandlers {
  readonly signal?: AbortSignal | undefined
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
  #isQuiet = false
  /** Settles when the latest connection has ended and it is known what that means. */
  #disconnected: Promise<void> = Promise.resolve()

  constructor(options: AgentClientOptions) {
    this.#options = options
  }

  async configure(identity: AgentIdentity): Promise<void> {
    await this.call('agent.configure', identity)
  }

  /** After a restore: who the sandbox is now, and why it woke. */
  async wake(identity: AgentIdentity & { reason: string; reseed: boolean }): Promise<void> {
    await this.call('agent.wake', identity)
  }

  /** Makes the agent close all connections. Calls fail until `resume`. Throws `agent_unreachable` when it does not answer. */
  async quiesce(): Promise<void> {
    const signal = AbortSignal.timeout(QUIESCE_ANSWER_TIMEOUT_MS)
    await this.call('agent.quiesce', {}, { signal }).catch((cause: unknown) => {
      if (!signal.aborted) throw cause
      throw new DormouseError('agent_unreachable', 'The agent did not answer in time.', { cause })
    })
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
    return (await this.call('agent.info', {})) as GuestInfo
  }

  /** Ends the connection for good. Calls made afterwards fail with `reason`. */
  close(reason = new DormouseError('agent_unreachable', 'The connection to this burrow was let go.')): void {
    this.#closedWith ??= reason
    this.#connection?.close()
  }

  /** A request whose answer is one result. */
  async call(op: string, fields: object, options: RequestOptions = {}): Promise<unknown> {
    const channel = await this.open(op, fields, options)
    return this.explain(channel.result)
  }

  /** A request that streams; see Channel. */
  async open(op: string, fields: object, { signal, ...handlers }: RequestOptions = {}): Promise<Channel> {
    if (signal?.aborted)
      throw new DormouseError('cancelled', 'The call was cancelled.', { cause: signal.reason })
    const connection =
      this.#connection?.isOpen && this.#closedWith === undefined ? this.#connection : await this.#connect()
    const channel = connection.request(op, fields, handlers)
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

  /** Where the burrow has ended, that says more than a broken connection. */
  async explain<Value>(result: Promise<Value>): Promise<Value> {
    try {
      return await result
    } catch (error) {
      throw await this.#reasonFor(error)
    }
  }

  async #reasonFor(error: unknown): Promise<unknown> {
    if (!hasErrorCode(error, 'agent_unreachable')) return error
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
        throw new DormouseError('agent_unreachable', 'The agent cannot be reached.', { cause })
      })
      .then((socket) => AgentConnection.open(socket))
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
