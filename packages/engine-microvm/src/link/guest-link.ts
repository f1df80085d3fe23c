import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import {
  encodeFrame,
  FrameType,
  LinkDecoder,
  type LinkFrame,
  RESET_BYTE,
  STREAMS_MAX,
  WINDOW_BYTES,
} from './link-codec.ts'
import { LinkStream } from './link-stream.ts'

/** A guest that is alive answers at once; under emulation and load that may be seconds. */
const ANSWER_TIMEOUT_MS = 20_000
const CONTROL_MAX_WAITING = 64
/** When a guest has this much left to read, streams wait: it decides itself how much credit it gives them. */
const PAUSE_BYTES = 1024 ** 2
/** Other frames are small and do not wait. A guest with this much left to read loses its link. */
const UNREAD_MAX_BYTES = 8 * PAUSE_BYTES
/** All that an honest guest can send to streams that have just ended here. A guest that sends more loses its link. */
const USELESS_MAX_BYTES = STREAMS_MAX * WINDOW_BYTES

export interface AgentEnd {
  readonly exitCode?: number
  readonly signal?: number
}

interface Opening {
  readonly stream: LinkStream
  readonly resolve: (stream: LinkStream) => void
  readonly reject: (error: Error) => void
}

/** The host's end of the link to one guest. Everything that comes from the guest is bounded and checked. */
export class GuestLink {
  readonly #socket: Socket
  readonly #decoder = new LinkDecoder()
  readonly #nonce = randomBytes(16)
  readonly #streams = new Map<number, LinkStream>()
  readonly #openings = new Map<number, Opening>()
  readonly #controls: { resolve: (answer: string) => void; reject: (error: Error) => void }[] = []
  #greeted: (() => void) | undefined
  #isGreeted = false
  #isClosed = false
  #uselessBytes = 0
  #end: Error | undefined
  /** How the agent ended, if the guest said so. */
  agentEnd: AgentEnd | undefined
  /** Settles when the link has ended. Never rejects. */
  readonly closed: Promise<void>

