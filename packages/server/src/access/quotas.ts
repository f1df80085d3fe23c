import { DormouseError } from '@dormouse/contracts'
import type { KeyCeilings } from './ceilings.ts'

/** How much one key may have at once. Absent: not limited. */
export interface SummedQuotas {
  readonly sandboxes?: number | undefined
  /** Running at the same time, frozen ones not counted. */
  readonly running?: number | undefined
  /** The memory limits of the running sandboxes, summed. */
  readonly memoryBytes?: number | undefined
  /** What the snapshots and volumes of the key, and the journals of its sandboxes, have on disk. */
  readonly diskBytes?: number | undefined
}

export type KeyQuotas = SummedQuotas & KeyCeilings

/** The same quantities: what is there, or what is asked for on top. */
export type QuotaAmounts = { readonly [Name in keyof SummedQuotas]-?: number }

const QUOTAS: Readonly<Record<keyof SummedQuotas, { what: string; flag: string; isBytes: boolean }>> = {
  sandboxes: { what: 'sandboxes', flag: '--max-sandboxes', isBytes: false },
  running: { what: 'running sandboxes', flag: '--max-running', isBytes: false },
  memoryBytes: { what: 'of memory for running sandboxes', flag: '--max-memory', isBytes: true },
  diskBytes: { what: 'of disk', flag: '--max-disk', isBytes: true },
}
const NAMES = Object.keys(QUOTAS) as (keyof SummedQuotas)[]

/**
 * Throws `limit_reached` when `used` + `wanted` would pass a quota. What is not asked for is not checked: a key over its disk
 * quota may still resume a sandbox.
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
      `This key may have ${show(limit)} ${what}; ${show(used[name])} are in use and ${show(more)} more were asked for`,
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
