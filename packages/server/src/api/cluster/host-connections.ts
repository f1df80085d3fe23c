import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as plainRequest,
  type ServerResponse,
} from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { AnswerHead } from '../preview/answer-reader.ts'
import { AnswerWriter } from '../preview/answer-writer.ts'
import { isRepeatable } from '../preview/forward-request.ts'
import { headerLines } from '../preview/forwarded-headers.ts'
import { connectHost, HostSockets } from './host-socket.ts'
import type { ClusterDoor, OtherHost } from './pass-on.ts'
import { isShort, readShort } from './short-request.ts'

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

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly refuse: Refuse
}

/**
 * Connections to the other hosts of the cluster, kept for the next request. Short requests go over sockets whose answers
 * this server reads itself, which takes half the time of Node's client. Other bodies pass through unbuffered.
 */
export class HostConnections {
  readonly #door: Pick<ClusterDoor, 'hostId' | 'isAlive' | 'trust'>
  readonly #sockets: HostSockets
  readonly #open = new Map<{ destroy: (error: Error) => unknown }, OtherHost>()
  readonly #checks: NodeJS.Timeout
  readonly #plain = new Agent({ keepAlive: true, maxFreeSockets: KEPT_MAX })
  readonly #tls: TlsAgent

  constructor(door: Pick<ClusterDoor, 'hostId' | 'isAlive' | 'trust'>) {
    this.#door = door
    this.#sockets = new HostSockets(door.trust)
    this.#tls = new TlsAgent({ keepAlive: true, maxFreeSockets: KEPT_MAX, ...door.trust })
    this.#checks = setInterval(() => this.#endLost(), CHECK_MS).unref()
  }

  close(): void {
    clearInterval(this.#checks)
    this.#sockets.close()
    this.#plain.destroy()
    this.#tls.destroy()
  }

  request(host: OtherHost, request: IncomingMessage, response: ServerResponse, refuse: Refuse): void {
    const asked = { request, response, refuse }
    if (host.address === '') refuse(unreachable(host), request, response)
    else if (!isShort(request)) this.#stream(host, asked)
    else if (hasBody(request))
      readShort(request).then(
        (body) => this.#passShort(host, asked, { body }),
        (error: unknown) => refuse(error, request, response),
      )
    else {
      request.resume()
      this.#passShort(host, asked)
    }
  }

  /** `isSecond`: the first try went over a kept connection that the other host had just closed. */
  #passShort(
    host: OtherHost,
    asked: Asked,
    { body, isSecond = false }: { body?: Buffer; isSecond?: boolean } = {},
  ): void {
    const { request, response, refuse } = asked
    const { method = 'GET', url = '/', rawHeaders } = request
    const socket = isSecond ? this.#sockets.connect(host.address) : this.#sockets.take(host.address)
    const writer = new AnswerWriter({ response, source: socket })
    const leave = () => {
      this.#open.delete(socket)
      socket.destroy()
    }
    const end = () => {
      this.#open.delete(socket)
      response.off('close', leave)
    }
    this.#open.set(socket, host)
    response.once('close', leave)
    const user = {
      onHead: (head: AnswerHead) =>
        writer.begin(head, [...passedHeaders(head.rawHeaders), OWNER_HEADER, host.address]),
      onBody: (piece: Buffer) => writer.write(piece),
      onFlush: () => writer.flush(),
      onEnd: () => {
        end()
        writer.end()
      },
      onFail: (cause: Error | undefined, mayRepeat: boolean) => {
        end()
        if (writer.hasStarted) writer.fail()
        else if (mayRepeat && isRepeatable(request, url)) this.#passShort(host, asked, { isSecond: true })
        else refuse(unreachable(host, cause), request, response)
      },
    }
    const headers = headerLines([...passedHeaders(rawHeaders), HOP_HEADER, this.#door.hostId])
    socket.send(`${method} ${url} HTTP/1.1\r\n${headers}\r\n`, body, { user, hasBody: method !== 'HEAD' })
  }

  #stream(host: OtherHost, { request, response, refuse }: Asked): void {
    const upstream = this.#send(host, request)
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
    const upstream = connectHost(host.address, this.#door.trust)
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

  #send(host: OtherHost, { method, url, rawHeaders, headers }: IncomingMessage): ClientRequest {
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
