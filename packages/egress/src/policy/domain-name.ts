import { domainToASCII } from 'node:url'

const NAME_MAX_CHARACTERS = 253
/** Host names have no underscores by standard, but service names and some hosts do. */
const LABELS = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/

/** Returns the one spelling of a name: lower case, no trailing dot. Undefined when it is not a name, or not ASCII. */
export function normalizeName(text: string): string | undefined {
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  // Checked before lower-casing, which turns characters such as the Kelvin sign into ASCII.
  if (!/^[\x21-\x7e]+$/.test(name)) return undefined
  const lower = name.toLowerCase()
  return lower.length <= NAME_MAX_CHARACTERS && LABELS.test(lower) ? lower : undefined
}

/** Accepts names as people write them: `*.Bücher.example` becomes `*.xn--bcher-kva.example`. */
export function normalizePattern(text: string): string | undefined {
  const wildcard = text.startsWith('*.')
  const ascii = domainToASCII(wildcard ? text.slice(2) : text)
  const name = normalizeName(ascii)
  if (name === undefined) return undefined
  return wildcard ? `*.${name}` : name
}

/** `*.example.com` covers every name below example.com, but not example.com. Pre: both are normalized. */
export function covers(pattern: string, name: string): boolean {
  return pattern.startsWith('*.')
    ? name.length > pattern.length - 1 && name.endsWith(pattern.slice(1))
    : name === pattern
}
