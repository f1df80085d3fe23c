import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import type { EdgeSecret } from '../policy/egress-policy.ts'
import { CONCEALED_MIN_BYTES, concealing } from './conceal.ts'
import { namesInConnection, pairs } from './outgoing-head.ts'
import { unsubstitute } from './substitute.ts'

/** Passes a server's answer on as it comes. Pre: nothing of `response` was sent. */
export function answer(
  incoming: IncomingMessage,
  response: ServerResponse,
  secrets: readonly EdgeSecret[],
): void {
  try {
    response.sendDate = false
    response.writeHead(
      incoming.statusCode ?? 502,
      hider(secrets)(incoming.statusMessage ?? ''),
      answerHeaders(incoming, secrets),
    )
  } catch {
    // A status that Node does not write.
    incoming.destroy()
    response.destroy()
    return
  }
  incoming.once('end', () => addTrailers(response, incoming, hider(secrets)))
  const concealer = isReadable(incoming) ? concealing(secrets) : undefined
  const done = () => {}
  // A body that breaks off breaks off for the client, too: `pipeline` destroys both sides.
  if (concealer === undefined) pipeline(incoming, response, done)
  else pipeline(incoming, concealer, response, done)
}

export function answerHeaders(incoming: IncomingMessage, secrets: readonly EdgeSecret[]): string[] {
  const given = pairs(incoming.rawHeaders)
  const dropped = namesInConnection(given).add('transfer-encoding')
  // There is one connection outside for the one inside: what the server says about it is true of both.
  dropped.delete('keep-alive')
  return given
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flatMap((header) => header.map(hider(secrets)))
}

/** For everything of an answer that is not its body: with the placeholder where it repeats a secret. */
export function hider(secrets: readonly EdgeSecret[]): (text: string) => string {
  const hidden = secrets.filter(({ value }) => value.length >= CONCEALED_MIN_BYTES)
  return (text) => unsubstitute(text, hidden)
}

export function addTrailers(
  to: { addTrailers(headers: [string, string][]): void },
  from: Pick<IncomingMessage, 'rawTrailers'>,
  hide: (text: string) => string = (text) => text,
): void {
  const trailers = pairs(from.rawTrailers).map(([name, value]): [string, string] => [hide(name), hide(value)])
  if (trailers.length > 0) to.addTrailers(trailers)
}

/** What is compressed passes as it is. */
function isReadable({ headers }: IncomingMessage): boolean {
  const encoding = headers['content-encoding']
  return encoding === undefined || encoding.toLowerCase() === 'identity'
}
