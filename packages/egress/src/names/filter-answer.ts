import { ANSWER_RECORDS_MAX } from '../limits.ts'
import { canonicalAddress } from '../policy/address.ts'
import { normalizeName } from '../policy/domain-name.ts'
import type { Verdict } from '../policy/verdict.ts'
import type { DnsRecord } from './packet.ts'

export interface FilteredAnswer {
  readonly records: readonly DnsRecord[]
  readonly addresses: readonly { readonly address: string; readonly ttlSeconds: number }[]
  readonly refused: readonly { readonly address: string; readonly reason: string }[]
}

export interface AnswerFilter {
  readonly name: string
  readonly type: string
  readonly ttlSeconds: number
  readonly judge: (address: string) => Verdict
  readonly isRoutable: (address: string) => boolean
}

/** A longer chain of CNAMEs is an error or an attack. */
const CHAIN_MAX = 16

/**
 * Keeps the records of the requested type that belong to the name or to one of its CNAMEs, in their order, without
 * addresses that the policy forbids. Programs then never try a forbidden address.
 */
export function filterAnswer(records: readonly DnsRecord[], filter: AnswerFilter): FilteredAnswer {
  const owners = chainOf(records, filter.name)
  const kept: DnsRecord[] = []
  const addresses: { address: string; ttlSeconds: number }[] = []
  const refused: { address: string; reason: string }[] = []
  for (const record of records.slice(0, ANSWER_RECORDS_MAX)) {
    if (!owners.has(normalizeName(record.name) ?? '')) continue
    const told = { ...record, ttl: filter.ttlSeconds } as DnsRecord
    if (record.type === 'CNAME') {
      if (normalizeName(record.data) !== undefined) kept.push(told)
    } else if (record.type === filter.type && (record.type === 'A' || record.type === 'AAAA')) {
      const address = canonicalAddress(record.data)
      if (address === undefined) continue
      const verdict = filter.judge(address)
      if (!verdict.allowed) refused.push({ address, reason: verdict.reason })
      else if (filter.isRoutable(address)) {
        kept.push(told)
        addresses.push({ address, ttlSeconds: filter.ttlSeconds })
      }
    } else if (record.type === filter.type) {
      kept.push(told)
    }
  }
  // If all addresses are withheld, the CNAMEs on the way to them are withheld too.
  return { records: refused.length > 0 && addresses.length === 0 ? [] : kept, addresses, refused }
}

/** The name and the targets of its CNAMEs, as far as this answer has them. */
function chainOf(records: readonly DnsRecord[], name: string): Set<string> {
  const next = new Map<string, string>()
  for (const record of records) {
    if (record.type !== 'CNAME') continue
    const [owner, target] = [normalizeName(record.name), normalizeName(record.data)]
    if (owner !== undefined && target !== undefined && !next.has(owner)) next.set(owner, target)
  }
  const chain = new Set([name])
  let at = next.get(name)
  while (at !== undefined && !chain.has(at) && chain.size < CHAIN_MAX) {
    chain.add(at)
    at = next.get(at)
  }
  return chain
}
