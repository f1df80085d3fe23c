import { Agent, type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps, Agent as SecureAgent } from 'node:https'
import { Readable } from 'node:stream'

const http = new Agent({ keepAlive: true })
const https = new SecureAgent({ keepAlive: true })

/**
 * As much of `fetch` as the SDK uses, over Node's own HTTP. The real one compiles a parser when it is first used, which takes longer than
 * everything else that most commands do.
 */
export const lightFetch = ((address: string, init: RequestInit = {}) =>
  new Promise<LightResponse>((resolve, reject) => {
    const url = new URL(address)
    const isSecure = url.protocol === 'https:'
    const { method = 'GET', signal } = init
    const options = {
      method,
      headers: headersOf(init),
      agent: isSecure ? https : http,
      ...(signal ? { signal } : {}),
    }
    const request = (isSecure ? requestHttps : requestHttp)(url, options)
    request.once('response', (message) => resolve(new LightResponse(address, message)))
    // Behind the answer it means only that the rest of the body was not wanted; if it was, the answer breaks off too.
    request.on('error', reject)
    send(request, init.body)
  })) as unknown as typeof globalThis.fetch

class LightResponse {
  readonly status: number
  readonly ok: boolean
  readonly headers: { get(name: string): string | null; has(name: string): boolean }
  readonly url: string
  readonly #message: IncomingMessage
  #body: ReadableStream<Uint8Array> | undefined

  constructor(url: string, message: IncomingMessage) {
    this.url = url
    this.#message = message
    this.status = message.statusCode ?? 0
    this.ok = this.status >= 200 && this.status < 300
    const find = (name: string) => message.headers[name.toLowerCase()]
    this.headers = {
      get: (name) => {
        const value = find(name)
        return value === undefined ? null : String(value)
      },
      has: (name) => find(name) !== undefined,
    }
  }

  get body(): ReadableStream<Uint8Array> {
    this.#body ??= Readable.toWeb(this.#message) as ReadableStream<Uint8Array>
    return this.#body
  }

  async text(): Promise<string> {
    const pieces: Buffer[] = []
    for await (const piece of this.#message) pieces.push(piece as Buffer)
    return Buffer.concat(pieces).toString()
  }
}

function headersOf({ headers, body }: RequestInit): Record<string, string> {
  const given = { ...(headers as Record<string, string>) }
  if (typeof body === 'string') given['content-length'] = String(Buffer.byteLength(body))
  else if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer)
    given['content-length'] = String(body.byteLength)
  return given
}

function send(request: ReturnType<typeof requestHttp>, body: RequestInit['body']): void {
  if (body instanceof ReadableStream) {
    const stream = Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0])
    stream.once('error', (error) => request.destroy(error))
    request.once('close', () => stream.destroy())
    stream.pipe(request)
  } else if (body === undefined || body === null) request.end()
  else if (typeof body === 'string') request.end(body)
  else if (ArrayBuffer.isView(body)) request.end(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  else if (body instanceof ArrayBuffer) request.end(Buffer.from(body))
  else if (body instanceof Blob) {
    const blob = body
    blob.arrayBuffer().then(
      (bytes) => request.end(Buffer.from(bytes)),
      (error: Error) => request.destroy(error),
    )
  } else request.destroy(new TypeError('this kind of body is not known here'))
}
