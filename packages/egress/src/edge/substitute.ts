import type { EdgeSecret } from '../policy/egress-policy.ts'

type Values = readonly Pick<EdgeSecret, 'placeholder' | 'value'>[]

/** `user:password` in base64 (RFC 7617). */
const BASIC = /^(?<scheme>basic +)(?<credentials>[A-Za-z0-9+/_-]+={0,2})$/i

/** Puts secrets in place of their placeholders anywhere in the value of a header. */
export function substitute(header: { name: string; value: string }, secrets: Values): string {
  const plain = putValues(header.value, secrets)
  const name = header.name.toLowerCase()
  if (name !== 'authorization' && name !== 'proxy-authorization') return plain
  const { scheme, credentials } = BASIC.exec(plain)?.groups ?? {}
  if (scheme === undefined || credentials === undefined) return plain
  // Latin-1 keeps every byte, whatever the encoding of the password.
  const decoded = Buffer.from(credentials, 'base64').toString('latin1')
  const replaced = putValues(decoded, secrets)
  return replaced === decoded ? plain : scheme + Buffer.from(replaced, 'latin1').toString('base64')
}

/** The reverse: replaces secrets that a server echoes by their placeholders. */
export function unsubstitute(value: string, secrets: Values): string {
  return secrets.reduce((text, secret) => text.replaceAll(secret.value, () => secret.placeholder), value)
}

function putValues(text: string, secrets: Values): string {
  // In one pass: a value that contains another placeholder stays as it is.
  const found = secrets.filter(({ placeholder }) => text.includes(placeholder))
  if (found.length === 0) return text
  const values = new Map(found.map(({ placeholder, value }) => [placeholder, value]))
  const anyOf = new RegExp([...values.keys()].map((key) => key.replace(/[^\w]/g, '\\$&')).join('|'), 'g')
  return text.replace(anyOf, (placeholder) => values.get(placeholder) ?? placeholder)
}
