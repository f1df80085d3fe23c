import { DormouseError } from '@dormouse/contracts'
import type { KeyCeilings } from './ceilings.ts'

/** What all sandboxes of one key may use together. Absent: not limited. */
export interface SummedQuotas {
  readonly sandboxes?: number | undefined
  /** Running sandboxes, without frozen ones. */
  readonly running?: number | undefined
  /** The sum of the memory limits of running sandboxes. */
  readonly memoryBytes?: number | undefined
  /** The size on disk of the key's snapshots, volumes and journals. */
  readonly diskBytes?: number | undefined
}

export type KeyQuotas = SummedQuotas & KeyCeilings

/** The same quantities: what is used, or what is requested on top. */
export type QuotaAmounts = { readonly [Name in keyof SummedQuotas]-?: number }

const QUOTAS: Readonly<Record<keyof SummedQuotas, { what: string; flag: string; isBytes: boolean }>> = {
  sandboxes: { what: 'sandboxes', flag: '--max-sandboxes', isBytes: false },
  running: { what: 'running sandboxes', flag: '--max-running', isBytes: false },
  memoryBytes: { what: 'of memory for running sandboxes', flag: '--max-memory', isBytes: true },
  diskBytes: { what: 'of disk', flag: '--max-disk', isBytes: true },
}
const NAMES = Object.keys(QUOTAS) as (keyof SummedQuotas)[]

/**
 * Throws `limit_reached` when `used` + `wanted` exceeds a quota. Checks only what is requested: a key over its disk
 * quota may still wake a sandbox.
 */
export function checkQuota(quotas: SummedQuotas, used: QuotaAmounts, wanted: Partial<QuotaAmounts>): void {
  for (const name of NAMES) {
    const limit = quotas[name]
    const more = wanted[name] ?? 0
    if (limit === undefined || more <= 0 || used[name] + more <= limit) continue
    const { what, flag, isBytes } = QUOTAS[name]
    const show = isBytes ? showBytes : String
    throw new DormouseError(
      'limit_reached',
      `This key may have ${show(limit)} ${what}; ${show(used[name])} are in use and the request asks for ${show(more)} more`,
      {
        hint: `End or delete something, or raise the quota "${name}" of the key: \`dormouse key update ID ${flag} N\`.`,
        details: { quota: name, limit, used: used[name], wanted: more },
      },
    )
  }
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

export function showBytes(bytes: number): string {
  let amount = bytes
  let unit = 0
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024
    unit++
  }
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${UNITS[unit]}`
}
