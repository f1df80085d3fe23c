import type { ServerResponse } from 'node:http'

/** Why the edge answers by itself. Each is one status and one code, so that a program can tell them from what servers say. */
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
  /** Whom a request was for that came over a connection for somebody else. */
  readonly misdirectedTo: string | undefined

  /** `message` is read inside of the sandbox. */
  constructor(code: keyof typeof REFUSALS, message: string, misdirectedTo?: string) {
    super(message)
    this.code = code
    this.misdirectedTo = misdirectedTo
  }
}

/** Pre: nothing of the answer was sent. The connection ends with it: what follows a refused request is not looked at. */
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
