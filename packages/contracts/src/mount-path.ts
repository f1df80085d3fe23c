/** What a sandbox has of the kernel or of ours: nothing may be mounted over it or inside. */
const RESERVED = ['/proc', '/sys', '/dev', '/.dormouse']
/** Without what is in these no program starts; what is below may be mounted over. */
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

/** Why a volume cannot be mounted there; undefined when it can. Such a path has one spelling, so paths can be compared as text. */
export function mountPathProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'must be an absolute path'
  if (path === '/') return 'must not be the root directory'
  if (path.includes('\0')) return 'must not contain NUL bytes'
  const parts = path.slice(1).split('/')
  if (parts.includes('')) return 'must not contain empty parts or end with "/"'
  if (parts.includes('.') || parts.includes('..')) return 'must not contain "." or ".." parts'
  if (parts.some((part) => new TextEncoder().encode(part).length > NAME_MAX_BYTES))
    return `must not have parts longer than ${NAME_MAX_BYTES} bytes`
  if (NEEDED.includes(path)) return 'must not hide what every program needs'
  const reserved = RESERVED.find((directory) => isInside(path, directory))
  return reserved === undefined ? undefined : `must not be in ${reserved}`
}

/** The first path of several that is another one or lies in it. */
export function findOverlap(paths: readonly string[]): { index: number; other: string } | undefined {
  for (const [index, path] of paths.entries()) {
    const other = paths.find((candidate, at) => at !== index && isInside(path, candidate))
    if (other !== undefined) return { index, other }
  }
  return undefined
}

/** Whether a path is that directory or leads into it. Pre: neither has ".", ".." or empty parts. */
export function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}
