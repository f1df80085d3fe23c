import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import { DISCARD_MAX_MS } from '../limits.ts'
import { ANSWER_HEADERS_MAX_BYTES } from './answer-reader.ts'
import {
  byName,
  headerLines,
  headersForClient,
  headersForSandbox,
  type PreviewTarget,
} from './forwarded-headers.ts'
import type { Relay } from './relay.ts'

/** What Node accepts as a reason in a status line. */
export const REASON = /^[\t\x20-\x7e\x80-\xff]*$/

export interface ProxyRequest extends PreviewTarget {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: string
  readonly relay: Relay
  /** For an upgrade request: the bytes after its head. */
  readonly head: Buffer | undefined
}

/**
 * Forwards a request and streams the response back, with back-pressure in both directions. Throws before the response
 * has started, or never.
 */
export async function proxyRequest(proxied: ProxyRequest): Promise<void> {
  const { request, target, relay, head } = proxied
  const { connection, hold } = relay
  const outgoing = httpRequest({
    createConnection: () => connection,
    method: request.method ?? 'GET',
    path: target,
    headers: {
      ...byName(headersForSandbox(request, proxied)),
      ...(head !== undefined && { connection: 'Upgrade', upgrade: request.headers.upgrade }),
    },
    maxHeaderSize: ANSWER_HEADERS_MAX_BYTES,
  })
  const answered = new Promise<void>((resolve, reject) => {
    outgoing.once('response', (answer) => {
      hold.mayIdle()
      relay.answered()
      try {
        forwardAnswer(answer, proxied)
      } catch (error) {
        reject(error)
      }
      resolve()
    })
    outgoing.once('upgrade', (answer, _connection, first: Buffer) => {
      hold.mayIdle()
      relay.answered()
      forwardUpgrade(answer, first, proxied)
      resolve()
    })
    outgoing.once('error', (cause) => reject(noAnswer(proxied.port, cause)))
    outgoing.once('close', () => reject(noAnswer(proxied.port, undefined)))
  })
  // Once the response has started, errors of the request change nothing.
  outgoing.on('error', () => {})
  const hasBody =
    request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
  if (hasBody && head === undefined) {
    request.on('data', () => hold.touch())
    request.pipe(outgoing)
    outgoing.once('close', () => {
      request.unpipe(outgoing)
      drainRequest(request)
    })
  } else outgoing.end()
  await answered
}

/**
 * Reads the rest of the body, because a client that is still sending would not see the answer. Disconnects it after a
 * while.
 */
export function drainRequest(request: IncomingMessage): void {
  if (request.complete) return
  request.resume()
  setTimeout(() => request.complete || request.socket.destroy(), DISCARD_MAX_MS).unref()
}

function forwardAnswer(answer: IncomingMessage, proxied: ProxyRequest): void {
  const { response, relay, head } = proxied
  const { statusCode = 502, statusMessage = '' } = answer
  response.writeHead(statusCode, REASON.test(statusMessage) ? statusMessage : '', {
    ...byName(headersForClient(answer.rawHeaders, proxied)),
    // After a refused upgrade the connection is not reused.
    ...(head !== undefined && { connection: 'close' }),
  })
  // For events and long polls: the client learns that it is connected before the first byte of the body.
  response.flushHeaders()
  answer.on('data', () => relay.hold.touch())
  answer.pipe(response)
  // A truncated response must not look complete.
  answer.once('error', () => response.destroy())
  answer.once('close', () => {
    if (!answer.complete) response.destroy()
  })
}

function forwardUpgrade(answer: IncomingMessage, first: Buffer, proxied: ProxyRequest): void {
  const { request, response, relay, head = Buffer.alloc(0) } = proxied
  const { connection, hold } = relay
  const socket = request.socket
  response.detachSocket(socket)
  const headers = [
    ...headersForClient(answer.rawHeaders, proxied),
    ...['connection', 'Upgrade', 'upgrade', answer.headers.upgrade ?? ''],
  ]
  socket.write(headText(answer, headers))
  socket.setTimeout(0)
  socket.write(first)
  connection.write(head)
  socket.on('data', () => hold.touch())
  connection.on('data', () => hold.touch())
  join(socket, connection)
}

/** Closes each side when the other one closes. */
function join(outside: Duplex, inside: Duplex): void {
  outside.pipe(inside)
  inside.pipe(outside)
  outside.once('error', () => inside.destroy())
  outside.once('close', () => inside.destroy())
  inside.once('error', () => {})
  inside.once('close', () => {
    // The sandbox sleeps, or the program ended: closes the client in order, after some time to read.
    outside.end()
    outside.resume()
    setTimeout(() => outside.destroy(), DISCARD_MAX_MS).unref()
  })
}

function headText({ statusMessage = '' }: IncomingMessage, headers: readonly string[]): string {
  return `HTTP/1.1 101 ${REASON.test(statusMessage) ? statusMessage : ''}\r\n${headerLines(headers)}\r\n`
}

export function noAnswer(port: number, cause: unknown): DormouseError {
  if (hasErrorCode(cause, 'agent_unreachable')) return endedBySave(port, cause)
  return new DormouseError(
    'port_closed',
    `The program on port ${port} closed the connection before it answered.`,
    {
      details: { port },
      cause,
    },
  )
}

/** The program may have received the request: only its client knows whether to send it again. */
export function endedBySave(port: number, cause?: unknown): DormouseError {
  return new DormouseError(
    'agent_unreachable',
    `The sandbox was saved before the program on port ${port} answered, and the connection ended with that.`,
    {
      hint: 'The program may have received the request. Send it again if that does no harm.',
      details: { port },
      cause,
    },
  )
}
