import { UsageProblem } from '../problem.ts'

/** One side of a copy. */
export type Place =
  | { readonly where: 'stdio' }
  | { readonly where: 'local'; readonly path: string }
  | { readonly where: 'sandbox'; readonly sandbox: string; readonly path: string }

/** `sandbox:path`, `-`, or a local path; one with a colon in it begins with `/` or `./`. */
export function parsePlace(text: string): Place {
  if (text === '-') return { where: 'stdio' }
  if (text === '') throw new UsageProblem('a path cannot be empty')
  const colon = text.indexOf(':')
  if (colon < 1 || /^[./]/.test(text)) return { where: 'local', path: text }
  const path = text.slice(colon + 1)
  // Without a path: the home of the user.
  return { where: 'sandbox', sandbox: text.slice(0, colon), path: path === '' ? '.' : path }
}
