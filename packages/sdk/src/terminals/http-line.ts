import { DormouseError, hasCode } from '../error.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import type { ProcessEvent } from '../processes/command-options.ts'
import { hasEnded, type Line, type LineOptions, type PtyExit } from './line.ts'

/** A terminal where there is no WebSocket (Node 20): its events are followed, and what is typed is posted. */
export class HttpLine implements Line {
  readonly ended: Promise<PtyExit>
  readonly #http: Http
  readonly #path: string
  readonly #closed = new AbortController()
  #waiting: Uint8Array[] = []
  /** Of what waits. */
  #next: Promise<void> | undefined
  #typing: Promise<void> = Promise.resolve()

  constructor(http: Http, { path, onData, after }: LineOptions) {
    this.#http = http
    this.#path = path
    this.ended = this.#show(onData, after)
    this.ended.catch(() => {})
  }

  type(data: Uint8Array): Promise<void> {
    this.#waiting.push(data)
    // What is typed while a piece is on its way goes with the next one, in order.
    this.#next ??= this.#typing.catch(() => {}).then(() => this.#send())
    this.#typing = this.#next
    return this.#next
  }

  close(): void {
    this.#closed.abort()
  }

  async #send(): Promise<void> {
    const pieces = this.#waiting.splice(0)
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
      throw hasCode(error, 'conflict') ? hasEnded(error) : error
    })
  }

  async #show(onData: (text: string) => void, after: number): Promise<PtyExit> {
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
    throw new DormouseError('server_unreachable', 'The terminal ended without an end.')
  }
}
