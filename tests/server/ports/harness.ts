import { readFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import type { ServerProcess } from '../server-process.ts'

const program = new URL('inside.py', import.meta.url)

/** A sandbox with the server of `inside.py` on a port. */
export async function serveInside(server: ServerProcess, port = 8000, body: object = {}): Promise<string> {
  const { id } = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0, ...body } })
  await startInside(server, id, port)
  return id
}

async function startInside(server: ServerProcess, id: string, port: number): Promise<void> {
  const at = `/v1/sandboxes/${id}`
  await server.ok(`${at}/files?path=/root/inside.py`, { method: 'PUT', body: await readFile(program) })
  await server.ok(`${at}/processes`, {
    json: { args: ['python3', '/root/inside.py', String(port)], keepAwake: false },
  })
  await server.ok(`${at}/ports/${port}/wait`, { json: {} })
}

export interface Reply {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
  readonly json: any
}

/** Not `fetch`: the `Host` header is what some of this is about. */
export function send(
  server: ServerProcess,
  path: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: object; body?: string | Buffer } = {},
): Promise<Reply> {
  const { hostname, port } = new URL(server.url)
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, method, headers: { ...headers } }, (response) => {
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(parts).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json') === true
        const { statusCode: status = 0, headers: received } = response
        resolve({
          status,
          headers: received,
          text,
          json: isJson && text !== '' ? JSON.parse(text) : undefined,
        })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

export class EchoSocket {
  readonly raw: WebSocket
  /** Without `keepsBytes` only those of text: many bytes would fill the memory. */
  readonly messages: string[] = []
  readonly opened: Promise<void>
  /** The code that it was closed with, or the status of an answer that was no upgrade. */
  readonly ended: Promise<number>
  #wake = () => {}

  constructor(
    url: string,
    {
      protocols = [],
      headers = {},
      keepsBytes = true,
    }: { protocols?: string[]; headers?: object; keepsBytes?: boolean } = {},
  ) {
    this.raw = new WebSocket(url.replace(/^http/, 'ws'), protocols, { headers: { ...headers } })
    this.raw.on('message', (data: Buffer, isBinary) => {
      if (isBinary && !keepsBytes) return
      this.messages.push(data.toString())
      this.#wake()
    })
    this.opened = new Promise((resolve) => this.raw.once('open', resolve))
    this.ended = new Promise((resolve) => {
      this.raw.on('unexpected-response', (request, response) => {
        resolve(response.statusCode ?? 0)
        request.destroy()
      })
      this.raw.on('close', resolve)
      this.raw.on('error', () => {})
    })
  }

  /** The answer to a message. */
  async ask(text: string): Promise<string> {
    const before = this.messages.length
    this.raw.send(text)
    return this.message(before)
  }

  async message(at: number): Promise<string> {
    while (this.messages[at] === undefined)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    return this.messages[at]
  }
}
