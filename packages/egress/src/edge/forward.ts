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

/** HTTP/2 and TLS: what follows could ask the same server for another host, and nothing here would read it. */
const NAMES_HOSTS_ITSELF = /\b(?:h2c?|http|tls)\b/i

/** A request with its body, and the answer to it, both as they come. */
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
  // The server may want to refuse the body before it is sent.
  outgoing.flushHeaders()
  request.pipe(outgoing, { end: false })
  request.once('end', () => {
    addTrailers(outgoing, request)
    outgoing.end()
  })
}

/** A request that wants the connection for something else: a WebSocket. `early` is what the client has sent behind it. */
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
    refuse(response, new Refusal('not_supported', `The protocol ${wanted} is not passed on.`))
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

/** The request to the server, with nothing of it sent. Undefined: it was refused. */
function startRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { to, agent }: ForwardTarget,
  more: readonly string[] = [],
): { outgoing: ClientRequest; head: OutgoingHead } | undefined {
  let isDecided = false
  const fail = (error: unknown) => {
    // Whoever still sends must be able to read why.
    request.unpipe()
    request.resume()
    // A server that has answered may hang up on what is still being sent; its answer ends as it ends.
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
    // One that came through a proxy was paused; from here on somebody reads it.
    outgoing.once('socket', (socket) => socket.resume())
    outgoing.once('response', () => {
      isDecided = true
    })
    // The client has gone, or the answer is complete: then this does nothing.
    response.once('close', () => outgoing.destroy())
    return { outgoing, head }
  } catch (error) {
    fail(error instanceof Refusal ? error : new Refusal('bad_request', 'The request cannot be passed on.'))
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
    refuse(response, new Refusal('not_supported', 'The server sends in a target that is not passed on.'))
    outgoing.destroy()
    return
  }
  // As the server does it: one that ends its connection behind this answer ends the client's, too.
  response.shouldKeepAlive &&= outgoing.shouldKeepAlive
  try {
    sendResponse(incoming, response, target.to.secrets)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refuse(response, error)
    outgoing.destroy()
  }
}

/** 102 and 103. Hints that Node does not write are left out: they are only hints. */
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
    // As said.
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
