import type { Duplex } from 'node:stream'
import { onAbort, settledWithin } from '@dormouse/async'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Guest, GuestInfo, PortConnection } from '@dormouse/engine'
import type { Channel } from './channel.ts'
import { checkGuestInfo } from './check-answers.ts'
import { AgentConnection } from './connection.ts'
import { AgentContexts } from './contexts.ts'
import { AgentFiles } from './files.ts'
import { silent } from './liveness-monitor.ts'
import { AgentPorts } from './ports.ts'
import { AgentProcesses } from './processes.ts'
import { AgentRuns } from './runs.ts'
import { AgentVariables } from './variables.ts'

export interface AgentClientOptions {
  /** Makes a connection to the agent. */
  readonly connect: () => Promise<Duplex>
  /** Connects to a port inside, without the agent. See `GuestPorts.connect`. */
  readonly connectPort?: (port: number, options: { signal?: AbortSignal }) => Promise<PortConnection>
  /** Called when a connection ends that this client did not close. Open calls fail after it has settled. */
  readonly onDisconnect?: () => Promise<void>
  /** Called when no connection can be made, before the call fails. */
  readonly onUnreachable?: () => Promise<void>
}

/** An agent that answered `agent.quiesce` closes its connections at once. */
const QUIESCE_TIMEOUT_MS = 5_000
/** More than an honest agent needs for a call with one answer. Bounds how long a hostile one can block a caller. */
const ANSWER_TIMEOUT_MS = 5 * 60_000
/** More than an honest agent waits for its kernels. */
const SETTLE_TIMEOUT_MS = 1_000
/** For requests of the engine itself, which the agent answers at once. */
const ENGINE_TIMEOUT_MS = 20_000

export interface AgentIdentity {
  readonly sandboxId: string
  readonly user?: string
  readonly env?: Readonly<Record<string, string>>
  /** Of `configure` only. */
  readonly cwd?: string
}

interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** From sending the request to its answer. */
  readonly timeoutMs?: number
}

/** Sends requests as soon as the connection is made. */
type Begin = (connection: AgentConnection) => void

/** The host's end of the agent protocol. Connects when first used, and again after a connection was lost. */
export class AgentClient implements Guest {
  readonly runs = new AgentRuns(this)
  readonly contexts = new AgentContexts(this)
  readonly variables = new AgentVariables(this)
  readonly processes = new AgentProcesses(this)
  readonly files = new AgentFiles(this)
  readonly ports = new AgentPorts(this)
  readonly #options: AgentClientOptions
  #connection: AgentConnection | undefined
  #connecting: Promise<AgentConnection> | undefined
  #closedWith: DormouseError | undefined
  /** Aborts a greeting in progress. */
  readonly #closing = new AbortController()
  #isQuiet = false
  /** The host has stopped the processes of the burrow, so their silence is not a failure. */
  isHeld = false
  /** Settles when the last connection has ended and `onDisconnect` has settled. */
  #disconnected: Promise<void> = Promise.resolve()

  constructor(options: AgentClientOptions) {
    this.#options = options
  }

  async configure(identity: AgentIdentity): Promise<void> {
    await this.call('agent.configure', identity, { timeoutMs: ENGINE_TIMEOUT_MS })
  }

