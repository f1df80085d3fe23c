import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import type { EdgeSecret } from '../policy/egress-policy.ts'
import { bodyDecoder } from './body-decoder.ts'
import { bodyConcealer, textConcealer } from './conceal.ts'
import { connectionHeaderNames, headerPairs } from './outgoing-head.ts'

/** Streams a server's response to the client. Pre: nothing of `response` was sent. Throws a Refusal. */
export function sendResponse(
  incoming: IncomingMessage,
  response: ServerResponse,
  secrets: readonly EdgeSecret[],
): void {
  const concealer = bodyConcealer(secrets)
  const decoder = concealer === undefined ? undefined : bodyDecoder(incoming, response.req.method ?? '')
  const changed = decoder === undefined ? [] : ['content-encoding', 'content-length']
  try {
    response.sendDate = false
    response.writeHead(
      incoming.statusCode ?? 502,
      textConcealer(secrets)(incoming.statusMessage ?? ''),
      responseHeaders(incoming, secrets, changed),
    )
  } catch {
    // Node refuses to write this status line.
    incoming.destroy()
    response.destroy()
    return
  }
  incoming.once('end', () => addTrailers(response, incoming, textConcealer(secrets)))
  const steps = [decoder, concealer].filter((step) => step !== undefined)
  // `pipeline` destroys both sides: a body that breaks off upstream breaks off for the client too.
  pipeline([incoming, ...steps, response], () => {})
}

export function responseHeaders(
  incoming: IncomingMessage,
  secrets: readonly EdgeSecret[],
  changed: readonly string[] = [],
): string[] {
  const given = headerPairs(incoming.rawHeaders)
  const dropped = connectionHeaderNames(given).add('transfer-encoding')
  // There is one server connection for each client connection, so what the server says about keep-alive holds for both.
  dropped.delete('keep-alive')
  for (const name of changed) dropped.add(name)
  const hide = textConcealer(secrets)
  return given.filter(([name]) => !dropped.has(name.toLowerCase())).flatMap((header) => header.map(hide))
}

export function addTrailers(
  to: { addTrailers(headers: [string, string][]): void },
  from: Pick<IncomingMessage, 'rawTrailers'>,
  hide: (text: string) => string = (text) => text,
): void {
  const trailers = headerPairs(from.rawTrailers).map(([name, value]): [string, string] => [
    hide(name),
    hide(value),
  ])
  if (trailers.length > 0) to.addTrailers(trailers)
}