  private constructor(socket: Socket) {
    this.#socket = socket
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#close(new Error('the guest has ended'))
        resolve()
      })
    })
    socket.on('error', (error) => this.#close(error))
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('drain', () => {
      for (const stream of [...this.#streams.values()]) stream.continueSending()
    })
  }

  /** Pre: the socket is connected and nothing has been read from it. The guest may answer later: see `greet`. */
  static over(socket: Socket): GuestLink {
    return new GuestLink(socket)
  }

  /** Begins a session: what an earlier one left in the guest is dropped. Post: the guest has answered. */
  async greet(timeoutMs = ANSWER_TIMEOUT_MS, signal?: AbortSignal): Promise<void> {
    const answered = new Promise<void>((resolve) => {
      this.#greeted = resolve
    })
    this.#write(RESET_BYTE)
    this.#write(encodeFrame(FrameType.hello, 0, this.#nonce))
    await this.#inTime(answered, timeoutMs, signal)
  }

  /** Connects to the agent, to a volume that the guest has mounted, or to a TCP port of the guest's loopback. */
  async open(target: 'agent' | { readonly port: number } | { readonly volume: number }): Promise<LinkStream> {
    if (target === 'agent') return this.#open(0, 0)
    if ('volume' in target) return this.#open(1, target.volume)
    return this.#open(4, target.port).catch((error: unknown) => {
      if (this.#isClosed) throw error
      return this.#open(6, target.port)
    })
  }

  /** Asks PID 1 of the guest for something; see native/src/control.c. Throws when it refuses. */
  async control(command: string): Promise<string> {
    if (this.#isClosed || this.#controls.length >= CONTROL_MAX_WAITING) throw this.#unreachable()
    const answer = new Promise<string>((resolve, reject) => this.#controls.push({ resolve, reject }))
    this.#send(FrameType.control, 0, Buffer.from(command))
    const text = await this.#inTime(answer, ANSWER_TIMEOUT_MS)
    if (!text.startsWith('ok')) throw new DormouseError('agent_unreachable', `The guest refused: ${text}`)
    return text.slice(3)
  }

  close(): void {
    this.#close(new Error('the link was closed'))
  }

  async #open(family: number, port: number): Promise<LinkStream> {
    const id = this.#freeId()
    const stream = new LinkStream({
      send: (type, payload) => this.#send(type, id, payload),
      hasRoom: () => this.#socket.writableLength < PAUSE_BYTES,
      onClose: () => {
        if (this.#streams.get(id) === stream) this.#streams.delete(id)
      },
    })
    stream.on('error', () => {})
    const opened = new Promise<LinkStream>((resolve, reject) => {
      this.#openings.set(id, { stream, resolve, reject })
    })
    this.#send(FrameType.open, id, Buffer.from([family, port >> 8, port & 0xff]))
    try {
      return await this.#inTime(opened, ANSWER_TIMEOUT_MS)
    } finally {
      this.#openings.delete(id)
    }
  }

  #freeId(): number {
    if (this.#isClosed) throw this.#unreachable()
    for (let id = 0; id < STREAMS_MAX; id++) {
      if (!this.#streams.has(id) && !this.#openings.has(id)) return id
    }
    throw new DormouseError('limit_reached', `${STREAMS_MAX} connections are open already`)
  }

  #receive(chunk: Buffer): void {
    try {
      this.#uselessBytes += chunk.length
      for (const frame of this.#decoder.push(chunk)) this.#dispatch(frame)
      if (this.#uselessBytes > USELESS_MAX_BYTES) throw new Error('the guest sends only what has no use')
    } catch (error) {
      this.#close(error as Error)
    }
  }

  #dispatch({ type, stream: id, payload }: LinkFrame): void {
    if (type === FrameType.hello && payload.equals(this.#nonce)) {
      this.#isGreeted = true
      this.#greeted?.()
    }
    // Frames of an earlier session may still be on their way.
    if (!this.#isGreeted) return
    if (type === FrameType.control) this.#answer(payload.toString('utf8'))
    else if (type === FrameType.agentEnded) this.agentEnd = readEnd(payload)
    else if (type === FrameType.opened || type === FrameType.refused)
      this.#settle(id, type === FrameType.opened)
    else this.#toStream(type, id, payload)
  }

  #answer(text: string): void {
    const asked = this.#controls.shift()
    if (asked === undefined) return
    this.#uselessBytes = 0
    asked.resolve(text)
  }

  #settle(id: number, isOpen: boolean): void {
    const opening = this.#openings.get(id)
    if (opening === undefined) return
    this.#uselessBytes = 0
    this.#openings.delete(id)
    if (isOpen) {
      this.#streams.set(id, opening.stream)
      opening.resolve(opening.stream)
    } else {
      opening.stream.fail(new Error('refused'))
      opening.reject(
        Object.assign(new Error('the program of the guest refused the connection'), { code: 'ECONNREFUSED' }),
      )
    }
  }

  #toStream(type: number, id: number, payload: Buffer): void {
    const stream = this.#streams.get(id)
    if (stream === undefined) return
    this.#uselessBytes = 0
    if (type === FrameType.data) stream.receive(payload)
    else if (type === FrameType.end) stream.receiveEnd()
    else if (type === FrameType.credit && payload.length === 4) stream.receiveCredit(payload.readUInt32BE())
    else if (type === FrameType.reset)
      stream.receiveReset(Object.assign(new Error('connection reset'), { code: 'ECONNRESET' }))
  }

  #send(type: number, id: number, payload?: Uint8Array): void {
    if (!this.#isClosed) this.#write(encodeFrame(type, id, payload))
  }

  #write(bytes: Uint8Array): void {
    this.#socket.write(bytes)
    if (this.#socket.writableLength > UNREAD_MAX_BYTES) this.#close(new Error('the guest does not read'))
  }

  #close(error: Error): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#end = error
    this.#socket.destroy()
    for (const stream of [...this.#streams.values()]) stream.fail(error)
    for (const { reject, stream } of this.#openings.values()) {
      stream.fail(error)
      reject(error)
    }
    for (const { reject } of this.#controls.splice(0)) reject(this.#unreachable())
  }

  async #inTime<Value>(work: Promise<Value>, timeoutMs: number, signal?: AbortSignal): Promise<Value> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(this.#unreachable()), timeoutMs)
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      void this.closed.then(() => reject(this.#unreachable()))
    })
    work.catch(() => {})
    late.catch(() => {})
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
    }
  }

  #unreachable(): DormouseError {
    const { message } = this.#end ?? {}
    const why = message === undefined ? '' : `: ${message}`
    return new DormouseError('agent_unreachable', `The guest of this sandbox does not answer${why}.`)
  }
}

function readEnd(payload: Buffer): AgentEnd {
  const [isSignal, number = 0] = payload
  return isSignal === 1 ? { signal: number } : { exitCode: number }
}