  /**
   * Tells a restored agent its sandbox and why it woke. The agent may not run yet: it finds the greeting and this
   * request together.
   */
  async wake(identity: AgentIdentity & { reason: string; reseed: boolean }): Promise<void> {
    let channel: Channel | undefined
    const connection = await this.#openConnection((opened) => {
      channel = opened.request('agent.wake', identity)
    })
    channel ??= connection.request('agent.wake', identity)
    await this.answer(channel, channel.result, ENGINE_TIMEOUT_MS)
  }

  /**
   * Resolves when the kernels have done what `wake` asks of them, or after a moment. A frozen sandbox would do it after
   * its thaw, while a caller waits. Never throws: the sandbox can be frozen anyway.
   */
  async settle(): Promise<void> {
    await this.call('agent.settle', {}, { timeoutMs: SETTLE_TIMEOUT_MS }).catch(() => {})
  }

  /** Makes the agent close all connections. Calls fail until `resume`. Throws `agent_unreachable` without an answer. */
  async quiesce(): Promise<void> {
    const connection = await this.#openConnection()
    const channel = connection.requestLast('agent.quiesce')
    try {
      await this.answer(channel, channel.result, ENGINE_TIMEOUT_MS)
    } catch (error) {
      connection.takeRequestsAgain()
      throw error
    }
    this.#isQuiet = true
    // Waiting for the agent to close its end, instead of closing ours, shows that it has closed it.
    if (await settledWithin(connection.closed, QUIESCE_TIMEOUT_MS)) return
    connection.close()
    await connection.closed
  }

  resume(): void {
    this.#isQuiet = false
  }

  /** Whether this client would notice if the agent ended now. */
  get isConnected(): boolean {
    return this.#connection?.isOpen === true
  }

  async info(): Promise<GuestInfo> {
    return checkGuestInfo(await this.call('agent.info', {}, { timeoutMs: ENGINE_TIMEOUT_MS }))
  }

  /** Closes the connection for good. Later calls fail with `reason`. */
  close(reason = new DormouseError('agent_unreachable', 'The connection to this burrow was closed.')): void {
    this.#closedWith ??= reason
    this.#closing.abort()
    this.#connection?.close()
  }

  async connectPort(port: number, options: { signal?: AbortSignal }): Promise<PortConnection> {
    if (this.#closedWith !== undefined) throw this.#closedWith
    if (this.#options.connectPort === undefined)
      throw new DormouseError('host_unsupported', 'Ports of this sandbox cannot be reached.')
    return this.#options.connectPort(port, options)
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
    const channel = (await this.#openConnection()).request(op, fields)
    const listener = onAbort(signal, () => channel.cancel(signal?.reason))
    const stopListening = () => listener[Symbol.dispose]()
    channel.result.then(stopListening, stopListening)
    return channel
  }

  /** Streams the items of a request, each checked by `check`. */
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

  /** Awaits `result` of a channel in time. If the burrow has ended, throws that instead of the broken connection. */
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
        ? silent('The agent of the sandbox did not answer in time.', error)
        : await this.#reasonFor(error)
    } finally {
      clearTimeout(timer)
    }
  }

  async #reasonFor(error: unknown): Promise<unknown> {
    // The connection is still open: the agent sent a malformed answer, and there is no disconnect to wait for.
    if (!hasErrorCode(error, 'agent_unreachable') || this.#connection?.isOpen) return error
    await this.#disconnected
    return this.#closedWith ?? error
  }

  async #openConnection(begin?: Begin): Promise<AgentConnection> {
    return this.#connection?.isOpen && this.#closedWith === undefined
      ? this.#connection
      : this.#connect(begin)
  }

  async #connect(begin: Begin | undefined): Promise<AgentConnection> {
    if (this.#closedWith !== undefined) throw this.#closedWith
    if (this.#isQuiet) throw new DormouseError('agent_unreachable', 'The sandbox is being saved.')
    this.#connecting ??= this.#greet(begin).finally(() => {
      this.#connecting = undefined
    })
    return this.#connecting
  }

  async #greet(begin: Begin | undefined): Promise<AgentConnection> {
    const connection = await this.#options
      .connect()
      .catch((cause: unknown) => {
        // The agent listens, but its queue of connections is full.
        if ((cause as NodeJS.ErrnoException).code === 'EAGAIN')
          throw silent('The agent of the sandbox does not accept connections.', cause)
        throw new DormouseError('agent_unreachable', 'The agent cannot be reached.', { cause })
      })
      .then((socket) =>
        AgentConnection.open(socket, {
          isHeld: () => this.isHeld,
          signal: this.#closing.signal,
          ...(begin && { begin }),
        }),
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
