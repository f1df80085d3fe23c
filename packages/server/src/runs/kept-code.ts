import { KEPT_CODE_MAX_BYTES } from '@dormouse/contracts'

/** What the journal keeps of the code of a run. */
export interface KeptCode {
  readonly code: string
  readonly isCut: boolean
  readonly bytes: number
}

/** The beginning of the code, at most `KEPT_CODE_MAX_BYTES` of UTF-8. Never cuts a character in half. */
export function keptCode(code: string): KeptCode {
  // No character takes less than a byte, so the rest cannot matter: code may have megabytes.
  const bytes = Buffer.from(code.slice(0, KEPT_CODE_MAX_BYTES + 1))
  if (bytes.length <= KEPT_CODE_MAX_BYTES) return { code, isCut: false, bytes: bytes.length }
  let end = KEPT_CODE_MAX_BYTES
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return { code: bytes.toString('utf8', 0, end), isCut: true, bytes: end }
}
