import type { KeyAnswer } from '@dormouse/contracts/http'

const HEAD = ['ID', 'NAME', 'SCOPES', 'LIMITS', 'CREATED', 'STATE']

export function formatKeys(keys: readonly KeyAnswer[]): string {
  const rows = [HEAD, ...keys.map(cells)]
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
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
