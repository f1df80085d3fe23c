import { UsageError } from '../cli-error.ts'

/** One side of a copy. */
export type CopyLocation =
  | { readonly where: 'stdio' }
  | { readonly where: 'local'; readonly path: string }
  | { readonly where: 'sandbox'; readonly sandbox: string; readonly path: string }

/** Parses `sandbox:path`, `-`, or a local path. A local path with a colon must start with `/` or `./`. */
export function parseCopyLocation(text: string): CopyLocation {
  if (text === '-') return { where: 'stdio' }
  if (text === '') throw new UsageError('a path cannot be empty')
  const colon = text.indexOf(':')
  if (colon < 1 || /^[./]/.test(text)) return { where: 'local', path: text }
  const path = text.slice(colon + 1)
  // Without a path, the home directory.
  return { where: 'sandbox', sandbox: text.slice(0, colon), path: path === '' ? '.' : path }
}
