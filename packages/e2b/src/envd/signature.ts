import { createHash, timingSafeEqual } from 'node:crypto'
import { ApiError } from '../http/api-error.ts'

export interface SignedRequest {
  readonly operation: 'read' | 'write'
  readonly query: URLSearchParams
  /** The value of the header `X-Access-Token`. */
  readonly given: string | undefined
}

/** Accepts the access token of the sandbox, or a signature that was made with it. Throws `ApiError` 401. */
export function checkFileAccess(token: string | undefined, { operation, query, given }: SignedRequest): void {
  if (token === undefined) return
  if (given !== undefined && given !== '') {
    if (isSame(given, token)) return
    throw new ApiError(401, 'access token present in header but does not match')
  }
  const signature = query.get('signature')
  if (signature === null) throw new ApiError(401, 'missing signature query parameter')
  const expiration = query.get('signature_expiration')
  const parts = [query.get('path') ?? '', operation, query.get('username') ?? '', token]
  if (expiration !== null) parts.push(expiration)
  const digest = createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')
  if (!isSame(signature, `v1_${digest}`)) throw new ApiError(401, 'invalid signature')
  if (expiration !== null && Number(expiration) < Date.now() / 1000)
    throw new ApiError(401, 'signature is already expired')
}

/** Takes the same time wherever two texts of one length differ. */
export function isSame(left: string, right: string): boolean {
  const [one, other] = [Buffer.from(left), Buffer.from(right)]
  return one.length === other.length && timingSafeEqual(one, other)
}
