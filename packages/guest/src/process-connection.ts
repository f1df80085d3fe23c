import { Mutex } from '@dormouse/async'
import type { ProcessConnection, ProcessExit, ProcessOutput, ReconnectedProcess } from '@dormouse/engine'
import { AgentValue, malformed } from './agent-value.ts'
import type { Channel } from './channel.ts'

/** By the first byte of DATA (PROTOCOL.md, Connected processes). */
const STREAMS: readonly (ProcessOutput['stream'] | undefined)[] = [undefined, 'stdout', 'stderr']
const SIGNAL = /^SIG[A-Z0-9]{1,16}$/

/** The host's end of `process.connect`. */
export class AgentProcessConnection implements ProcessConnection {
  readonly processId: string
  readonly pid: number
  readonly output: AsyncIterable<ProcessOutput>
  readonly exit: Promise<ProcessExit>
  readonly #channel: Channel
  /** Keeps pieces in order for callers that do not wait. */
  readonly #writing = new Mutex()

  private constructor(channel: Channel, start: AgentValue, received: AsyncGenerator<unknown, void>) {
    this.#channel = channel
    this.processId = start.processId('processId')
    this.pid = start.pid('pid')
    this.output = outputOf(received)
    this.exit = channel.result.then(checkExit)
    // The reader of the output sees the failure there.
    this.exit.catch(() => {})
  }

  /** Resolves when the process has started. Throws the error of the agent. */
  static async open(channel: Channel): Promise<AgentProcessConnection> {
    return (await AgentProcessConnection.#open(channel)).connection
  }

  /** The same for a process that an earlier connection started. */
  static async reopen(channel: Channel, process: string): Promise<ReconnectedProcess> {
    const { connection, start } = await AgentProcessConnection.#open(channel)
    try {
      if (connection.processId !== process) throw malformed('answer to process.reconnect')
      const inputEnded = start.flag('inputEnded')
      return { connection, inputBytes: start.count('inputBytes'), inputEnded }
    } catch (error) {
      connection.close()
      throw error
    }
  }

  static async #open(channel: Channel) {
    const received = channel.received()
    const first = await received.next()
    try {
      const start = new AgentValue(first.value, 'answer to process.connect')
      start.oneOf('type', ['start'])
      return { connection: new AgentProcessConnection(channel, start, received), start }
    } catch (error) {
      await received.return(undefined)
      throw error
    }
  }

  get untakenBytes(): number {
    return this.#channel.untakenBytes
  }

  write(data: Uint8Array): Promise<boolean> {
    return this.#writing.run(() => this.#channel.sendPiece(data))
  }

  end(): void {
    void this.#writing.run(() => this.#channel.sendEnd())
  }

  close(): void {
    this.#channel.cancel(undefined)
  }
}

async function* outputOf(received: AsyncGenerator<unknown, void>): AsyncGenerator<ProcessOutput> {
  for await (const value of received) {
    const stream = value instanceof Uint8Array ? STREAMS[value[0] ?? 0] : undefined
    if (stream === undefined) throw malformed('output of a process')
    yield { stream, data: (value as Buffer).subarray(1) }
  }
}

function checkExit(value: unknown): ProcessExit {
  const { exitCode, signal } = (value ?? {}) as { exitCode?: unknown; signal?: unknown }
  const isSignal = signal === undefined || (typeof signal === 'string' && SIGNAL.test(signal))
  if (!Number.isSafeInteger(exitCode) || !isSignal) throw malformed('end of a process')
  return { exitCode: exitCode as number, signal }
}
