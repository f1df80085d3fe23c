import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as plainRequest,
  type ServerResponse,
} from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { DormouseError } from '@dormouse/contracts'
import type { ClusterDoor, OtherHost } from './pass-on.ts'

/** Says that another host has passed the request on. It is then served here or refused. */
export const HOP_HEADER = 'dormouse-hop'
/** Where the sandbox is: clients that want to save the hop send the next request there. */
export const OWNER_HEADER = 'dormouse-host'

const KEPT_MAX = 256
const CONNECT_TIMEOUT_MS = 5_000
/** Answers up to this size are sent on as one. */
const SMALL_BYTES = 64 * 1024
/** How often hosts with open requests are looked at: a host that was stopped accepts connections and never answers. */
const CHECK_MS = 500
const NOT_PASSED = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'te',
])

type Refuse = (error: unknown, request: IncomingMessage, response: ServerResponse) => void

/** Connections to the other hosts of the cluster, kept for the next request. Bodies pass through unbuffered. */
export class HostConnections {
  readonly #door: Pick<ClusterDoor, 'hostId' | 'isAlive' | 'trust'>
  readonly #open = new Map<{ destroy: (error: Error) => unknown }, OtherHost>()
  readonly #checks: NodeJS.Timeout
  readonly #plain = new Agent({ keepAlive: true, maxFreeSockets: KEPT_MAX })
  readonly #tls: TlsAgent

  constructor(door: Pick<ClusterDoor, 'hostId' | 'isAlive' | 'trust'>) {
    this.#door = door
    this.#tls = new TlsAgent({ keepAlive: true, maxFreeSockets: KEPT_MAX, ...door.trust })
    this.#checks = setInterval(() => this.#endLost(), CHECK_MS).unref()
  }

  close(): void {
    clearInterval(this.#checks)
    this.#plain.destroy()
    this.#tls.destroy()
  }

  request(host: OtherHost, request: IncomingMessage, response: ServerResponse, refuse: Refuse): void {
    const upstream = this.#send(host, request)
    if (upstream === undefined) {
      refuse(unreachable(host), request, response)
      return
    }
    upstream.on('error', (cause) => {
      if (response.headersSent) response.destroy()
      else refuse(unreachable(host, cause), request, response)
    })
    upstream.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, [
        ...passedHeaders(answer.rawHeaders),
        ...[OWNER_HEADER, host.address],
      ])
      answer.on('error', () => response.destroy())
      // A body that ends in the middle must not look complete.
      answer.on('aborted', () => response.destroy())
      if (Number(answer.headers['content-length']) <= SMALL_BYTES) return sendWhole(answer, response)
      response.flushHeaders()
      answer.pipe(response)
    })
    upstream.on('information', ({ statusCode }) => {
      if (statusCode === 100) response.writeContinue()
    })
    this.#open.set(upstream, host)
    response.once('close', () => {
      this.#open.delete(upstream)
      upstream.destroy()
    })
    if (hasBody(request)) request.pipe(upstream)
    else {
      request.resume()
      upstream.end()
    }
  }

  upgrade(
    host: OtherHost,
    request: IncomingMessage,
    { socket, head }: { socket: Socket; head: Buffer },
  ): void {
    const { hostname, port, protocol } = new URL(host.address)
    const to = { host: hostname, port: Number(port) }
    const upstream =
      protocol === 'https:'
        ? connectTls({ ...to, ...serverNameOf(hostname), ...this.#door.trust })
        : connect(to)
    this.#open.set(upstream, host)
    const end = () => {
      this.#open.delete(upstream)
      socket.destroy()
      upstream.destroy()
    }
    for (const side of [socket, upstream]) side.on('error', end).on('close', end).setNoDelay(true)
    const lines = pairs(request.rawHeaders).map(([name, value]) => `${name}: ${value}`)
    const first = `${request.method} ${request.url} HTTP/1.1`
    upstream.write(
      `${[first, ...lines, `${HOP_HEADER}: ${this.#door.hostId}`].join('\r\n')}\r\n\r\n`,
      'latin1',
    )
    if (head.length > 0) upstream.write(head)
    upstream.pipe(socket)
    socket.pipe(upstream)
  }

  #endLost(): void {
    for (const [upstream, host] of this.#open)
      if (!this.#door.isAlive(host.id)) upstream.destroy(new Error('the host is lost'))
  }

  #send(host: OtherHost, { method, url, rawHeaders, headers }: IncomingMessage): ClientRequest | undefined {
    if (host.address === '') return undefined
    const { hostname, port, protocol } = new URL(host.address)
    const isChunked = headers['transfer-encoding'] !== undefined
    const options = {
      ...{ host: hostname, port, method, path: url, setHost: false, timeout: CONNECT_TIMEOUT_MS },
      headers: [
        ...passedHeaders(rawHeaders),
        ...(isChunked ? ['transfer-encoding', 'chunked'] : []),
        ...[HOP_HEADER, this.#door.hostId],
      ],
    }
    const opened =
      protocol === 'https:'
        ? tlsRequest({ ...options, agent: this.#tls })
        : plainRequest({ ...options, agent: this.#plain })
    // Only for the connection: an answer may take as long as a run.
    opened.once('socket', (socket) => {
      if (!socket.connecting) return opened.setTimeout(0)
      socket.once('connect', () => opened.setTimeout(0))
    })
    opened.once('timeout', () => opened.destroy(new Error('no connection in time')))
    return opened
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Header and body in one write: a small answer is complete when its header is here, or a moment later. */
function sendWhole(answer: IncomingMessage, response: ServerResponse): void {
  const pieces: Buffer[] = []
  answer.on('data', (piece: Buffer) => pieces.push(piece))
  answer.on('end', () => {
    if (answer.complete) response.end(Buffer.concat(pieces))
    else response.destroy()
  })
}

/** A certificate for an address has no name to ask for. */
function serverNameOf(hostname: string): { servername?: string } {
  return isIP(hostname) === 0 ? { servername: hostname } : {}
}

function pairs(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, index) => [
    raw[2 * index] ?? '',
    raw[2 * index + 1] ?? '',
  ])
}

function passedHeaders(raw: readonly string[]): string[] {
  return pairs(raw)
    .filter(([name]) => !NOT_PASSED.has(name.toLowerCase()))
    .flat()
}

export function unreachable({ id }: OtherHost, cause?: unknown): DormouseError {
  return new DormouseError('host_unavailable', `The sandbox is on host ${id}, which does not answer.`, {
    details: { host: id, retryAfterMs: 1_000 },
    cause,
  })
}
