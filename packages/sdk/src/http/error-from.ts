import type { ErrorAnswer } from '../contract/index.ts'
import { DormouseError } from '../error.ts'

/** From an answer with an error status, of the server or of a proxy in front of it. */
export async function errorFromResponse(response: Response): Promise<DormouseError> {
  const { status } = response
  const text = await response.text().catch(() => '')
  const answer = parseAnswer(text)
  const retryAfterMs = secondsToMs(response.headers.get('retry-after'))
  if (answer !== undefined) return errorFromAnswer(answer, { status, retryAfterMs })
  // A proxy that cannot reach the server sends its own page.
  const isGateway = status === 502 || status === 503 || status === 504
  return new DormouseError(
    isGateway ? 'server_unreachable' : 'internal',
    `The address answered with status ${status}, but not as a Dormouse server does: ${text.slice(0, 200)}`,
    {
      hint: 'Check the address, and any proxy between this program and the server.',
      status,
      requestId: response.headers.get('x-request-id') ?? undefined,
      retryAfterMs,
    },
  )
}

export function errorFromAnswer(
  { code, message, hint, requestId, docs, details }: ErrorAnswer['error'],
  { status, retryAfterMs }: { status?: number; retryAfterMs?: number | undefined } = {},
): DormouseError {
  const wait = details?.['retryAfterMs']
  return new DormouseError(code, message, {
    ...{ hint, requestId, docs, details, status },
    retryAfterMs: typeof wait === 'number' ? wait : retryAfterMs,
  })
}

const NOT_RUNNING =
  'Check that it runs (`dormouse up`) and that the address is right. If it is starting, try again in a moment.'
const UNTRUSTED =
  'It answers, but its certificate is not trusted here. Set NODE_EXTRA_CA_CERTS to the file of your own authority, ' +
  'and use the name that the certificate is for.'

/** `fetch` reports only that it failed; its `cause` has the reason. */
export function unreachable(url: string, cause: unknown): DormouseError {
  const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  const message = reason instanceof Error ? reason.message || reason.name : String(reason)
  return new DormouseError('server_unreachable', `The server at ${url} cannot be reached: ${message}`, {
    hint: /certificate/i.test(message) ? UNTRUSTED : NOT_RUNNING,
    cause,
  })
}

const NEVER_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])

/** No byte of the request can have arrived. */
export function wasNeverSent(error: DormouseError): boolean {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    if (NEVER_SENT.has(String((cause as { code?: unknown }).code))) return true
  }
  return false
}

function parseAnswer(text: string): ErrorAnswer['error'] | undefined {
  try {
    const { error } = JSON.parse(text) as Partial<ErrorAnswer>
    return typeof error?.code === 'string' && typeof error.message === 'string' ? error : undefined
  } catch {
    return undefined
  }
}

/** Ignores dates: the server sends none, and the clock of a proxy may be wrong. */
function secondsToMs(header: string | null): number | undefined {
  const seconds = Number(header ?? '')
  return header !== null && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined
}
