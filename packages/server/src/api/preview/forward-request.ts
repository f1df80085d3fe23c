import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Guest } from '@dormouse/engine'
import type { Dispatcher } from 'undici'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { ConnectionHold } from './connection-hold.ts'
import { headersForClient, headersForSandbox, type PreviewTarget } from './forwarded-headers.ts'
import type { KeptConnection, KeptConnections } from './kept-connections.ts'
import { noAnswer, REASON } from './proxy-request.ts'

export interface ForwardRequest extends PreviewTarget {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: string
  readonly sandbox: SandboxHandle
  readonly signal: AbortSignal
  readonly idleMs: number
}

/**
 * A request that may be sent twice: the program inside can close a kept connection just when the request is on its way.
 */
export function isRepeatable({ method, headers }: IncomingMessage, target: string): boolean {
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
  return (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') && !hasBody && target !== '*'
}

/**
 * Forwards a repeatable request over a kept connection and streams the response back, with back-pressure. Settles when
 * the response has ended. Throws before the response has started, or never.
 */
export async function forwardRequest(kept: KeptConnections, forwarded: ForwardRequest): Promise<void> {
  const { sandbox, port, signal, idleMs } = forwarded
  const what = `a connection to port ${port}`
  // Taken before the waking call ends: the sandbox could fall asleep in between.
  using hold = new ConnectionHold(sandbox, { what, idleMs })
  const use = (connect: (guest: Guest) => Promise<KeptConnection>) =>
    sandbox.use({ cause: 'port', what, signal }, connect)
  const connection = await use((guest) => kept.take(guest, port))
  if (await send(connection, forwarded, hold)) return
  const isAnswered =
    connection.isReused && (await send(await use((guest) => kept.connect(guest, port)), forwarded, hold))
  if (!isAnswered) throw noAnswer(port, undefined)
}

/** Returns false when the connection ended before the response has started. */
function send(connection: KeptConnection, forwarded: ForwardRequest, hold: ConnectionHold): Promise<boolean> {
  const { request, target } = forwarded
  return new Promise((resolve) => {
    connection.client.dispatch(
      {
        method: request.method as Dispatcher.HttpMethod,
        path: target,
        headers: headersForSandbox(request, forwarded) as IncomingHttpHeaders,
      },
      new Answer(connection, forwarded, hold, resolve),
    )
  })
}

/** Passes one response on to the client. */
class Answer implements Dispatcher.DispatchHandler {
  readonly #connection: KeptConnection
  readonly #forwarded: ForwardRequest
  readonly #hold: ConnectionHold
  readonly #finish: (hasAnswer: boolean) => void
  #controller: Dispatcher.DispatchController | undefined
  /** The first piece of the body: a short response is sent in one piece, with its head. */
  #first: Buffer | undefined
  #hasStarted = false
  #isStreaming = false

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
  }

  readonly #leave = () => this.#controller?.abort(new Error('the client has gone'))
  readonly #resume = () => this.#controller?.resume()

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    const { response } = this.#forwarded
    if (response.destroyed) this.#leave()
    else response.once('close', this.#leave)
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    message = '',
  ): void {
    // Interim responses are not passed on.
    if (status < 200) return
    this.#connection.answered()
    this.#hasStarted = true
    const raw = (controller.rawHeaders as Buffer[]).map((part) => part.toString('latin1'))
    const { response } = this.#forwarded
    response.writeHead(status, REASON.test(message) ? message : '', headersForClient(raw, this.#forwarded))
    // For events and long polls: without a body by then, the client learns now that it is connected.
    process.nextTick(this.#stream)
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (!this.#isStreaming && this.#first === undefined) {
      this.#first = piece
      return
    }
    this.#stream()
    this.#write(piece)
  }

  onResponseEnd(): void {
    const { response } = this.#forwarded
    response.off('close', this.#leave)
    response.end(this.#first)
    this.#first = undefined
    this.#isStreaming = true
    this.#connection.release()
    this.#finish(true)
  }

  onResponseError(_controller: Dispatcher.DispatchController, _error: Error): void {
    const { response } = this.#forwarded
    response.off('close', this.#leave)
    void this.#connection.client.destroy()
    // A truncated response must not look complete.
    if (this.#hasStarted) response.destroy()
    this.#finish(this.#hasStarted)
  }

  readonly #stream = () => {
    if (this.#isStreaming || this.#forwarded.response.destroyed) return
    this.#isStreaming = true
    this.#hold.mayIdle()
    const first = this.#first
    this.#first = undefined
    if (first === undefined) this.#forwarded.response.flushHeaders()
    else this.#write(first)
  }

  #write(piece: Buffer): void {
    this.#hold.touch()
    const { response } = this.#forwarded
    if (response.write(piece)) return
    this.#controller?.pause()
    response.once('drain', this.#resume)
  }
}
