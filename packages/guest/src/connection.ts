import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError, type ErrorCode } from '@dormouse/contracts'
import { Channel } from './channel.ts'
import {
  answerMaxBytes,
  encodeFrame,
  encodeJsonFrame,
  FRAME_MAX_BYTES,
  type Frame,
  FrameDecoder,
  FrameType,
  HEADER_BYTES,
  PROTOCOL_VERSION,
} from './frames.ts'
import { LivenessMonitor, silent } from './liveness-monitor.ts'
import { parseAgentJson } from './parse-agent-json.ts'

/** An agent that accepts the connection but does not greet within this time counts as gone. */
const HELLO_TIMEOUT_MS = 10_000
const CHANNEL_MAX = 0xffffffff
/** A frame must be complete within this time, or the host would hold its beginning forever. */
const FRAME_TIMEOUT_MS = 60_000
/** Above this many bytes that the agent has not read, further requests are refused. */
const UNREAD_MAX_BYTES = 64 * 1024 ** 2
/** What an agent may send to closed channels: some data may follow each cancelled request. */
const STRAY_MAX_BYTES = 64 * 1024 ** 2
const STRAY_BYTES_PER_REQUEST = 2 * 1024 ** 2
/** More values than the longest list of an agent has. */
const RESULT_VALUES_MAX = 100_000

/** One multiplexed connection to an agent. The agent may be hostile: malformed frames end the connection. */
export class AgentConnection {
  readonly #socket: Duplex
  readonly #decoder = new FrameDecoder(answerMaxBytes)
  readonly #channels = new Map<number, Channel>()
  #nextChannel = 1
  #greeted: ((error?: DormouseError) => void) | undefined
  #closedWith: DormouseError | undefined
  readonly #liveness: LivenessMonitor
  #strayBytes = 0
  #frames = 0
  #lastChannel: number | undefined
  #frameTimer: NodeJS.Timeout | undefined
  /** Settles when the connection has ended. Never rejects. */
  readonly closed: Promise<void>

