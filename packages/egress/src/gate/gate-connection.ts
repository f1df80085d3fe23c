import type { Socket } from 'node:net'
import type { Destination } from '../dial/dialer.ts'
import { HELLO_EXPECTED_MS, IDLE_TIMEOUT_MS } from '../limits.ts'
import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import { refused, type Verdict } from '../policy/verdict.ts'
import { FirstMessageReader, type FirstMessageResult } from './first-message-reader.ts'
import { type GateContext, ReachesHostError } from './gate-context.ts'
import type { InterceptedDestination, Interceptor } from './interceptor.ts'
import type { KeepableConnection } from './parked-ends.ts'
import { pipeBytes } from './pipe-bytes.ts'
import { reset } from './reset.ts'

export interface AskedDestination {
  readonly address: string
  readonly port: number
}

/** Shared: creating an error for each abort costs as much as a connection. */
const ENDED = new Error('the connection has ended')
const NEITHER = refused('neither TLS nor HTTP, so it names no registry')

/** One connection of a sandbox, from its arrival at the gate to its end. */
export class GateConnection implements KeepableConnection {
  isParked = false
  readonly #client: Socket
  readonly #asked: AskedDestination
  readonly #context: GateContext
  readonly #onEnded: () => void
  /**
   * The names under which the sandbox knew the address when it connected. Pins may expire before the connection ends.
   */
  readonly #names: readonly string[]
  /** The name behind a synthetic address: the host's proxy resolves it. */
  readonly #syntheticName: string | undefined
  #dialing = new AbortController()
  #server: Socket | undefined
  #reader: FirstMessageReader | undefined
  #firstMessage: FirstMessageResult | undefined
  /** False when the reader looked for TLS only and found another protocol. */
  #wasRead = false
  #onFirstMessage: (() => void) | undefined
  /** Who has taken over the client. */
  #takenBy: 'edge' | 'relay' | undefined
  /** What the taker has connected to. */
  readonly #ofTaker = new Set<Socket>()
  #counted = { out: 0, in: 0 }
  #hasEnded = false

