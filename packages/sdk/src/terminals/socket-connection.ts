import type { ErrorAnswer } from '../contract/index.ts'
import { DormouseError, throwIfAborted } from '../error.ts'
import { errorFromAnswer } from '../http/error-from.ts'
import type { Http } from '../http/http.ts'
import { Backoff, sleep } from '../timing.ts'
import { OPEN, type Socket, type SocketConstructor } from './socket.ts'
import {
  endedError,
  type PtyExit,
  type TerminalConnection,
  type TerminalOptions,
} from './terminal-connection.ts'

const RECONNECT_MS = 60_000
/** The server accepts messages of a mebibyte; a paste may be longer. */
const PIECE_BYTES = 64 * 1024
const BUFFERED_MAX_BYTES = 1024 ** 2
const POLL_MS = 10

type Control =
  | { type: 'start'; seq: number }
  | { type: 'truncated'; seq: number }
  | ({ type: 'exit'; seq: number } & PtyExit)
  | { type: 'error'; error: ErrorAnswer['error'] }

/** A terminal over a WebSocket. Each binary message is one event, and `seq` increases by one. */
export class SocketConnection implements TerminalConnection {
  readonly ended: Promise<PtyExit>
  readonly #http: Http
  readonly #WebSocket: SocketConstructor
  readonly #options: TerminalOptions
  readonly #closed = new AbortController()
  #typing = Promise.resolve()
  #socket: Socket | undefined
  #seen: number
  #hasEnded = false

  constructor(http: Http, socket: SocketConstructor, options: TerminalOptions) {
    this.#http = http
    this.#WebSocket = socket
    this.#options = options
    this.#seen = options.after
    this.ended = this.#readUntilExit()
    const end = () => {
      this.#hasEnded = true
    }
    this.ended.then(end, end)
  }

  type(data: Uint8Array): Promise<void> {
    const sent = this.#typing.then(() => this.#send(data))
    // The caller of `type` gets the error; what is typed next is sent all the same.
    this.#typing = sent.catch(() => {})
    return sent
  }

  close(): void {
    this.#closed.abort()
    this.#socket?.close()
  }

  async #send(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.byteLength; at += PIECE_BYTES) {
      const socket = await this.#ready()
      socket.send(data.subarray(at, at + PIECE_BYTES))
    }
  }

  /** Waits for an open socket whose buffer has room. */
  async #ready(): Promise<Socket> {
    for (;;) {
      throwIfAborted(this.#closed.signal)
      const socket = this.#socket
      if (socket?.readyState === OPEN && socket.bufferedAmount <= BUFFERED_MAX_BYTES) return socket
      if (this.#hasEnded) {
        await this.ended
        throw endedError()
      }
      await sleep(POLL_MS, this.#closed.signal)
    }
  }

  async #readUntilExit(): Promise<PtyExit> {
    const { signal } = this.#closed
    const backoff = new Backoff(RECONNECT_MS)
    for (;;) {
      const { url, apiKey } = await this.#http.addressFor(this.#options.path)
      // It was closed before there was a socket to close.
      throwIfAborted(signal)
      const seen = this.#seen
      const exit = await this.#connect(
        `${url.replace(/^http/, 'ws')}${this.#options.path}/pty?after=${seen}`,
        apiKey,
      )
      if (exit !== undefined) return exit
      if (this.#seen !== seen) backoff.reset()
      const lost = new DormouseError('server_unreachable', 'The connection to the terminal was lost.')
      await backoff.wait(lost, signal)
      // A refused WebSocket does not tell the reason; this request does.
      await this.#http.json({ path: this.#options.path, signal })
    }
  }

  /** Resolves when the socket closes; undefined if the process continues. Rejects with an error of the server. */
  #connect(url: string, apiKey: string): Promise<PtyExit | undefined> {
    return new Promise((resolve, reject) => {
      let exit: PtyExit | undefined
      let failure: DormouseError | undefined
      const socket = new this.#WebSocket(url, ['dormouse.v1', `dormouse.bearer.${apiKey}`])
      socket.binaryType = 'arraybuffer'
      this.#socket = socket
      socket.addEventListener('message', ({ data }) => {
        if (typeof data !== 'string') return this.#onOutput(data as ArrayBuffer)
        const control = JSON.parse(data) as Control
        if (control.type === 'error') failure = errorFromAnswer(control.error)
        else this.#seen = control.seq
        if (control.type === 'exit') {
          const { seq: _seq, type: _type, ...rest } = control
          exit = rest
        }
      })
      socket.addEventListener('error', () => {})
      socket.addEventListener('close', ({ code }) => {
        this.#socket = undefined
        if (code === POLICY_VIOLATION && failure !== undefined) reject(failure)
        else resolve(exit)
      })
    })
  }

  #onOutput(data: ArrayBuffer): void {
    this.#seen += 1
    if (!this.#closed.signal.aborted) this.#options.onData(new TextDecoder().decode(data))
  }
}

const POLICY_VIOLATION = 1008
