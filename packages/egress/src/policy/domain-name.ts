import { domainToASCII } from 'node:url'

const NAME_MAX_CHARACTERS = 253
/** Underscores are no host names, but services and some hosts have them. */
const LABELS = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/

/** The one spelling of a name: lower case, no dot at the end. Undefined when it is none; text beyond ASCII never is. */
export function normalizeName(text: string): string | undefined {
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  // Before lower case: letters such as the Kelvin sign become ASCII by it.
  if (!/^[\x21-\x7e]+$/.test(name)) return undefined
  const lower = name.toLowerCase()
  return lower.length <= NAME_MAX_CHARACTERS && LABELS.test(lower) ? lower : undefined
}

/** As written by people: `*.Bücher.example` is `*.xn--bcher-kva.example`. */
export function normalizePattern(text: string): string | undefined {
  const wildcard = text.startsWith('*.')
  const ascii = domainToASCII(wildcard ? text.slice(2) : text)
  const name = normalizeName(ascii)
  if (name === undefined) return undefined
  return wildcard ? `*.${name}` : name
}

/** `*.example.com` covers every name below example.com, and not example.com itself. Pre: both are normalized. */
export function covers(pattern: string, name: string): boolean {
  return pattern.startsWith('*.')
    ? name.length > pattern.length - 1 && name.endsWith(pattern.slice(1))
    : name === pattern
}
