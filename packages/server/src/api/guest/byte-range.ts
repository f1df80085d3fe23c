import { DormouseError } from '@dormouse/contracts'

/** A parsed `Range` header: from a position on, or the last bytes. */
export type RangeRequest = { readonly first: number; readonly last?: number } | { readonly lastBytes: number }

export interface ByteRange {
  readonly offset: number
  readonly length: number
}

/**
 * Returns undefined for headers that may be ignored: other units, several ranges, and malformed ones (RFC 9110, 14.2).
 */
export function parseRange(header: string | undefined): RangeRequest | undefined {
  const match = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? '')
  if (match === null) return undefined
  const [, first = '', last = ''] = match
  if (first === '') return last === '' ? undefined : { lastBytes: Number(last) }
  if (last === '') return { first: Number(first) }
  return Number(last) < Number(first) ? undefined : { first: Number(first), last: Number(last) }
}

/** Throws `range_not_satisfiable` when the range is outside the file. */
export function resolveRange(range: RangeRequest, sizeBytes: number): ByteRange {
  if ('lastBytes' in range) {
    const length = Math.min(range.lastBytes, sizeBytes)
    if (length === 0) throw unsatisfiable(sizeBytes)
    return { offset: sizeBytes - length, length }
  }
  if (range.first >= sizeBytes) throw unsatisfiable(sizeBytes)
  const end = Math.min((range.last ?? sizeBytes - 1) + 1, sizeBytes)
  return { offset: range.first, length: end - range.first }
}

function unsatisfiable(sizeBytes: number): DormouseError {
  return new DormouseError(
    'range_not_satisfiable',
    `the file has ${sizeBytes} bytes, none of them in that range`,
    {
      details: { sizeBytes },
    },
  )
}
