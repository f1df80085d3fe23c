import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { KEEP_ALIVE_TIMEOUT_MS } from '../limits.ts'
import { type AnswerHead, AnswerReader, type AnswerSink } from '../preview/answer-reader.ts'

const CONNECT_TIMEOUT_MS = 5_000
/** Of one host. */
const IDLE_MAX = 256
/** Long before the other host closes them: it could do so just when a request is on its way. */
const IDLE_MS = KEEP_ALIVE_TIMEOUT_MS / 3

/** Takes the response to one request. */
export interface HostAnswer {
  onHead(head: AnswerHead): void
  onBody(piece: Buffer): void
  /** All bytes that have come are handed over, and the response is not complete. */
  onFlush(): void
  onEnd(): void
  /** `mayRepeat`: the other host has ended a kept connection, and nothing of a response has come. */
  onFail(cause: Error | undefined, mayRepeat: boolean): void
}

/** Opens a connection to another host of the cluster. */
export function connectHost(address: string, trust: { ca?: string[] } | undefined): Socket {
  const { hostname, port, protocol } = new URL(address)
  const to = { host: hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80), noDelay: true }
  if (protocol !== 'https:') return connect(to)
  // A certificate for an address has no name to ask for.
  return connectTls({ ...to, ...(isIP(hostname) === 0 && { servername: hostname }), ...trust })
}

/** Connections to the other hosts that wait for the next request. */
export class HostSockets {
  readonly #trust: { ca?: string[] } | undefined
  /** By address, oldest first. */
  readonly #idle = new Map<string, HostSocket[]>()
  #sweep: NodeJS.Timeout | undefined

  constructor(trust: { ca?: string[] } | undefined) {
    this.#trust = trust
  }

  close(): void {
    clearInterval(this.#sweep)
    for (const idle of this.#idle.values()) for (const socket of idle) socket.destroy()
    this.#idle.clear()
  }

  take(address: string): HostSocket {
    const idle = this.#idle.get(address)
    for (let last = idle?.pop(); last !== undefined; last = idle?.pop()) if (last.isOpen) return last
    return this.connect(address)
  }

  connect(address: string): HostSocket {
    return new HostSocket(connectHost(address, this.#trust), (socket) => this.#keep(address, socket))
  }

  #keep(address: string, socket: HostSocket): void {
    const idle = this.#idle.get(address) ?? []
    this.#idle.set(address, idle)
    idle.push(socket)
    if (idle.length > IDLE_MAX) idle.shift()?.destroy()
    this.#sweep ??= setInterval(() => this.#endOld(), IDLE_MS / 2).unref()
  }

  #endOld(): void {
    const oldestMs = performance.now() - IDLE_MS
    for (const idle of this.#idle.values())
      while (idle[0] !== undefined && (!idle[0].isOpen || idle[0].idleSinceMs <= oldestMs))
        idle.shift()?.destroy()
  }
}

/** A connection to another host that carries one request after the other. */
class HostSocket implements AnswerSink {
  idleSinceMs = 0
  readonly #socket: Socket
  readonly #keep: (socket: HostSocket) => void
  readonly #reader = new AnswerReader()
  #isReused = false
  #hasAnswered = false
  #user: HostAnswer | undefined

  constructor(socket: Socket, keep: (socket: HostSocket) => void) {
    this.#socket = socket
    this.#keep = keep
    // Only for the connection: an answer may take as long as a run.
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy(new Error('no connection in time')))
    socket.once('connect', () => socket.setTimeout(0))
    socket.on('data', this.#take)
    socket.once('end', this.#end)
    socket.on('error', this.#fail)
    socket.once('close', () => this.#fail(undefined))
  }

  get isOpen(): boolean {
    const { destroyed, writableEnded, readableEnded } = this.#socket
    return !destroyed && !writableEnded && !readableEnded
  }

  /** `head` ends with an empty line. `hasBody` is false for `HEAD`, whose response only describes one. */
  send(
    head: string,
    body: Buffer | undefined,
    { user, hasBody }: { user: HostAnswer; hasBody: boolean },
  ): void {
    this.#user = user
    this.#hasAnswered = false
    this.#reader.expect(this, { hasBody })
    if (!this.isOpen) return void process.nextTick(this.#fail, undefined)
    if (body === undefined) return void this.#socket.write(head, 'latin1')
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
    this.#socket.uncork()
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Its user hears nothing more, unless with a cause. */
  destroy(cause?: Error): void {
    if (cause === undefined) this.#user = undefined
    this.#socket.destroy(cause)
  }

  onHead(head: AnswerHead): void {
    this.#hasAnswered = true
    this.#user?.onHead(head)
  }

  onBody(piece: Buffer): void {
    this.#user?.onBody(piece)
  }

  onEnd(canContinue: boolean): void {
    const user = this.#user
    this.#user = undefined
    this.#isReused = true
    // A slow client may have paused it.
    this.#socket.resume()
    if (canContinue && this.isOpen) {
      this.idleSinceMs = performance.now()
      this.#keep(this)
    } else this.#socket.destroy()
    user?.onEnd()
  }

  readonly #take = (data: Buffer) => {
    try {
      this.#reader.take(data)
      this.#user?.onFlush()
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  readonly #end = () => {
    try {
      if (this.#user !== undefined) this.#reader.end()
      this.#socket.end()
    } catch (error) {
      this.#fail(error as Error)
    }
  }

  readonly #fail = (cause: Error | undefined) => {
    const user = this.#user
    this.#user = undefined
    this.#socket.destroy()
    user?.onFail(cause, this.#isReused && !this.#hasAnswered)
  }
}
