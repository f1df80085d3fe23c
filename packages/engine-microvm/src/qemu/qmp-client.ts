import type { Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'

/** QEMU answers in milliseconds. On a machine under load it may take seconds. */
const ANSWER_TIMEOUT_MS = 30_000
/** More than any answer that is asked for here. */
const LINE_MAX_BYTES = 1024 ** 2

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

/** QEMU's control socket. QEMU may be in the hands of its guest: answers are bounded. */
export class QmpClient {
  readonly #socket: Socket
  readonly #waiting: Waiting[] = []
  #buffer = ''
  #isClosed = false
  /** Settles when QEMU has closed the connection. Never rejects. */
  readonly closed: Promise<void>

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()))
    void this.closed.then(() => this.#fail(ended()))
    socket.on('error', () => {})
    socket.on('data', (text: string) => this.#receive(text))
  }

  static async over(socket: Socket): Promise<QmpClient> {
    const client = new QmpClient(socket)
    await client.execute('qmp_capabilities')
    return client
  }

  /** The same for a QEMU that may wait for memory. It answers commands in order, some time later. */
  static later(socket: Socket): QmpClient {
    const client = new QmpClient(socket)
    client.execute('qmp_capabilities', undefined, Number.POSITIVE_INFINITY).catch(() => {})
    return client
  }

  async execute(command: string, args?: object, timeoutMs = ANSWER_TIMEOUT_MS): Promise<unknown> {
    if (this.#isClosed) throw ended()
    const answer = new Promise<unknown>((resolve, reject) => this.#waiting.push({ resolve, reject }))
    this.#socket.write(`${JSON.stringify({ execute: command, ...(args && { arguments: args }) })}\n`)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      if (timeoutMs === Number.POSITIVE_INFINITY) return
      timer = setTimeout(() => reject(failed(`QEMU did not answer ${command}`)), timeoutMs)
    })
    try {
      return await Promise.race([answer, late])
    } finally {
      clearTimeout(timer)
    }
  }

  close(): void {
    this.#socket.destroy()
  }

  #receive(text: string): void {
    this.#buffer += text
    if (this.#buffer.length > LINE_MAX_BYTES) {
      this.#socket.destroy()
      return
    }
    for (;;) {
      const end = this.#buffer.indexOf('\n')
      if (end === -1) return
      const line = this.#buffer.slice(0, end)
      this.#buffer = this.#buffer.slice(end + 1)
      this.#take(line)
    }
  }

  #take(line: string): void {
    const message = parse(line)
    if (message === undefined) this.#socket.destroy()
    else if ('return' in message) this.#waiting.shift()?.resolve(message['return'])
    else if ('error' in message) {
      const { desc } = (message['error'] ?? {}) as { desc?: unknown }
      this.#waiting.shift()?.reject(failed(`QEMU refused: ${String(desc).slice(0, 500)}`))
    }
  }

  #fail(error: Error): void {
    this.#isClosed = true
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function ended(): DormouseError {
  return new DormouseError('burrow_ended', 'The virtual machine of this sandbox has ended.')
}

function failed(message: string): DormouseError {
  return new DormouseError('internal', message)
}
