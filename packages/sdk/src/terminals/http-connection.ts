import { DormouseError, hasCode } from '../error.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import type { ProcessEvent } from '../processes/command-options.ts'
import {
  endedError,
  type PtyExit,
  type TerminalConnection,
  type TerminalOptions,
} from './terminal-connection.ts'

/** A terminal without WebSocket (Node 20): reads its events, and posts what is typed. */
export class HttpConnection implements TerminalConnection {
  readonly ended: Promise<PtyExit>
  readonly #http: Http
  readonly #path: string
  readonly #closed = new AbortController()
  #queue: Uint8Array[] = []
  /** Sends the queue. */
  #next: Promise<void> | undefined
  #typing: Promise<void> = Promise.resolve()

  constructor(http: Http, { path, onData, after }: TerminalOptions) {
    this.#http = http
    this.#path = path
    this.ended = this.#readEvents(onData, after)
    // There may be no caller that waits for the end.
    this.ended.catch(() => {})
  }

  type(data: Uint8Array): Promise<void> {
    this.#queue.push(data)
    // One request at a time keeps the order. What is typed meanwhile goes with the next one.
    this.#next ??= this.#typing.catch(() => {}).then(() => this.#send())
    this.#typing = this.#next
    return this.#next
  }

  close(): void {
    this.#closed.abort()
  }

  async #send(): Promise<void> {
    const pieces = this.#queue.splice(0)
    this.#next = undefined
    const call = {
      method: 'POST',
      path: `${this.#path}/stdin`,
      query: { close: false },
      headers: { 'content-type': 'application/octet-stream' },
      body: new Blob(pieces as BlobPart[]),
      signal: this.#closed.signal,
    } as const
    await this.#http.json(call).catch((error: unknown) => {
      throw hasCode(error, 'conflict') ? endedError(error) : error
    })
  }

  async #readEvents(onData: (text: string) => void, after: number): Promise<PtyExit> {
    const { signal } = this.#closed
    const headers = { accept: 'text/event-stream' }
    const events = follow<ProcessEvent>({
      open: (seen) =>
        this.#http.open({ path: `${this.#path}/events`, headers, query: { after: seen }, signal }),
      isLast: ({ type }) => type === 'exit',
      after,
      signal,
    })
    for await (const event of events) {
      if (event.type === 'stdout' || event.type === 'stderr') onData(event.data)
      else if (event.type === 'exit') {
        const { seq: _seq, type: _type, ...exit } = event
        return exit
      }
    }
    throw new DormouseError('server_unreachable', 'The events of the terminal ended without an exit event.')
  }
}
