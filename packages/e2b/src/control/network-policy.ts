import type { PolicyDefaults } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { NetworkBody } from './bodies.ts'

const EVERYTHING = new Set(['0.0.0.0/0', '::/0'])

/**
 * E2B lists what is denied and what is allowed nevertheless. Dormouse allows everything public, nothing, or a list. So
 * only denying everything can be translated.
 */
export function networkPolicy(
  { allowOut, denyOut, rules, egressProxy, allow_internet_access }: Partial<NetworkBody>,
  defaults: PolicyDefaults['network'],
): PolicyDefaults['network'] {
  if (rules != null && Object.keys(rules).length > 0)
    throw new ApiError(400, 'network.rules: requests are not rewritten here; use secrets of Dormouse instead')
  if (egressProxy != null) throw new ApiError(400, 'network.egressProxy: is not available here')
  const denied = denyOut ?? []
  const deniesAll = allow_internet_access === false || denied.some((range) => EVERYTHING.has(range))
  if (!deniesAll) {
    if (denied.length > 0)
      throw new ApiError(
        400,
        'network.denyOut: only "0.0.0.0/0" is available here; list what is allowed in allowOut',
      )
    return defaults
  }
  const allow = [...(allowOut ?? [])]
  return allow.length === 0 ? { mode: 'none', allow } : { mode: 'allow', allow }
}
