import { hasErrorCode } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import type { AnswerHead } from './answer-reader.ts'
import { AnswerWriter } from './answer-writer.ts'
import { ConnectionHold } from './connection-hold.ts'
import type { Departure } from './departure.ts'
import { headerLines, headersForClient, headersForSandbox, type PreviewTarget } from './forwarded-headers.ts'
import type { ConnectionUser, KeptConnection, KeptConnections } from './kept-connections.ts'
import type { PreviewRequest, PreviewResponse } from './preview-message.ts'
import { endedBySave, noAnswer } from './proxy-request.ts'

export interface ForwardRequest extends PreviewTarget {
  readonly request: PreviewRequest
  readonly response: PreviewResponse
  readonly target: string
  readonly sandbox: SandboxHandle
  readonly requestId: string
  readonly departure: Departure
  readonly idleMs: number
}

/**
 * A request that may be sent twice: the program inside can close a kept connection just when the request is on its way.
 */
export function isRepeatable({ method, headers }: PreviewRequest, target: string): boolean {
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
  return (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') && !hasBody && target !== '*'
}

/**
 * Forwards a repeatable request over a kept connection and streams the response back, with back-pressure. Settles when
 * the response has ended. Throws before the response has started, or never.
 */
export async function forwardRequest(kept: KeptConnections, forwarded: ForwardRequest): Promise<void> {
  const { sandbox, port, idleMs } = forwarded
  const what = `a connection to port ${port}`
  // Taken before the waking call ends: the sandbox could fall asleep in between.
  const hold = new ConnectionHold(sandbox, { what, idleMs })
  try {
    await forwardWhile(hold, what, kept, forwarded)
  } finally {
    hold[Symbol.dispose]()
  }
}

async function forwardWhile(
  hold: ConnectionHold,
  what: string,
  kept: KeptConnections,
  forwarded: ForwardRequest,
): Promise<void> {
  const { sandbox, port, departure } = forwarded
  const use = (connect: (guest: Guest) => Promise<KeptConnection>) =>
    sandbox.use({ cause: 'port', what, signal: departure.signal }, connect)
  // Most requests find a sandbox that is awake and a connection that is open: they wait for nothing.
  let guest = sandbox.guestNow()
  const idle = guest === undefined ? undefined : kept.findIdle(guest, port)
  const connect = (awake: Guest) => {
    guest = awake
    return kept.take(awake, port)
  }
  const connection = idle ?? (await use(connect))
  if (await send(connection, forwarded, hold)) return
  // A checkpoint or a snapshot ends the connection where the policy of the sandbox keeps none.
  const wasSaved = sandbox.guestNow() !== guest
  const continues = wasSaved && sandbox.view().state === 'running'
  if (!connection.isReused && !continues) throw wasSaved ? endedBySave(port) : noAnswer(port, undefined)
  // The program may have received the request, so nothing waits here until it listens again.
  const second = await use((awake) => kept.connect(awake, port)).catch((error: unknown) => {
    throw hasErrorCode(error, 'port_closed') ? noAnswer(port, error) : error
  })
  if (!(await send(second, forwarded, hold))) throw noAnswer(port, undefined)
}

/** Returns false when the connection ended before the response has started. */
function send(connection: KeptConnection, forwarded: ForwardRequest, hold: ConnectionHold): Promise<boolean> {
  const { request, target } = forwarded
  const { method = 'GET' } = request
  const head = `${method} ${target} HTTP/1.1\r\n${headerLines(headersForSandbox(request, forwarded))}\r\n`
  return new Promise((resolve) => {
    const answer = new Answer(connection, forwarded, hold, resolve)
    hold.follow(connection.socket)
    if (forwarded.departure.hasGone) answer.leave()
    else connection.send(head, answer, { hasBody: method !== 'HEAD' })
  })
}

/** Passes one response on to the client. */
class Answer implements ConnectionUser {
  readonly #connection: KeptConnection
  readonly #forwarded: ForwardRequest
  readonly #hold: ConnectionHold
  readonly #finish: (hasAnswer: boolean) => void
  readonly #writer: AnswerWriter

  constructor(
    connection: KeptConnection,
    forwarded: ForwardRequest,
    hold: ConnectionHold,
    finish: (hasAnswer: boolean) => void,
  ) {
    this.#connection = connection
    this.#forwarded = forwarded
    this.#hold = hold
    this.#finish = finish
    const { response } = forwarded
    this.#writer = new AnswerWriter({ response, source: connection, onStream: () => hold.mayIdle() })
    forwarded.departure.onLeave = this.leave
  }

  /** The client has gone. */
  readonly leave = () => {
    this.#connection.destroy()
    this.#finish(true)
  }

  onHead(head: AnswerHead): void {
    const headers = headersForClient(head.rawHeaders, this.#forwarded)
    headers.push('x-request-id', this.#forwarded.requestId)
    this.#writer.begin(head, headers)
  }

  onBody(piece: Buffer): void {
    this.#hold.touch()
    this.#writer.write(piece)
  }

  onFlush(): void {
    this.#writer.flush()
  }

  onEnd(): void {
    this.#writer.end()
    this.#over(true)
  }

  onFail(): void {
    this.#writer.fail()
    this.#over(this.#writer.hasStarted)
  }

  #over(hasAnswer: boolean): void {
    this.#forwarded.departure.onLeave = undefined
    this.#finish(hasAnswer)
  }
}