  private constructor(socket: Duplex, isHeld: () => boolean) {
    this.#socket = socket
    this.#liveness = new LivenessMonitor({
      isWaiting: () => this.#channels.size > 0,
      isHeld,
      ping: () => void this.request('agent.info', {}),
      onSilence: () => this.#closeForSilence(),
    })
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#close(new DormouseError('agent_unreachable', 'The connection to the agent ended.'))
        resolve()
      })
    })
    socket.on('error', (cause) => {
      this.#close(new DormouseError('agent_unreachable', 'The connection to the agent broke.', { cause }))
    })
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('drain', () => {
      for (const channel of this.#channels.values()) channel.returnCredit()
    })
  }

  /**
   * Greets the agent. `isHeld`: the host itself keeps the agent from answering. `begin` sends requests at once, which
   * the agent finds behind the greeting. Pre: the socket is connected and nothing has been read from it.
   */
  static async open(
    socket: Duplex,
    {
      isHeld = () => false,
      signal,
      begin,
    }: { isHeld?: () => boolean; signal?: AbortSignal; begin?: (connection: AgentConnection) => void } = {},
  ): Promise<AgentConnection> {
    const connection = new AgentConnection(socket, isHeld)
    const greeting = new Promise<void>((resolve, reject) => {
      connection.#greeted = (error) => (error === undefined ? resolve() : reject(error))
    })
    using _closing = onAbort(signal, () => connection.close())
    const timer = setTimeout(() => {
      connection.#close(silent('The agent of the sandbox does not answer a new connection.'))
    }, HELLO_TIMEOUT_MS)
    socket.cork()
    socket.write(encodeJsonFrame(FrameType.hello, 0, { protocols: [PROTOCOL_VERSION] }))
    begin?.(connection)
    socket.uncork()
    try {
      await greeting
      return connection
    } finally {
      clearTimeout(timer)
    }
  }

  get isOpen(): boolean {
    return this.#closedWith === undefined
  }

  /**
   * Sends a request after which the agent reads nothing more. Nothing more is sent but a CANCEL of it: writing to a
   * socket that the agent has closed would break the connection before the answer is read.
   */
  requestLast(op: string): Channel {
    const id = this.#nextChannel
    const channel = this.request(op, {})
    this.#lastChannel = id
    return channel
  }

  /** The last request was cancelled, so it was not the last one. */
  takeRequestsAgain(): void {
    this.#lastChannel = undefined
  }

  /** Sends a request. The channel carries its answer. */
  request(op: string, fields: object): Channel {
    const id = this.#nextChannel
    if (this.#closedWith !== undefined) return Channel.failed(this.#closedWith)
    if (this.#lastChannel !== undefined)
      return Channel.failed(new DormouseError('agent_unreachable', 'The sandbox is being saved.'))
    if (id > CHANNEL_MAX) {
      const error = new DormouseError('agent_unreachable', 'The connection has used up its channels.')
      this.#close(error)
      return Channel.failed(error)
    }
    const frame = encodeRequest(id, { op, ...fields })
    if (frame instanceof DormouseError) return Channel.failed(frame)
    if (this.#socket.writableLength > UNREAD_MAX_BYTES)
      return Channel.failed(new DormouseError('agent_unreachable', 'The agent does not read its requests.'))
    this.#nextChannel += 1
    const channel = new Channel({
      send: (type, payload) => {
        const isCancelOfLast = id === this.#lastChannel && type === FrameType.cancel
        if (this.#lastChannel === undefined || isCancelOfLast)
          this.#socket.write(encodeFrame(type, id, payload))
      },
      onClose: () => this.#channels.delete(id),
      isBackedUp: () => this.#socket.writableNeedDrain,
      onMalformed: (cause) => this.#close(malformed(cause)),
    })
    this.#channels.set(id, channel)
    this.#liveness.start()
    this.#socket.write(frame)
    return channel
  }

  close(): void {
    this.#close(new DormouseError('agent_unreachable', 'The connection to the agent was closed.'))
  }

  #receive(chunk: Buffer): void {
    this.#liveness.onData()
    try {
      for (const frame of this.#decoder.push(chunk)) this.#dispatch(frame)
      if (this.#decoder.heldBytes > 0) this.#frameTimer ??= this.#startFrameTimer()
    } catch (cause) {
      this.#close(malformed(cause))
    }
  }

  #startFrameTimer(): NodeJS.Timeout {
    const before = this.#frames
    return setTimeout(() => {
      this.#frameTimer = undefined
      if (this.#decoder.heldBytes === 0 || this.#closedWith !== undefined) return
      if (this.#frames === before) this.#close(malformed(new Error('a frame did not end in time')))
      else this.#frameTimer = this.#startFrameTimer()
    }, FRAME_TIMEOUT_MS).unref()
  }

  #dispatch(frame: Frame): void {
    if (this.#closedWith !== undefined) return
    this.#frames++
    if (this.#greeted !== undefined) {
      this.#greet(frame)
      return
    }
    // A missing channel was cancelled or has failed here: its late frames are ignored.
    const channel = this.#channels.get(frame.channel)
    if (channel === undefined) this.#ignore(frame)
    else if (frame.type === FrameType.item) channel.receiveItem(frame.payload)
    else if (frame.type === FrameType.data) channel.receiveData(frame.payload)
    else if (frame.type === FrameType.end) channel.finish(parseJson(frame.payload))
    else if (frame.type === FrameType.error) channel.fail(agentError(parseJson(frame.payload)))
    else if (frame.type === FrameType.credit) channel.receiveCredit(frame.payload.readUInt32BE(0))
    else throw new Error(`unexpected frame type ${frame.type}`)
  }

  /** Bounded, because endless frames for closed channels would keep the host busy. */
  #ignore({ payload }: Frame): void {
    this.#strayBytes += HEADER_BYTES + payload.byteLength
    if (this.#strayBytes > STRAY_MAX_BYTES + this.#nextChannel * STRAY_BYTES_PER_REQUEST)
      throw new Error('too much was sent to closed channels')
  }

  #greet(frame: Frame): void {
    if (frame.type === FrameType.error) {
      this.#close(agentError(parseJson(frame.payload)))
      return
    }
    const hello = frame.type === FrameType.hello ? parseJson(frame.payload) : undefined
    if ((hello as { protocol?: unknown } | null | undefined)?.protocol !== PROTOCOL_VERSION) {
      const message = `The agent does not speak protocol ${PROTOCOL_VERSION}.`
      this.#close(new DormouseError('protocol_mismatch', message))
      return
    }
    this.#greeted?.()
    this.#greeted = undefined
  }

  #closeForSilence(): void {
    // An agent that was only stopped reads its requests later. It must not act on the last one then.
    if (this.#lastChannel !== undefined) this.#socket.write(encodeFrame(FrameType.cancel, this.#lastChannel))
    this.#close(silent('The agent of the sandbox does not answer.'))
  }

  #close(error: DormouseError): void {
    if (this.#closedWith !== undefined) return
    this.#closedWith = error
    this.#greeted?.(error)
    this.#greeted = undefined
    clearTimeout(this.#frameTimer)
    this.#socket.destroy()
    this.#liveness.stop()
    for (const channel of [...this.#channels.values()]) channel.fail(error)
  }
}

/** Refuses a frame that is too long: the agent would close the connection, which ends every other call too. */
function encodeRequest(channel: number, request: object): Buffer | DormouseError {
  let frame: Buffer
  try {
    frame = encodeJsonFrame(FrameType.request, channel, request)
  } catch (cause) {
    return new DormouseError('invalid_argument', 'The request cannot be written as JSON.', { cause })
  }
  const payloadBytes = frame.byteLength - HEADER_BYTES
  if (payloadBytes <= FRAME_MAX_BYTES) return frame
  const message = `The request is ${payloadBytes} bytes long, at most ${FRAME_MAX_BYTES} are allowed.`
  return new DormouseError('invalid_argument', message)
}

function parseJson(payload: Buffer): unknown {
  return parseAgentJson(payload, { valuesMax: RESULT_VALUES_MAX })
}

function malformed(cause: unknown): DormouseError {
  return new DormouseError('agent_unreachable', 'The agent sent malformed data.', { cause })
}

const MESSAGE_MAX_CHARACTERS = 2000

/** The codes that PROTOCOL.md allows agents. Other codes state what only the host can know. */
const AGENT_CODES: ReadonlySet<unknown> = new Set<ErrorCode>([
  'invalid_argument',
  'not_found',
  'already_exists',
  'permission_denied',
  'not_a_file',
  'not_a_directory',
  'directory_not_empty',
  'no_space',
  'too_large',
  'limit_reached',
  'conflict',
  'language_missing',
  'port_closed',
  'cancelled',
  'protocol_mismatch',
  'internal',
])

/** Keeps a listed code and a bounded message. Drops details: the host acts on details, so they must be its own. */
function agentError(value: unknown): DormouseError {
  const { code, message } = (value ?? {}) as { code?: unknown; message?: unknown }
  const known = AGENT_CODES.has(code) ? (code as ErrorCode) : 'internal'
  const text = typeof message === 'string' ? message.slice(0, MESSAGE_MAX_CHARACTERS) : 'The agent failed.'
  // The message reaches logs, the ledger and terminals.
  return new DormouseError(known, text.replace(/\p{Cc}/gu, ' '))
}
