import { Transform } from 'node:stream'
import type { EdgeSecret } from '../policy/egress-policy.ts'
import { encodedForms } from './encoded-forms.ts'
import { CONCEALED_MIN_BYTES } from './limits.ts'
import { unsubstitute } from './substitute.ts'

const ASTERISK = 0x2a
/**
 * In an upgraded connection a message may end with the beginning of a value. The client must not wait for the next
 * message to see it.
 */
const HELD_MAX_MS = 200

type Values = readonly Pick<EdgeSecret, 'value'>[]

/**
 * Replaces every form of every secret in a body by asterisks of the same length, so that lengths and ranges stay true.
 * Holds back only bytes that may be the beginning of a secret. Returns undefined when there is nothing to look for.
 */
export function bodyConcealer(secrets: Values): Transform | undefined {
  return concealAll(
    secrets.flatMap(({ value }) => encodedForms(value)),
    undefined,
  )
}

/** For upgraded connections: replaces plain values only, and holds bytes back only briefly. */
export function upgradeConcealer(secrets: Values): Transform | undefined {
  return concealAll(
    secrets.map(({ value }) => value),
    HELD_MAX_MS,
  )
}

/**
 * For everything in a response but its body: replaces values by their placeholders, and other forms of them by
 * asterisks.
 */
export function textConcealer(secrets: readonly EdgeSecret[]): (text: string) => string {
  const hidden = secrets.filter(({ value }) => value.length >= CONCEALED_MIN_BYTES)
  const forms = hidden.flatMap(({ value }) => encodedForms(value))
  return (text) =>
    forms.reduce(
      (shown, form) => shown.replaceAll(form, () => '*'.repeat(form.length)),
      unsubstitute(text, hidden),
    )
}

function concealAll(texts: readonly string[], heldMaxMs: number | undefined): Transform | undefined {
  const values = texts
    .filter(({ length }) => length >= CONCEALED_MIN_BYTES)
    .map((text) => Buffer.from(text, 'latin1'))
  if (values.length === 0) return undefined
  let held: Buffer = Buffer.alloc(0)
  let timer: NodeJS.Timeout | undefined
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      clearTimeout(timer)
      const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      for (const value of values) conceal(bytes, value)
      const keep = Math.max(...values.map((value) => beginningAtEnd(bytes, value)))
      held = bytes.subarray(bytes.length - keep)
      const ready = bytes.subarray(0, bytes.length - keep)
      if (keep > 0 && heldMaxMs !== undefined) timer = setTimeout(release, heldMaxMs)
      if (ready.length === 0) done()
      else done(null, ready)
    },
    flush(done) {
      clearTimeout(timer)
      if (held.length === 0) done()
      else done(null, held)
    },
    destroy(error, done) {
      clearTimeout(timer)
      done(error)
    },
  })
  const release = () => {
    stream.push(held)
    held = Buffer.alloc(0)
  }
  return stream
}

function conceal(bytes: Buffer, value: Buffer): void {
  for (let at = bytes.indexOf(value); at !== -1; at = bytes.indexOf(value, at + value.length)) {
    bytes.fill(ASTERISK, at, at + value.length)
  }
}

/** How many bytes at the end could be the beginning of `value`. */
function beginningAtEnd(bytes: Buffer, value: Buffer): number {
  const first = value[0] ?? 0
  let at = Math.max(0, bytes.length - value.length + 1)
  for (at = bytes.indexOf(first, at); at !== -1; at = bytes.indexOf(first, at + 1)) {
    const length = bytes.length - at
    if (bytes.compare(value, 0, length, at) === 0) return length
  }
  return 0
}
