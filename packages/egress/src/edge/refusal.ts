import type { ServerResponse } from 'node:http'

/** Why the edge answers itself. Each code has one status, so that programs can tell it from the server's errors. */
const REFUSALS = {
  bad_request: 400,
  secret_unusable: 403,
  method_not_allowed: 405,
  misdirected: 421,
  not_supported: 501,
  unverified: 502,
  unreachable: 502,
  encoded: 502,
} as const

export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: keyof typeof REFUSALS
  /** The host of a misdirected request. */
  readonly misdirectedTo: string | undefined

  /** The sandbox sees `message`. */
  constructor(code: keyof typeof REFUSALS, message: string, misdirectedTo?: string) {
    super(message)
    this.code = code
    this.misdirectedTo = misdirectedTo
  }
}

/** Pre: nothing of the response was sent. Closes the connection: requests behind a refused one are not read. */
export function refuse(response: ServerResponse, { code, message }: Refusal): void {
  const body = `${JSON.stringify({ error: { code, message, from: 'dormouse' } })}\n`
  response
    .writeHead(REFUSALS[code], {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    })
    .end(response.req.method === 'HEAD' ? undefined : body)
}
