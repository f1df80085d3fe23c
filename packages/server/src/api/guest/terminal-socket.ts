import { onAbort } from '@dormouse/async'
import { DormouseError, parseInput } from '@dormouse/contracts'
import { terminalControlSchema } from '@dormouse/contracts/http'
import type { ProcessInfo } from '@dormouse/engine'
import type { FastifyBaseLogger } from 'fastify'
import type { RawData, WebSocket } from 'ws'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { type ErrorAnswers, toDormouseError } from '../error-answer.ts'
import {
  READER_STALL_MS,
  TERMINAL_CONTROLS_MAX,
  TERMINAL_PING_MS,
  TERMINAL_WAITING_BYTES,
} from '../limits.ts'
import { followProcess } from './follow-process.ts'
import { TerminalInput } from './terminal-input.ts'

/** Close codes of the WebSocket standard. */
const NORMAL = 1000
const POLICY = 1008

type Shown = Pick<ProcessInfo, 'processId' | 'pid'>

export interface TerminalSocketParts {
  readonly socket: WebSocket
  readonly sandbox: SandboxHandle
  readonly requestId: string
  readonly answers: ErrorAnswers
  readonly log: FastifyBaseLogger
  /** Aborted when the key that opened it is revoked. */
  readonly revoked: AbortSignal
}

/**
 * Relays a terminal over a WebSocket. Binary messages are its bytes; text messages are JSON about it. Each binary
 * message to the client is one event of the process: its `seq` is one more than that of the previous message, starting
 * with `seq` of `start`. The process outlives the socket.
 */
export class TerminalSocket {
  readonly #parts: TerminalSocketParts
  readonly #closed = new AbortController()
  readonly #input: TerminalInput
  #isAlive = true
  #waitingControls = 0

  /** Listens at once: messages that arrive before the process has started wait. */
  constructor(parts: TerminalSocketParts) {
    this.#parts = parts
    const { socket, sandbox, revoked } = parts
    this.#input = new TerminalInput({
      socket,
      sandbox,
      signal: this.signal,
      onError: (error) => this.tell(error),
    })
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary))
    socket.on('pong', () => {
      this.#isAlive = true
    })
    const pings = setInterval(() => this.#ping(), TERMINAL_PING_MS)
    const revocation = onAbort(revoked, () =>
      this.fail(new DormouseError('unauthorized', 'the key was revoked')),
    )
    socket.once('close', () => {
      clearInterval(pings)
      revocation[Symbol.dispose]()
      this.#closed.abort()
    })
  }

  get signal(): AbortSignal {
    return this.#closed.signal
  }

  /** Relays until the process or the socket ends. */
  async show({ processId, pid }: Shown, after: number): Promise<void> {
    try {
      this.#say({ type: 'start', processId, pid, seq: Math.max(after, 0) })
      this.#input.begin(processId)
      for await (const event of followProcess(this.#parts.sandbox, processId, {
        after,
        signal: this.signal,
      })) {
        if (event.type === 'stdout' || event.type === 'stderr') await this.#send(Buffer.from(event.data))
        else if (event.type !== 'start') this.#say(event)
        if (event.type === 'exit') break
      }
      this.#parts.socket.close(NORMAL, 'the process has ended')
    } catch (error) {
      this.fail(error)
    }
  }

  /** Reports the error and closes the socket. */
  fail(error: unknown): void {
    if (this.signal.aborted) return
    this.tell(error)
    this.#parts.socket.close(POLICY, toDormouseError(error).code)
  }

  tell(thrown: unknown): void {
    const error = toDormouseError(thrown)
    if (error.status >= 500) this.#parts.log.error({ err: thrown }, 'terminal failed')
    this.#say({ type: 'error', ...this.#parts.answers.body(error, this.#parts.requestId) })
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (isBinary) {
      this.#input.type(bytesOf(data))
      return
    }
    if (this.#waitingControls === TERMINAL_CONTROLS_MAX) {
      this.fail(new DormouseError('limit_reached', 'too many pending messages'))
      return
    }
    this.#waitingControls += 1
    this.#control(bytesOf(data))
      .catch((error: unknown) => this.tell(error))
      .finally(() => {
        this.#waitingControls -= 1
      })
  }

  async #control(text: Buffer): Promise<void> {
    const control = parseInput(terminalControlSchema, parseJson(text), 'message')
    const processId = await this.#input.processId
    const { sandbox } = this.#parts
    const work = {
      cause: 'process',
      what: `${control.type} of process ${processId}`,
      signal: this.signal,
    } as const
    await sandbox.use(work, async (guest) => {
      if (control.type === 'signal') await guest.processes.signal(processId, control.signal)
      else await guest.processes.resize(processId, { cols: control.cols, rows: control.rows })
    })
  }

  #say(message: object): void {
    if (this.#parts.socket.readyState === this.#parts.socket.OPEN) {
      this.#parts.socket.send(JSON.stringify(message))
    }
  }

  /** Post: there is room for more, or the socket is closed. */
  async #send(data: Buffer): Promise<void> {
    const { socket } = this.#parts
    if (socket.readyState !== socket.OPEN) return
    const sent = new Promise<void>((resolve) => socket.send(data, () => resolve()))
    if (socket.bufferedAmount < TERMINAL_WAITING_BYTES) return
    const timer = setTimeout(() => socket.terminate(), READER_STALL_MS)
    await sent
    clearTimeout(timer)
  }

  #ping(): void {
    if (this.#isAlive) this.#parts.socket.ping()
    else this.#parts.socket.terminate()
    this.#isAlive = false
  }
}

function parseJson(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString('utf8'))
  } catch (cause) {
    throw new DormouseError('invalid_argument', 'message: is not valid JSON', {
      hint: 'Send terminal input as binary messages.',
      cause,
    })
  }
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}
