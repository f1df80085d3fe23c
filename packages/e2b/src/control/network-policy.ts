import { allowRuleProblem, denyRuleProblem } from '@dormouse/contracts'
import type { PolicyDefaults } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { NetworkBody } from './bodies.ts'

const EVERYTHING = new Set(['0.0.0.0/0', '::/0'])

/** E2B lists what is denied and what is allowed nevertheless. */
export function networkPolicy(
  { allowOut, denyOut, rules, egressProxy, allow_internet_access }: Partial<NetworkBody>,
  defaults: PolicyDefaults['network'],
): PolicyDefaults['network'] {
  if (rules != null && Object.keys(rules).length > 0)
    throw new ApiError(400, 'network.rules: requests are not rewritten here; use secrets of Dormouse instead')
  if (egressProxy != null) throw new ApiError(400, 'network.egressProxy: is not available here')
  const denied = denyOut ?? []
  const deniesAll = allow_internet_access === false || denied.some((range) => EVERYTHING.has(range))
  const allow = [...(allowOut ?? [])]
  if (!deniesAll) {
    if (denied.length === 0) return defaults
    return { mode: 'public', allow: allow.map(checkedAllow), deny: denied.map(checkedDeny) }
  }
  for (const rule of allow) checkedAllow(rule)
  return allow.length === 0 ? { mode: 'none', allow } : { mode: 'allow', allow }
}

function checkedAllow(rule: string): string {
  const problem = allowRuleProblem(rule)
  if (problem !== undefined) throw new ApiError(400, `network.allowOut: "${rule.slice(0, 100)}" ${problem}`)
  return rule
}

function checkedDeny(rule: string): string {
  const problem = denyRuleProblem(rule)
  if (problem !== undefined) throw new ApiError(400, `network.denyOut: "${rule.slice(0, 100)}" ${problem}`)
  return rule
}
