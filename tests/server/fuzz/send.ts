import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'

export interface Request {
  readonly method: string
  /** Path and query as they go over the wire. */
  readonly target: string
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body: Buffer | undefined
}

export interface Reply {
  readonly status: number
  readonly type: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** A stream that would continue. */
  readonly isCut: boolean
}

/** Longer than any answer that is not a stream takes. */
const STREAM_MS = 300
const ANSWER_MS = 30_000

/** Not `fetch`: that tidies addresses and refuses odd headers, and both are wanted here. */
export class Sender {
  readonly #agent = new Agent({ keepAlive: true })
  readonly #url: URL

  constructor(url: string) {
    this.#url = new URL(url)
  }

  close(): void {
    this.#agent.destroy()
  }

  send({ method, target, headers, body }: Request): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = httpRequest({
        ...{ agent: this.#agent, method, path: target },
        ...{ host: this.#url.hostname, port: this.#url.port },
        headers: { ...headers, ...(body !== undefined && { 'content-length': String(body.length) }) },
      })
      let isAnswered = false
      const timer = setTimeout(
        () => request.destroy(new Error(`no answer to ${method} ${target}`)),
        ANSWER_MS,
      )
      request.on('error', (error) => {
        clearTimeout(timer)
        // Who is refused in the middle of a large body may find the connection closed.
        if (!isAnswered) reject(error)
      })
      request.on('response', (response) => {
        isAnswered = true
        collect(response).then((reply) => {
          clearTimeout(timer)
          if (reply.isCut) request.destroy()
          resolve(reply)
        }, reject)
      })
      request.end(body)
    })
  }
}

function collect(response: IncomingMessage): Promise<Reply> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const type = (response.headers['content-type'] ?? '').split(';', 1)[0] ?? ''
    const finish = (isCut: boolean) => {
      clearTimeout(timer)
      resolve({
        status: response.statusCode ?? 0,
        type,
        headers: response.headers,
        body: Buffer.concat(chunks),
        isCut,
      })
    }
    const isStream = type === 'application/x-ndjson' || type === 'text/event-stream'
    const timer = setTimeout(() => finish(true), isStream ? STREAM_MS : ANSWER_MS)
    response
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('end', () => finish(false))
      .on('error', () => finish(true))
  })
}
