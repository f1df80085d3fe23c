import type { Agent, ClientRequest, IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'

interface Transport {
  readonly request: typeof request
  readonly agent: Agent
}

/** Loaded on first use: loading TLS takes several milliseconds, and most servers are on the same machine. */
const transports = new Map<boolean, Promise<Transport>>()

function transportFor(isSecure: boolean): Promise<Transport> {
  const known = transports.get(isSecure)
  if (known !== undefined) return known
  const loading = (isSecure ? import('node:https') : import('node:http')).then((loaded) => ({
    request: loaded.request,
    agent: new loaded.Agent({ keepAlive: true }),
  }))
  transports.set(isSecure, loading)
  return loading
}

/**
 * The parts of `fetch` that the SDK uses, on top of node:http. The global `fetch` compiles a parser on first use,
 * which takes longer than everything else that most commands do.
 */
export const lightFetch = (async (address: string, init: RequestInit = {}) => {
  const url = new URL(address)
  const transport = await transportFor(url.protocol === 'https:')
  const { method = 'GET', signal } = init
  return new Promise<LightResponse>((resolve, reject) => {
    const options = {
      method,
      headers: headersOf(init),
      agent: transport.agent,
      ...(signal ? { signal } : {}),
    }
    const sent = transport.request(url, options)
    sent.once('response', (message) => resolve(new LightResponse(address, message)))
    // After the response, an error here has no effect: if the body is still being read, the response reports it too.
    sent.on('error', reject)
    send(sent, init.body)
  })
}) as unknown as typeof globalThis.fetch

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

function send(request: ClientRequest, body: RequestInit['body']): void {
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
  } else request.destroy(new TypeError('lightFetch does not support this type of body'))
}
