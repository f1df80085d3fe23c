import { Mutex } from '@dormouse/async'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type {
  Burrow,
  ConnectProcess,
  Guest,
  ProcessConnection,
  ProcessExit,
  ProcessOutput,
} from '@dormouse/engine'
import { Attachment, isDisconnect } from './attach.ts'
import { ProcessInput } from './process-input.ts'
import type { Sandbox } from './sandbox.ts'
import type { UseOptions } from './use-options.ts'

type Size = { readonly cols: number; readonly rows: number }

/**
 * A process whose input and output belong to a caller, over as many burrows as it takes: no byte is lost or doubled at
 * a sleep. Does not keep the sandbox awake. Input wakes it. Ends when the sandbox sleeps longer than its policy keeps
 * connections, and where the process does not continue: at a rollback, and when its burrow is lost.
 */
export class AttachedProcess implements Disposable {
  readonly processId: string
  readonly #sandbox: Sandbox
  readonly #options: UseOptions
  readonly #attachment: Attachment
  readonly #input = new ProcessInput()
  readonly #sending = new Mutex()
  readonly #over = new AbortController()
  /** Undefined while the sandbox sleeps or moves. */
  #connection: ProcessConnection | undefined
  #burrow: Burrow | undefined
  #receivedBytes = 0
  #isEnding = false
  #isEndSent = false
  #waiters: (() => void)[] = []
  #failure: unknown
  #exit: ProcessExit | undefined
  #wantedSize: Size | undefined

  private constructor(
    sandbox: Sandbox,
    options: UseOptions,
    connection: ProcessConnection,
    burrow: Burrow | undefined,
  ) {
    this.#sandbox = sandbox
    this.#options = options
    this.#connection = connection
    this.#burrow = burrow
    this.processId = connection.processId
    this.#attachment = new Attachment(sandbox, { ...options, wakes: 'never', keepsAwake: false })
  }

  /** Wakes the sandbox and starts the process. Aborting the signal of the options disconnects at any time. */
  static start(sandbox: Sandbox, request: ConnectProcess, options: UseOptions): Promise<AttachedProcess> {
    return sandbox.use(options, async ({ processes }) => {
      const connection = await processes.connect(request, signalOf(options))
      return new AttachedProcess(sandbox, options, connection, sandbox.burrow)
    })
  }

  [Symbol.dispose](): void {
    this.#over.abort()
    this.#attachment[Symbol.dispose]()
    this.#connection?.close()
    this.#setConnection(undefined)
  }

  /** How the process ended. Pre: its output has been read to the end. */
  get exit(): ProcessExit {
    if (this.#exit === undefined) throw new DormouseError('internal', 'The process has not ended.')
    return this.#exit
  }

  /** Can be read once. Leaving the loop disconnects. */
  async *output(): AsyncGenerator<ProcessOutput> {
    try {
      while (this.#exit === undefined) {
        try {
          yield* this.#outputOfConnection()
        } catch (error) {
          await this.#continueAfter(error)
        }
      }
    } finally {
      this[Symbol.dispose]()
    }
  }

  async *#outputOfConnection(): AsyncGenerator<ProcessOutput> {
    const connection = this.#connection
    if (connection === undefined) throw new DormouseError('cancelled', 'The process is disconnected.')
    for await (const piece of connection.output) {
      this.#receivedBytes += piece.data.byteLength
      this.#attachment.received()
      yield piece
    }
    this.#exit = await connection.exit
  }

  /** Resolves when the bytes are on their way. The bytes wake the sandbox. */
  write(data: Uint8Array): Promise<void> {
    this.#input.add(data)
    return this.#send()
  }

  /** Ends the input. A terminal gets Ctrl-D. */
  end(): void {
    this.#isEnding = true
    void this.#send()
  }

  /** Only the latest size matters. Does not wake the sandbox, which gets the size at its next wake. */
  resize(size: Size): void {
    const isResizing = this.#wantedSize !== undefined
    this.#wantedSize = size
    if (!isResizing) void this.#applySize()
  }

  /** Wakes the sandbox. Ignored when the process has ended. */
  async signal(name: string): Promise<void> {
    await this.#tell((guest) => guest.processes.signal(this.processId, name))
  }

  async #applySize(): Promise<void> {
    for (
      let size = this.#wantedSize;
      size !== undefined && this.#connection !== undefined;
      size = this.#wantedSize
    ) {
      await this.#tell((guest) => guest.processes.resize(this.processId, size as Size))
      if (this.#wantedSize === size) this.#wantedSize = undefined
    }
  }

