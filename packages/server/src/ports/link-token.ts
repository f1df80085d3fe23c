import { createHmac, timingSafeEqual } from 'node:crypto'

/** What a link grants. All of it is signed; the token holds only what the URL does not. */
export interface LinkClaim {
  readonly sandboxId: string
  readonly port: number
  readonly keyId: string
  readonly expiresAtMs: number
}

const TOKEN = /^(?<expires>[0-9a-z]{1,11})\.(?<keyId>[2-9a-km-np-z]{12})\.(?<mac>[A-Za-z0-9_-]{43})$/

/** `<expiry, base 36>.<key id>.<HMAC-SHA256>`: needs no escaping in URLs and cookies. */
export function signLink(secret: Uint8Array, claim: LinkClaim): string {
  return `${claim.expiresAtMs.toString(36)}.${claim.keyId}.${macOf(secret, claim).toString('base64url')}`
}

/** Returns undefined when the token is not signed by this server, is for another port, or has expired. */
export function readLink(
  secret: Uint8Array,
  token: string,
  { sandboxId, port, nowMs }: { sandboxId: string; port: number; nowMs: number },
): LinkClaim | undefined {
  const { expires, keyId, mac } = TOKEN.exec(token)?.groups ?? {}
  if (expires === undefined || keyId === undefined || mac === undefined) return undefined
  const claim = { sandboxId, port, keyId, expiresAtMs: Number.parseInt(expires, 36) }
  if (!timingSafeEqual(macOf(secret, claim), Buffer.from(mac, 'base64url'))) return undefined
  return nowMs < claim.expiresAtMs ? claim : undefined
}

/** What the token says, whether or not it is signed by this server. */
export function keyOfLink(token: string): string | undefined {
  return TOKEN.exec(token)?.groups?.['keyId']
}

function macOf(secret: Uint8Array, { sandboxId, port, keyId, expiresAtMs }: LinkClaim): Buffer {
  return createHmac('sha256', secret)
    .update(`port-link\n${sandboxId}\n${port}\n${keyId}\n${expiresAtMs}`)
    .digest()
}