  constructor(client: Socket, asked: AskedDestination, context: GateContext, onEnded: () => void) {
    this.#client = client
    this.#asked = asked
    this.#context = context
    this.#onEnded = onEnded
    this.#syntheticName = context.synthetic.findName(asked.address)
    this.#names =
      this.#syntheticName === undefined ? context.pins.namesOf(asked.address) : [this.#syntheticName]
    client.on('error', () => this.end())
    client.once('close', () => this.#closeAfter(this.#server))
    this.#endWhenIdle(client)
  }

  get client(): Socket {
    return this.#client
  }

  get outside(): readonly Socket[] {
    return this.#server === undefined ? [...this.#ofTaker] : [this.#server]
  }

  get to(): string {
    const { address, port } = this.#asked
    const host = this.#nameInFirstMessage ?? this.#names[0] ?? address
    return `${host.includes(':') ? `[${host}]` : host}:${port}`
  }

  get keepable(): KeepableConnection {
    return this
  }

  /** What the program inside had sent still arrives, and the server sees an orderly end. */
  abandon(): void {
    if (this.#client.readableEnded && this.#takenBy === undefined) this.#client.destroy()
    else this.end()
  }

  /** Never rejects: the client sees every failure as a reset. */
  async open(): Promise<void> {
    const policy = this.#context.policy()
    const verdict = this.judge(policy)
    if (!verdict.allowed) return this.#deny(verdict.reason)
    this.#context.counters.add('connections', 1)
    if (verdict.byName || policy.secrets.length > 0) this.#readFirstMessage(!verdict.byName)
    try {
      // The edge dials intercepted connections itself. The address that the sandbox chose is then not contacted at all.
      const isExpected = verdict.byName || this.#names.some((name) => policy.secretsFor(name).length > 0)
      if (isExpected) await this.#waitForFirstMessage(verdict.isRegistry === true)
      if (this.#hasEnded || this.#takenBy !== undefined) return
      await this.#dial()
    } catch (error) {
      // The edge or the relay has the client, and dials by itself.
      if (this.#takenBy !== undefined) return
      if (error instanceof ReachesHostError) this.#deny(error.message)
      else this.end()
    }
  }

  /** The verdict under this policy. Asked again after every change of the policy. */
  judge(policy: CompiledPolicy): Verdict {
    const { address, port } = this.#asked
    const verdict =
      this.#syntheticName === undefined
        ? policy.connect(address, port, this.#names)
        : policy.ask(this.#syntheticName, port, undefined)
    if (!verdict.allowed || !verdict.byName) return verdict
    // The first message was not read, and it is too late to read it.
    const isUnread =
      this.#reader === undefined
        ? this.#server !== undefined
        : this.#firstMessage !== undefined && !this.#wasRead
    if (isUnread) return refused('opened under another policy')
    if (this.#firstMessage === undefined) return verdict
    if (this.#firstMessage === 'incomplete') return refused('does not name the host it asks for')
    if (this.#firstMessage.kind === 'other') return verdict.isRegistry === true ? NEITHER : verdict
    const { isNameless, problem } = this.#firstMessage
    // Clients that connect to a registry by address send no name: TLS has no names for addresses.
    const isByAddress = isNameless === true && verdict.isRegistry === true
    const name = isByAddress ? address : this.#firstMessage.name
    if (name === undefined || (problem !== undefined && !isByAddress)) return refused(problem ?? 'no name')
    return policy.ask(name, port, this.#syntheticName === undefined ? address : undefined)
  }

  /**
   * Ends the connection unless the policy still allows it. Connections at the edge also end when the secrets change,
   * because the edge holds the old values.
   */
  recheck(policy: CompiledPolicy, haveSecretsChanged: boolean): void {
    const verdict = this.judge(policy)
    if (!verdict.allowed) this.#deny(verdict.reason)
    else if (this.#takenBy === 'edge' && haveSecretsChanged) this.end()
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#dialing.abort(ENDED)
    this.#reader?.stop()
    this.#onFirstMessage?.()
    reset(this.#client)
    if (this.#server !== undefined) reset(this.#server)
    if (this.#takenBy !== undefined) this.#countTaken()
    this.#onEnded()
  }

  #deny(reason: string): void {
    if (this.#hasEnded) return
    const name = this.#nameInFirstMessage ?? this.#names[0]
    this.#context.onDenial({ ...this.#asked, ...(name === undefined ? {} : { name }), reason })
    this.end()
  }

  get #nameInFirstMessage(): string | undefined {
    return typeof this.#firstMessage === 'object' && 'name' in this.#firstMessage
      ? this.#firstMessage.name
      : undefined
  }

  #readFirstMessage(isTlsOnly: boolean): void {
    this.#reader = new FirstMessageReader(this.#client, {
      isTlsOnly,
      onDecided: (message) => {
        this.#firstMessage = message
        this.#wasRead = !isTlsOnly || (message !== 'incomplete' && message.kind === 'tls')
        this.#onFirstMessage?.()
        this.#actOnFirstMessage()
      },
    })
  }

  #actOnFirstMessage(): void {
    const policy = this.#context.policy()
    const verdict = this.judge(policy)
    if (!verdict.allowed) {
      this.#deny(verdict.reason)
      return
    }
    const kind = typeof this.#firstMessage === 'object' ? this.#firstMessage.kind : undefined
    const name = this.#nameInFirstMessage
    const secrets = kind === 'tls' && name !== undefined ? policy.secretsFor(name) : []
    if (name !== undefined && secrets.length > 0) this.#intercept(name, secrets)
    else if (name !== undefined && kind === 'http' && verdict.byName) this.#relay(name)
    else if (this.#server !== undefined) this.#pipeOut(this.#server)
  }

  /** Hands plain HTTP that is allowed by name to the relay, which checks every request, not only the first. */
  #relay(name: string): void {
    this.#handOver('relay', this.#context.relay, {
      ...{ name, port: this.#asked.port, secrets: [] },
      connect: async () => this.#follow(await this.#connectAgain()),
    })
  }

  #intercept(name: string, secrets: CompiledPolicy['secrets']): void {
    const { interceptor } = this.#context
    // Without the edge the placeholder would reach the server and look like a wrong secret.
    if (interceptor === undefined) {
      this.end()
      return
    }
    this.#handOver('edge', interceptor, {
      ...{ name, port: this.#asked.port, secrets },
      connect: async () => this.#follow(await this.#connectByName(name)),
    })
  }

  #handOver(taker: 'edge' | 'relay', interceptor: Interceptor, to: InterceptedDestination): void {
    this.#takenBy = taker
    this.#dialing.abort(ENDED)
    this.#dialing = new AbortController()
    const server = this.#server
    this.#server = undefined
    if (server !== undefined) reset(server)
    this.#client.unshift(this.#reader?.held ?? Buffer.alloc(0))
    interceptor.take(this.#client, {
      ...to,
      onMisdirected: (host) =>
        this.#context.onDenial({
          ...this.#asked,
          name: host,
          reason: `asked for on a connection for ${to.name}`,
        }),
      onAnswered: () => this.#countTaken(),
      onServerBytes: () => this.isParked && this.#context.onDataAsleep(),
      isParked: () => this.isParked,
    })
  }

  #follow(socket: Socket): Socket {
    this.#ofTaker.add(socket)
    socket.once('close', () => this.#ofTaker.delete(socket))
    return socket
  }

  /** Dials the judged address again, if the policy still allows it. */
  async #connectAgain(): Promise<Socket> {
    const socket = await this.#context.dial(this.#destination, this.#dialing.signal).catch((error) => {
      if (error instanceof ReachesHostError) this.#deny(error.message)
      throw error
    })
    const verdict = this.judge(this.#context.policy())
    if (this.#hasEnded || !verdict.allowed) {
      reset(socket)
      if (!verdict.allowed) this.#deny(verdict.reason)
      throw ENDED
    }
    return socket
  }

