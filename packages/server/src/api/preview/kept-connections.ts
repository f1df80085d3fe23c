import type { Duplex } from 'node:stream'
import type { Guest } from '@dormouse/engine'
import { Client } from 'undici'
import { DISCARD_MAX_MS } from '../limits.ts'
import { ANSWER_HEADERS_MAX_BYTES } from './proxy-request.ts'

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

/** A connection to a port that carries one request after the other. */
export interface KeptConnection {
  readonly client: Client
  /** It has carried a request before, so the program inside may be about to close it. */
  readonly isReused: boolean
  /** Call when the response has begun. */
  answered(): void
  /** Call when the response is complete: the connection waits for the next request. */
  release(): void
}

/** Connections to ports of sandboxes that wait for the next request. They keep no sandbox awake. */
export class KeptConnections {
  readonly #ports = new WeakMap<Guest, Map<number, PortConnections>>()

  /** Returns an idle connection, or connects. Throws `port_closed`. */
  async take(guest: Guest, port: number): Promise<KeptConnection> {
    return this.#of(guest, port).findIdle() ?? this.connect(guest, port)
  }

  async connect(guest: Guest, port: number): Promise<KeptConnection> {
    const connections = this.#of(guest, port)
    return connections.add(await guest.ports.connect(port))
  }

  /** Call when a request was sent over a connection that is not kept, and what it returns when it was answered. */
  expectAnswer(guest: Guest, port: number): () => void {
    return this.#of(guest, port).expectAnswer()
  }

  #of(guest: Guest, port: number): PortConnections {
    const ports = this.#ports.get(guest) ?? new Map<number, PortConnections>()
    this.#ports.set(guest, ports)
    const connections = ports.get(port) ?? new PortConnections()
    ports.set(port, connections)
    return connections
  }
}

interface Idle {
  readonly connection: KeptConnection
  readonly socket: Duplex
  readonly sinceMs: number
}

class PortConnections {
  /** Oldest first. */
  #idle: Idle[] = []
  /** New connections without an answer yet. */
  #unanswered = 0
  #stalledMs = STALLED_MS
  #stalled: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined

  findIdle(): KeptConnection | undefined {
    for (;;) {
      const last = this.#idle.pop()
      if (last === undefined) return undefined
      if (isOpen(last.socket)) return last.connection
    }
  }

  add(socket: Duplex): KeptConnection {
    const client = clientOver(socket)
    const answered = this.expectAnswer()
    socket.once('close', answered)
    const release = (connection: KeptConnection) =>
      this.#keep({ connection, socket, sinceMs: performance.now() })
    const reused: KeptConnection = {
      client,
      isReused: true,
      answered: () => {},
      release: () => release(reused),
    }
    return { client, isReused: false, answered, release: () => release(reused) }
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
    for (const { socket } of this.#idle.splice(0)) endInOrder(socket)
    this.#stalledMs = Math.min(2 * this.#stalledMs, STALLED_MAX_MS)
    this.#stalled = setTimeout(this.#closeIdle, this.#stalledMs).unref()
  }

  #keep(idle: Idle): void {
    if (!isOpen(idle.socket)) return
    this.#idle.push(idle)
    if (this.#idle.length > IDLE_MAX) endInOrder((this.#idle.shift() as Idle).socket)
    this.#timer ??= setTimeout(this.#endOld, IDLE_MS).unref()
  }

  readonly #endOld = () => {
    this.#timer = undefined
    const oldestMs = performance.now() - IDLE_MS
    while (this.#idle[0] !== undefined && this.#idle[0].sinceMs <= oldestMs)
      endInOrder((this.#idle.shift() as Idle).socket)
    const [first] = this.#idle
    if (first !== undefined) this.#timer = setTimeout(this.#endOld, first.sinceMs - oldestMs).unref()
  }
}

/** Undici opens connections by itself. This one has a connection already, and gets no other. */
function clientOver(socket: Duplex): Client {
  let isUsed = false
  return new Client('http://localhost', {
    connect: (_options, done) => {
      const error = isUsed || !isOpen(socket) ? new Error('the connection has ended') : undefined
      isUsed = true
      // Undici overlooks a connection that is there before this function has returned.
      process.nextTick(() => (error === undefined ? done(null, socket as never) : done(error, null)))
    },
    pipelining: 1,
    maxHeaderSize: ANSWER_HEADERS_MAX_BYTES,
    // An answer may take as long as the program needs. `KeptConnections` ends idle connections.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 2 * IDLE_MS,
  })
}

function isOpen(socket: Duplex): boolean {
  return !socket.destroyed && !socket.writableEnded && !socket.readableEnded
}

/** Resets the connection when the program inside does not close its half in time. */
function endInOrder(socket: Duplex): void {
  socket.end()
  setTimeout(() => socket.destroy(), DISCARD_MAX_MS).unref()
}
