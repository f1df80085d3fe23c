import type { Guest, PortConnection } from '@dormouse/engine'
import { DISCARD_MAX_MS } from '../limits.ts'
import { type AnswerHead, AnswerReader, type AnswerSink } from './answer-reader.ts'

/** A page loads its parts within this time. Afterwards the program in the sandbox gets an orderly end. */
const IDLE_MS = 2_000
/** Of one port. As many as the busiest clients use at once. */
const IDLE_MAX = 64
/**
 * A program that serves one connection at a time does not answer on a new one while an idle one is open. So when new
 * connections wait and none has got its first answer for this long, idle ones are closed. The time doubles with each
 * try, because a program may also just be slow.
 */
const STALLED_MS = 25
const STALLED_MAX_MS = 1_000

/** Takes the response to one request. */
export interface ConnectionUser {
  onHead(head: AnswerHead): void
  onBody(piece: Buffer): void
  /** All bytes that have come are handed over, and the response is not complete. */
  onFlush(): void
  onEnd(): void
  /** The connection ended before the response was complete, or the response is malformed. */
  onFail(): void
}

/** Connections to ports of sandboxes that wait for the next request. They keep no sandbox awake. */
export class KeptConnections {
  readonly #ports = new WeakMap<Guest, Map<number, PortConnections>>()

  findIdle(guest: Guest, port: number): KeptConnection | undefined {
    return this.#of(guest, port).findIdle()
  }

  /** Returns an idle connection, or connects. Throws `port_closed`. */
  async take(guest: Guest, port: number): Promise<KeptConnection> {
    return this.findIdle(guest, port) ?? this.connect(guest, port)
  }

  async connect(guest: Guest, port: number): Promise<KeptConnection> {
    const connections = this.#of(guest, port)
    return new KeptConnection(await guest.ports.connect(port), connections)
  }

  /** Call when a request was sent over a connection that is not kept, and what it returns when it was answered. */
  expectAnswer(guest: Guest, port: number): () => void {
    return this.#of(guest, port).expectAnswer()
  }

  #of(guest: Guest, port: number): PortConnections {
    const ports = this.#ports.get(guest)
    const known = ports?.get(port)
    if (known !== undefined) return known
    const connections = new PortConnections()
    if (ports === undefined) this.#ports.set(guest, new Map([[port, connections]]))
    else ports.set(port, connections)
    return connections
  }
}

/** A connection to a port that carries one request after the other. */
export class KeptConnection implements AnswerSink {
  /** It has carried a request before, so the program inside may be about to close it. */
  isReused = false
  idleSinceMs = 0
  readonly socket: PortConnection
  readonly #port: PortConnections
  readonly #reader = new AnswerReader()
  readonly #answered: () => void
  #user: ConnectionUser | undefined

  constructor(socket: PortConnection, port: PortConnections) {
    this.socket = socket
    this.#port = port
    this.#answered = port.expectAnswer()
    socket.on('data', this.#take)
    socket.once('end', this.#end)
    socket.once('close', this.#fail)
    socket.on('error', this.#fail)
  }

  get isOpen(): boolean {
    const { destroyed, writableEnded, readableEnded } = this.socket
    return !destroyed && !writableEnded && !readableEnded
  }

  /** Sends a request without a body. `head` ends with an empty line. */
  send(head: string, user: ConnectionUser, options: { hasBody: boolean }): void {
    this.#user = user
    this.#reader.expect(this, options)
    if (this.isOpen) this.socket.write(head, 'latin1')
    else process.nextTick(this.#fail)
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.socket.resume()
  }

  /** Resets the connection. Its user hears nothing more. */
  destroy(): void {
    this.#user = undefined
    this.socket.destroy()
  }

  /** Resets the connection later, when the program inside does not close its half in time. */
  endInOrder(): void {
    this.socket.end()
    setTimeout(() => this.socket.destroy(), DISCARD_MAX_MS).unref()
  }

  onHead(head: AnswerHead): void {
    this.#answered()
    this.#user?.onHead(head)
  }

  onBody(piece: Buffer): void {
    this.#user?.onBody(piece)
  }

  onEnd(canContinue: boolean): void {
    const user = this.#user
    this.#user = undefined
    this.isReused = true
    // One that waits for the next request ends when the sandbox sleeps.
    this.socket.outlives = false
    // A slow client may have paused it.
    this.socket.resume()
    if (!canContinue) this.endInOrder()
    else if (this.isOpen) this.#port.keep(this)
    user?.onEnd()
  }

  readonly #take = (data: Buffer) => {
    try {
      this.#reader.take(data)
      this.#user?.onFlush()
    } catch {
      this.#fail()
    }
  }

  readonly #end = () => {
    try {
      if (this.#user !== undefined) this.#reader.end()
    } catch {
      this.#fail()
    }
    this.socket.end()
  }

  readonly #fail = () => {
    const user = this.#user
    this.#answered()
    this.destroy()
    user?.onFail()
  }
}

class PortConnections {
  /** Oldest first. */
  #idle: KeptConnection[] = []
  /** New connections without an answer yet. */
  #unanswered = 0
  #stalledMs = STALLED_MS
  #stalled: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined

  findIdle(): KeptConnection | undefined {
    for (;;) {
      const last = this.#idle.pop()
      if (last === undefined || last.isOpen) return last
    }
  }

  keep(connection: KeptConnection): void {
    connection.idleSinceMs = performance.now()
    this.#idle.push(connection)
    if (this.#idle.length > IDLE_MAX) this.#idle.shift()?.endInOrder()
    this.#timer ??= setTimeout(this.#endOld, IDLE_MS).unref()
  }

  expectAnswer(): () => void {
    let isWaiting = true
    this.#unanswered += 1
    this.#stalled ??= setTimeout(this.#closeIdle, this.#stalledMs).unref()
    return () => {
      if (isWaiting) this.#answered()
      isWaiting = false
    }
  }

  #answered(): void {
    this.#unanswered -= 1
    this.#stalledMs = STALLED_MS
    clearTimeout(this.#stalled)
    this.#stalled = undefined
    if (this.#unanswered > 0) this.#stalled = setTimeout(this.#closeIdle, STALLED_MS).unref()
  }

  readonly #closeIdle = () => {
    for (const connection of this.#idle.splice(0)) connection.endInOrder()
    this.#stalledMs = Math.min(2 * this.#stalledMs, STALLED_MAX_MS)
    this.#stalled = setTimeout(this.#closeIdle, this.#stalledMs).unref()
  }

  readonly #endOld = () => {
    this.#timer = undefined
    const oldestMs = performance.now() - IDLE_MS
    while (this.#idle[0] !== undefined && this.#idle[0].idleSinceMs <= oldestMs)
      this.#idle.shift()?.endInOrder()
    const [first] = this.#idle
    if (first !== undefined) this.#timer = setTimeout(this.#endOld, first.idleSinceMs - oldestMs).unref()
  }
}
