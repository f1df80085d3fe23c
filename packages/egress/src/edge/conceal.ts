import { Transform } from 'node:stream'
import type { EdgeSecret } from '../policy/egress-policy.ts'

/** Something shorter may stand in an answer by chance. */
export const CONCEALED_MIN_BYTES = 8
const ASTERISK = 0x2a

/**
 * A body in which every secret is asterisks: as many, so that lengths and ranges stay true. Only what could be the beginning of
 * a secret waits for the next piece; everything else goes on at once. Undefined: there is nothing to look for.
 */
export function concealing(secrets: readonly Pick<EdgeSecret, 'value'>[]): Transform | undefined {
  const values = secrets
    .map(({ value }) => Buffer.from(value, 'latin1'))
    .filter(({ length }) => length >= CONCEALED_MIN_BYTES)
  if (values.length === 0) return undefined
  let held: Buffer = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      for (const value of values) conceal(bytes, value)
      const keep = Math.max(...values.map((value) => beginningAtEnd(bytes, value)))
      held = bytes.subarray(bytes.length - keep)
      const ready = bytes.subarray(0, bytes.length - keep)
      if (ready.length === 0) done()
      else done(null, ready)
    },
    flush(done) {
      if (held.length === 0) done()
      else done(null, held)
    },
  })
}

function conceal(bytes: Buffer, value: Buffer): void {
  for (let at = bytes.indexOf(value); at !== -1; at = bytes.indexOf(value, at + value.length)) {
    bytes.fill(ASTERISK, at, at + value.length)
  }
}

/** How many of the last bytes are the beginning of `value`, at most. */
function beginningAtEnd(bytes: Buffer, value: Buffer): number {
  const first = value[0] ?? 0
  let at = Math.max(0, bytes.length - value.length + 1)
  for (at = bytes.indexOf(first, at); at !== -1; at = bytes.indexOf(first, at + 1)) {
    const length = bytes.length - at
    if (bytes.compare(value, 0, length, at) === 0) return length
  }
  return 0
}
