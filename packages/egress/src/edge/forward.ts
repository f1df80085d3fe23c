import {
  type Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type InformationEvent,
  ServerResponse,
} from 'node:http'
import { type Duplex, pipeline } from 'node:stream'
import type { InterceptedDestination } from '../gate/interceptor.ts'
import { textConcealer, upgradeConcealer } from './conceal.ts'
import { HEAD_MAX_BYTES } from './limits.ts'
import { type OutgoingHead, outgoingHead } from './outgoing-head.ts'
import { Refusal, refuse } from './refusal.ts'
import { addTrailers, responseHeaders, sendResponse } from './send-response.ts'

export interface ForwardTarget {
  readonly to: InterceptedDestination
  readonly agent: Agent
}

/** HTTP/2 and TLS could ask the same server for another host, and nothing here would read that. */
const NAMES_HOSTS_ITSELF = /\b(?:h2c?|http|tls)\b/i

/** Streams a request to the server and the response back. */
export function forward(request: IncomingMessage, response: ServerResponse, target: ForwardTarget): void {
  const begun = startRequest(request, response, target)
  if (begun === undefined) return
  const { outgoing, head } = begun
  outgoing.once('continue', () => {
    if (!response.headersSent) response.writeContinue()
  })
  outgoing.on('information', (information) => forwardInformation(information, response, target))
  outgoing.once('response', (incoming) => handleResponse({ incoming, outgoing, response, target }))
  if (!head.hasBody) {
    outgoing.end()
    return
  }
  // The server may refuse before it gets the body.
  outgoing.flushHeaders()
  request.pipe(outgoing, { end: false })
  request.once('end', () => {
    addTrailers(outgoing, request)
    outgoing.end()
  })
}

/** Forwards a request for another protocol, such as a WebSocket. `early` is what the client sent after its head. */
export function forwardUpgrade(
  request: IncomingMessage,
  client: Duplex,
  early: Buffer,
  target: ForwardTarget,
): void {
  const response = new ServerResponse(request)
  response.assignSocket(client as Parameters<ServerResponse['assignSocket']>[0])
  response.shouldKeepAlive = false
  response.once('finish', () => client.end())
  client.on('error', () => client.destroy())
  const { upgrade: wanted = '' } = request.headers
  if (NAMES_HOSTS_ITSELF.test(wanted)) {
    refuse(response, new Refusal('not_supported', `The protocol ${wanted} is not supported.`))
    return
  }
  const upgrade = ['Connection', 'Upgrade', 'Upgrade', wanted]
  const begun = startRequest(request, response, target, upgrade)
  if (begun === undefined) return
  const { outgoing, head } = begun
  outgoing.once('response', (incoming) => handleResponse({ incoming, outgoing, response, target }))
  outgoing.once('upgrade', (incoming, server, serverEarly) => {
    response.detachSocket(client as Parameters<ServerResponse['detachSocket']>[0])
    client.write(upgradeResponseHead(incoming, target), 'latin1')
    if (serverEarly.length > 0) server.unshift(serverEarly)
    if (early.length > 0) server.write(early)
    const concealer = upgradeConcealer(target.to.secrets)
    pipeline([server, ...(concealer === undefined ? [] : [concealer]), client, server], () => {
      server.destroy()
      client.destroy()
    })
  })
  if (!head.hasBody) outgoing.end()
  else outgoing.destroy(new Refusal('bad_request', 'A request for another protocol must have no body.'))
}

/** Creates the request to the server without sending it. Returns undefined when it was refused. */
function startRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { to, agent }: ForwardTarget,
  more: readonly string[] = [],
): { outgoing: ClientRequest; head: OutgoingHead } | undefined {
  let isDecided = false
  const fail = (error: unknown) => {
    // A client that is still sending must be able to read the reason.
    request.unpipe()
    request.resume()
    // A server that responded may close the connection while the client is still sending.
    if (isDecided) return
    isDecided = true
    if (error instanceof Refusal && error.misdirectedTo !== undefined) to.onMisdirected?.(error.misdirectedTo)
    if (error instanceof Refusal) refuse(response, error)
    else response.destroy()
  }
  try {
    const head = outgoingHead(request, to)
    const { method, path } = head
    const headers = [...head.headers, ...more]
    const outgoing = httpRequest({
      ...{ agent, method, path, headers, host: to.name, port: to.port },
      ...{ maxHeaderSize: HEAD_MAX_BYTES, insecureHTTPParser: false },
    })
    outgoing.on('error', fail)
    // A connection through a proxy arrives paused.
    outgoing.once('socket', (socket) => {
      socket.resume()
      if (to.onServerBytes === undefined) return
      // The socket may have served an earlier request.
      socket.off('data', to.onServerBytes)
      socket.on('data', to.onServerBytes)
    })
    outgoing.once('response', () => {
      isDecided = true
    })
    // The client disconnected, or has the whole response: then this does nothing.
    response.once('close', () => outgoing.destroy())
    return { outgoing, head }
  } catch (error) {
    fail(error instanceof Refusal ? error : new Refusal('bad_request', 'The request cannot be forwarded.'))
    return undefined
  }
}

function handleResponse(parts: {
  incoming: IncomingMessage
  outgoing: ClientRequest
  response: ServerResponse
  target: ForwardTarget
}): void {
  const { incoming, outgoing, response, target } = parts
  const encoding = incoming.headers['transfer-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked') {
    refuse(
      response,
      new Refusal('not_supported', 'The server uses a Transfer-Encoding that is not supported.'),
    )
    outgoing.destroy()
    return
  }
  // Closes the client's connection when the server closes its own after this response.
  response.shouldKeepAlive &&= outgoing.shouldKeepAlive
  try {
    sendResponse(incoming, response, target.to.secrets)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refuse(response, error)
    outgoing.destroy()
  }
}

/** Forwards 102 and 103. Hints that Node refuses to write are dropped. */
function forwardInformation(
  { statusCode, headers }: InformationEvent,
  response: ServerResponse,
  { to }: ForwardTarget,
): void {
  if (response.headersSent) return
  try {
    if (statusCode === 102) response.writeProcessing()
    const { link } = headers
    if (statusCode === 103 && link !== undefined)
      response.writeEarlyHints({ link: textConcealer(to.secrets)(String(link)).split(/, (?=<)/) })
  } catch {
    // Dropped, see above.
  }
}

function upgradeResponseHead(incoming: IncomingMessage, { to }: ForwardTarget): string {
  const headers = responseHeaders(incoming, to.secrets)
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? `${name}: ${headers[index + 1]}` : []))
  const { upgrade = '' } = incoming.headers
  const hide = textConcealer(to.secrets)
  return [
    `HTTP/1.1 101 ${hide(incoming.statusMessage ?? '')}`,
    ...lines.filter((line) => !/^upgrade:/i.test(line)),
    `Connection: Upgrade`,
    `Upgrade: ${hide(upgrade)}`,
    '\r\n',
  ].join('\r\n')
}