  async #tell(tell: (guest: Guest) => Promise<void>): Promise<void> {
    await this.#sandbox.use(this.#options, tell).catch(() => {})
  }

  #send(): Promise<void> {
    return this.#sending.run(async () => {
      while (!this.#isOver) {
        const piece = this.#input.next()
        const hasEnd = this.#isEnding && !this.#isEndSent
        if (piece === undefined && !hasEnd) return
        const connection = this.#connection
        if (connection === undefined) {
          // The next connection begins with another piece.
          await this.#wake()
          continue
        }
        const isSent = piece === undefined || (await connection.write(piece))
        // Another connection begins with what the process has not taken.
        if (connection !== this.#connection) continue
        if (!isSent) await this.#connectionChange()
        else if (piece !== undefined) this.#input.sent(connection)
        else {
          this.#isEndSent = true
          connection.end()
        }
      }
    })
  }

  async #wake(): Promise<void> {
    try {
      const changed = this.#connectionChange()
      await this.#sandbox.use(this.#options, async () => {})
      await changed
    } catch (error) {
      this.#failure = error
      this.#over.abort()
    }
  }

  /** Connects again when the sandbox is awake. Throws `error` if the process does not continue. */
  async #continueAfter(error: unknown): Promise<void> {
    const { keepAsleepMs } = this.#sandbox.effectiveRow.connections
    this.#input.forget(this.#connection?.untakenBytes ?? 0)
    this.#setConnection(undefined)
    if (this.#isOver || keepAsleepMs === 0) throw this.#failure ?? error
    // The process may wait for what the caller has sent, and the caller for its answer.
    if (!this.#input.isEmpty) void this.#send()
    using expiry = this.#expireAfter(keepAsleepMs)
    for (let reason = error; ; ) {
      await this.#attachment.reconnectAfter(reason)
      await this.#requireContinuation(error)
      try {
        await this.#reconnect(expiry.signal)
        return
      } catch (failure) {
        if (expiry.isOver) throw keptTooLong()
        if (this.#isOver) throw this.#failure ?? error
        if (!isDisconnect(failure)) throw whyNotContinued(failure, error)
        reason = failure
      }
    }
  }

  async #reconnect(signal: AbortSignal): Promise<void> {
    const { processes } = await this.#attachment.connect(signal)
    const burrow = this.#sandbox.burrow
    const at = { receivedBytes: this.#receivedBytes, ...signalOf(this.#options) }
    const { connection, inputBytes, inputEnded } = await processes.reconnect(this.processId, at)
    if (!this.#input.rewindTo(inputBytes)) {
      connection.close()
      throw new DormouseError('conflict', 'The input of the process does not continue.')
    }
    this.#isEndSent = inputEnded
    this.#burrow = burrow
    this.#setConnection(connection)
    void this.#send()
    void this.#applySize()
  }

  /** Only a burrow that was saved continues in another one. */
  async #requireContinuation(error: unknown): Promise<void> {
    const end = await Promise.race([this.#burrow?.ended, undefined])
    if (end !== undefined && end.reason !== 'stored') throw error
  }

  #expireAfter(ms: number): Disposable & { readonly signal: AbortSignal; readonly isOver: boolean } {
    const expired = new AbortController()
    const timer = setTimeout(() => expired.abort(), ms).unref()
    const { signal } = this.#options
    const ends = [expired.signal, this.#over.signal, ...(signal === undefined ? [] : [signal])]
    return {
      signal: AbortSignal.any(ends),
      get isOver() {
        return expired.signal.aborted
      },
      [Symbol.dispose]: () => clearTimeout(timer),
    }
  }

  get #isOver(): boolean {
    return this.#over.signal.aborted || this.#options.signal?.aborted === true
  }

  #connectionChange(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  #setConnection(connection: ProcessConnection | undefined): void {
    this.#connection = connection
    for (const notify of this.#waiters.splice(0)) notify()
  }
}

function signalOf({ signal }: UseOptions): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal }
}

/** `error` ended the connection; `failure` is why there is no other. */
function whyNotContinued(failure: unknown, error: unknown): unknown {
  // An agent that is older than this server.
  if (hasErrorCode(failure, 'invalid_argument')) return error
  if (!hasErrorCode(failure, 'conflict') && !hasErrorCode(failure, 'not_found')) return failure
  return new DormouseError('conflict', 'The process did not continue: the sandbox was rolled back.', {
    hint: 'Connect again to start another one.',
    cause: failure,
  })
}

function keptTooLong(): DormouseError {
  return new DormouseError('agent_unreachable', 'The sandbox slept longer than its connections are kept.')
}
