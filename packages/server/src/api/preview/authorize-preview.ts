import { DormouseError, hasErrorCode, isSandboxId, type SandboxId } from '@dormouse/contracts'
import { requireScope } from '../../access/require-scope.ts'
import type { PreviewAddress } from '../../ports/preview-address.ts'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import type { Services } from '../services.ts'
import { isSameOriginRequest, keyIn, takeToken, tokensInCookies } from './credentials.ts'
import type { PreviewTarget } from './forwarded-headers.ts'
import type { OpenedLink } from './opened-link.ts'
import type { PreviewRequest } from './preview-message.ts'

/** The caller for public ports and links: no key of a sandbox's owner is needed. */
const SERVER = { keyId: 'server', isAdmin: true }

export interface AuthorizedPreview {
  readonly sandbox: SandboxHandle
  readonly port: number
  /** The target without our token. */
  readonly target: string
  readonly keyId: string | undefined
  /** Aborted when the key is revoked; for a link, the key that created it. */
  readonly revoked: AbortSignal | undefined
  /** When the link expires. */
  readonly expiresAtMs: number | undefined
  /** A link that was just opened: the browser stores it as a cookie. */
  readonly opened: OpenedLink | undefined
  /** Call when the request has ended. */
  readonly release?: () => void
  /** Of a service: resolves when its program listens again. */
  readonly untilListens?: (signal: AbortSignal) => Promise<void>
  /** Call with the headers of the answer. */
  readonly onHeaders?: PreviewTarget['onHeaders']
}

type PreviewServices = Pick<Services, 'access' | 'sandboxes' | 'ports'>

/** Throws `unauthorized`, also for sandboxes that do not exist. With a key: the same errors as every route. */
export function authorizePreview(
  request: PreviewRequest,
  address: PreviewAddress,
  services: PreviewServices,
): AuthorizedPreview {
  const { access, sandboxes, ports } = services
  const { port, sandbox: ref } = address
  const { token, target } = takeToken(address.target)
  const sandboxId = isSandboxId(ref) ? ref : undefined
  const isPublic = () => sandboxId !== undefined && ports.isPublic(sandboxId, port)
  const given = keyIn(request.headers)
  if (given !== undefined) {
    const key = access.authenticate(given)
    access.checkRate(key)
    try {
      const sandbox = sandboxes.get(ref, key)
      requireScope(key, 'run')
      return authorized(sandbox, { port, target, keyId: key.keyId, revoked: key.revoked })
    } catch (error) {
      const mayBePublic = hasErrorCode(error, 'not_found') || hasErrorCode(error, 'scope_missing')
      if (!mayBePublic || !isPublic()) throw error
    }
  }
  const anonymous = { port, target, keyId: undefined, revoked: undefined }
  if (isPublic()) return authorized(sandboxes.get(ref, SERVER), anonymous)
  const linked = token === undefined ? undefined : openLink(token, address, services)
  if (token !== undefined && linked !== undefined)
    return {
      ...authorized(linked.sandbox, anonymous),
      ...linked,
      opened: { token, expiresAtMs: linked.expiresAtMs },
    }
  const cookies = isSameOriginRequest(request.method, request.headers) ? tokensInCookies(request.headers) : []
  for (const cookie of cookies) {
    const kept = openLink(cookie, address, services)
    if (kept !== undefined) return { ...authorized(kept.sandbox, anonymous), ...kept }
  }
  throw new DormouseError(
    'unauthorized',
    token === undefined ? 'This port is private.' : 'This link is for another port, or has expired.',
    {
      hint: 'Open it with a link from `POST …/ports/{port}/link`, or send `Authorization: Bearer <key>`.',
    },
  )
}

/** Without a link. Every request comes here, so it is written without spreads, which cost more than the checks. */
function authorized(
  sandbox: SandboxHandle,
  { port, target, keyId, revoked }: Pick<AuthorizedPreview, 'port' | 'target' | 'keyId' | 'revoked'>,
): AuthorizedPreview {
  return { sandbox, port, target, keyId, revoked, expiresAtMs: undefined, opened: undefined }
}

/** What a link opens; undefined when it does not open this address. */
function openLink(token: string, address: PreviewAddress, { sandboxes, ports }: PreviewServices) {
  const sandboxId = isSandboxId(address.sandbox) ? address.sandbox : idOfName(token, address)
  const link = sandboxId && ports.check(token, { sandboxId, port: address.port })
  return link && { ...link, sandbox: sandboxes.get(sandboxId, SERVER) }

  /**
   * The name belongs to the key that created the link. Not below a host name: two keys may have given one name, and
   * pages of both would share the cookies of that host.
   */
  function idOfName(token: string, { sandbox, prefix }: PreviewAddress): SandboxId | undefined {
    const keyId = ports.keyIn(token)
    if (keyId === undefined || prefix === undefined) return undefined
    try {
      return sandboxes.get(sandbox, { keyId, isAdmin: false }).id
    } catch (error) {
      if (hasErrorCode(error, 'not_found')) return undefined
      throw error
    }
  }
}