  async #connectByName(name: string): Promise<Socket> {
    const socket = await this.#context.connectByName(name, this.#asked.port)
    if (!this.#hasEnded) return socket
    reset(socket)
    throw ENDED
  }

  /** Waits for the first message, or until the client seems to wait for the server. */
  #waitForFirstMessage(isRequired: boolean): Promise<void> {
    if (this.#firstMessage !== undefined) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = isRequired ? undefined : setTimeout(resolve, HELLO_EXPECTED_MS)
      this.#onFirstMessage = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  get #destination(): Destination {
    const { address, port } = this.#asked
    return { address: this.#syntheticName === undefined ? address : undefined, port, names: this.#names }
  }

  async #dial(): Promise<void> {
    const server = await this.#context.dial(this.#destination, this.#dialing.signal)
    if (this.#hasEnded || this.#takenBy !== undefined) {
      reset(server)
      return
    }
    this.#server = server
    server.on('error', () => this.#server === server && this.end())
    server.once('close', () => this.#server === server && this.#closeAfter(this.#client))
    this.#endWhenIdle(server)
    // The policy or the host's addresses may have changed in the meantime.
    const verdict = this.judge(this.#context.policy())
    if (!verdict.allowed) return this.#deny(verdict.reason)
    const { counters, onDataAsleep } = this.#context
    pipeBytes({
      from: server,
      to: this.#client,
      onBytes: (count) => {
        counters.add('bytesIn', count)
        if (this.isParked) onDataAsleep()
      },
    })
    if (this.#reader === undefined || this.#firstMessage !== undefined) this.#pipeOut(server)
  }

  #pipeOut(server: Socket): void {
    const { counters } = this.#context
    const held = this.#reader?.held ?? Buffer.alloc(0)
    pipeBytes({
      ...{ from: this.#client, to: server, held },
      onBytes: (count) => counters.add('bytesOut', count),
      mayPass: () => {
        if (this.#context.isFenced()) this.end()
        return !this.#hasEnded
      },
    })
  }

  #endWhenIdle(socket: Socket): void {
    socket.setTimeout(IDLE_TIMEOUT_MS)
    socket.on('timeout', () => {
      // Time passes for a sleeping sandbox only by its own policy.
      if (this.isParked) socket.setTimeout(socket.timeout ?? IDLE_TIMEOUT_MS)
      else this.end()
    })
  }

  /** One end closed in order: sends the rest of the data to the other end, then closes it. */
  #closeAfter(other: Socket | undefined): void {
    if (this.#hasEnded) return
    if (other !== undefined && !other.destroyed) other.destroySoon()
    else this.end()
  }

  #countTaken(): void {
    const now = { out: this.#client.bytesRead, in: this.#client.bytesWritten }
    this.#context.counters.add('bytesOut', now.out - this.#counted.out)
    this.#context.counters.add('bytesIn', now.in - this.#counted.in)
    this.#counted = now
  }
}
