import type { IncomingMessage } from 'node:http'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Caller } from '../../access/caller.ts'
import { requireScope } from '../../access/require-scope.ts'
import type { Lease } from '../../deployments/live-service.ts'
import type { ServiceAddress } from '../../ports/preview-address.ts'
import type { Services } from '../services.ts'
import type { AuthorizedPreview } from './authorize-preview.ts'
import { keyIn } from './credentials.ts'

/** The server in the sandbox chooses it and returns it in its first answer. */
const MCP_SESSION = 'mcp-session-id'
/** The client chooses it. */
const OWN_SESSION = 'dormouse-session'
const SESSION_MAX_CHARACTERS = 1024
const SERVER: Caller = { keyId: 'server', isAdmin: true }

type ServiceServices = Pick<Services, 'access' | 'deployments'>

/**
 * Takes a replica for the request. Throws `unauthorized`, also for services that do not exist. With a key: the same
 * errors as every route.
 */
export async function authorizeService(
  { headers }: Pick<IncomingMessage, 'headers'>,
  { service, target }: ServiceAddress,
  { access, deployments }: ServiceServices,
  signal: AbortSignal,
): Promise<AuthorizedPreview> {
  const isPublic = deployments.isPublic(service)
  const own = sessionIn(headers, OWN_SESSION)
  const session = sessionIn(headers, MCP_SESSION) ?? own
  const given = keyIn(headers)
  if (given !== undefined) {
    const key = access.authenticate(given)
    access.checkRate(key)
    try {
      requireScope(key, 'run')
      const lease = await deployments.take(service, key, { session, signal })
      return authorized(lease, { target, own, keyId: key.keyId, revoked: key.revoked })
    } catch (error) {
      if (!isPublic || !(hasErrorCode(error, 'not_found') || hasErrorCode(error, 'scope_missing')))
        throw error
    }
  }
  if (!isPublic)
    throw new DormouseError('unauthorized', 'This service is private.', {
      hint: 'Send the request with a key, or make the service public: `dormouse service update NAME --public`.',
    })
  const lease = await deployments.take(service, SERVER, { session, signal })
  return authorized(lease, { target, own, keyId: undefined, revoked: undefined })
}

function authorized(
  lease: Lease,
  { own, ...request }: Pick<AuthorizedPreview, 'target' | 'keyId' | 'revoked'> & { own: string | undefined },
): AuthorizedPreview {
  if (own !== undefined) lease.pin(own)
  return {
    ...request,
    ...{ sandbox: lease.sandbox, port: lease.port, expiresAtMs: undefined, opened: undefined },
    release: () => lease.release(),
    untilListens: (signal) => lease.untilListens(signal),
    onHeaders: (headers) => {
      const begun = sessionIn(headers, MCP_SESSION)
      if (begun !== undefined) lease.pin(begun)
    },
  }
}

function sessionIn(headers: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' && value !== '' && value.length <= SESSION_MAX_CHARACTERS
    ? value
    : undefined
}
