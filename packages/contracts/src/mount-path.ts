/** Directories of the kernel and of Dormouse. No volume may be mounted on or inside them. */
const RESERVED = ['/proc', '/sys', '/dev', '/.dormouse']
/** Programs need the contents of these directories. Volumes may be mounted below them. */
const NEEDED = [
  '/bin',
  '/etc',
  '/lib',
  '/lib64',
  '/sbin',
  '/usr',
  '/usr/bin',
  '/usr/lib',
  '/usr/lib64',
  '/usr/sbin',
]
const NAME_MAX_BYTES = 255

/**
 * Why a volume cannot be mounted at `path`. Undefined if it can. Valid paths have one spelling, so they compare as
 * text.
 */
export function mountPathProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'must be an absolute path'
  if (path === '/') return 'must not be the root directory'
  if (path.includes('\0')) return 'must not contain NUL bytes'
  const parts = path.slice(1).split('/')
  if (parts.includes('')) return 'must not contain empty parts or end with "/"'
  if (parts.includes('.') || parts.includes('..')) return 'must not contain "." or ".." parts'
  if (parts.some((part) => new TextEncoder().encode(part).length > NAME_MAX_BYTES))
    return `must not have parts longer than ${NAME_MAX_BYTES} bytes`
  if (NEEDED.includes(path)) return 'must not hide files that every program needs'
  const reserved = RESERVED.find((directory) => isInside(path, directory))
  return reserved === undefined ? undefined : `must not be in ${reserved}`
}

/** The first path that equals another one or lies inside it. */
export function findOverlap(paths: readonly string[]): { index: number; other: string } | undefined {
  for (const [index, path] of paths.entries()) {
    const other = paths.find((candidate, at) => at !== index && isInside(path, candidate))
    if (other !== undefined) return { index, other }
  }
  return undefined
}

/** Whether `path` is `directory` or lies inside it. Pre: neither has ".", ".." or empty parts. */
export function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}
