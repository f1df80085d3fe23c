import type { KeyAnswer } from '@dormouse/contracts/http'
import { formatTable } from '../format/table.ts'

const HEAD = ['ID', 'NAME', 'SCOPES', 'LIMITS', 'CREATED', 'STATE']

export function formatKeys(keys: readonly KeyAnswer[]): string {
  return formatTable([HEAD, ...keys.map(cells)])
}

function cells({ id, name, scopes, createdAt, revokedAt, ...key }: KeyAnswer): string[] {
  const state = revokedAt === undefined ? 'active' : `revoked ${revokedAt}`
  return [id, name, scopes.join(','), limits(key), createdAt, state]
}

function limits({ quotas, rateLimit }: Pick<KeyAnswer, 'quotas' | 'rateLimit'>): string {
  const parts = Object.entries(quotas)
    .filter(([, value]) => value !== undefined)
    .map(([quota, value]) => `${quota}=${value}`)
  if (rateLimit !== undefined) parts.push(`rate=${rateLimit.perSecond}/s,burst=${rateLimit.burst}`)
  return parts.join(' ') || '-'
}
