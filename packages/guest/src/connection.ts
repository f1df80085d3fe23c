import type { Socket } from 'node:net'
import { DormouseError, type ErrorCode, isErrorCode } from '@dormouse/contracts'
import { Channel, type ChannelHandlers } from './channel.ts'
import {
  encodeFrame,
  encodeJsonFrame,
  FRAME_MAX_BYTES,
  type Frame,
  FrameDecoder,
  FrameType,
  HEADER_BYTES,
  PROTOCOL_VERSION,
} from './frames.ts'

/** An agent that accepts the connection but does not greet within this time is as good as gone. */
const HELLO_TIMEOUT_MS = 10_000
const CHANNEL_MAX = 0xffffffff

/** One multiplexed connection to an agent. The agent may be in hostile hands: whatever is malformed ends the connection. */
export class AgentConnection {
  readonly #socket: Socket
  readonly #decoder = new FrameDecoder()
  readonly #channels = new Map<number, Channel>()
  #nextChannel = 1
  #greeted: ((error?: DormouseError) => void) | undefined
  #closedWith: DormouseError | undefined
  /** Settles when the connection is over; never rejects. */
  readonly closed: Promise<void>

  private constructor(socket: Socket) {
    this.#socket = socket
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
  }

  /** Greets the agent. Pre: the socket is connected and nothing has been read from it. */
  static async open(socket: Socket): Promise<AgentConnection> {
    const connection = new AgentConnection(socket)
    const greeting = new Promise<void>((resolve, reject) => {
      connection.#greeted = (error) => (error === undefined ? resolve() : reject(error))
    })
    const timer = setTimeout(() => {
      connection.#close(new DormouseError('agent_unreachable', 'The agent did not greet in time.'))
    }, HELLO_TIMEOUT_MS)
    socket.write(encodeJsonFrame(FrameType.hello, 0, { protocols: [PROTOCOL_VERSION] }))
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

  /** Sends a request; the channel carries what comes back. */
  request(op: string, fields: object, handlers: ChannelHandlers = {}): Channel {
    const id = this.#nextChannel
    if (this.#closedWith !== undefined) return Channel.failed(this.#closedWith)
    if (id > CHANNEL_MAX) {
      const error = new DormouseError('agent_unreachable', 'The connection has used up its channels.')
      this.#close(error)
      return Channel.failed(error)
    }
    const frame = encodeRequest(id, { op, ...fields })
    if (frame instanceof DormouseError) return Channel.failed(frame)
    this.#nextChannel += 1
    const channel = new Channel({
      handlers,
      send: (type, payload) => this.#socket.write(encodeFrame(type, id, payload)),
      onClose: () => this.#channels.delete(id),
    })
    this.#channels.set(id, channel)
    this.#socket.write(frame)
    return channel
  }

  close(): void {
    this.#close(new DormouseError('agent_unreachable', 'The connection to the agent was closed.'))
  }

  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#decoder.push(chunk)) this.#dispatch(frame)
    } catch (cause) {
      this.#close(new DormouseError('agent_unreachable', 'The agent sent something malformed.', { cause }))
    }
  }

  #dispatch(frame: Frame): void {
    if (this.#greeted !== undefined) {
      this.#greet(frame)
      return
    }
    // A channel that is gone was cancelled or has failed here; what was under way is of no interest.
    const channel = this.#channels.get(frame.channel)
    if (channel === undefined) return
    if (frame.type === FrameType.item) channel.receiveItem(parseJson(frame.payload), frame.payload.byteLength)
    else if (frame.type === FrameType.data) channel.receiveData(frame.payload)
    else if (frame.type === FrameType.end) channel.finish(parseJson(frame.payload))
    else if (frame.type === FrameType.error) channel.fail(agentError(parseJson(frame.payload)))
    else if (frame.type === FrameType.credit) channel.receiveCredit(frame.payload.readUInt32BE(0))
    else throw new Error(`unexpected frame type ${frame.type}`)
  }

  #greet(frame: Frame): void {
    const greeted = this.#greeted
    this.#greeted = undefined
    if (frame.type === FrameType.error) {
      const error = agentError(parseJson(frame.payload))
      greeted?.(error)
      this.#close(error)
      return
    }
    const hello = parseJson(frame.payload) as { protocol?: unknown } | null
    if (frame.type !== FrameType.hello || hello?.protocol !== PROTOCOL_VERSION) {
      const error = new DormouseError(
        'protocol_mismatch',
        `The agent does not speak protocol ${PROTOCOL_VERSION}.`,
      )
      greeted?.(error)
      this.#close(error)
      return
    }
    greeted?.()
  }

  #close(error: DormouseError): void {
    if (this.#closedWith !== undefined) return
    this.#closedWith = error
    this.#greeted?.(error)
    this.#greeted = undefined
    this.#socket.destroy()
    for (const channel of [...this.#channels.values()]) channel.fail(error)
  }
}

/** The agent ends a connection over a frame that is too long, and with it every other call; so it never leaves the host. */
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
  return JSON.parse(payload.toString('utf8'))
}

const MESSAGE_MAX_CHARACTERS = 2000

function agentError(value: unknown): DormouseError {
  const { code, message, details } = (value ?? {}) as { code?: unknown; message?: unknown; details?: unknown }
  const known: ErrorCode = typeof code === 'string' && isErrorCode(code) ? code : 'internal'
  const text = typeof message === 'string' ? message.slice(0, MESSAGE_MAX_CHARACTERS) : 'The agent failed.'
  const isObject = typeof details === 'object' && details !== null
  return new DormouseError(known, text, isObject ? { details: details as Record<string, unknown> } : {})
}
