import { posix } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { TarEntry } from './tar-entries.ts'

/** A file or directory of a context that a COPY names. */
export interface Source {
  /** In the archive; behind links that the COPY names. */
  readonly path: string
  readonly isDirectory: boolean
  /** What a file is called where it is copied to. */
  readonly name: string
}

const LINKS_MAX = 40

/**
 * Finds what a source of a COPY means. As with docker, a link that it names stands for what it points to; links in a
 * directory that it names stay links. Throws `invalid_argument`.
 */
export function findSources(entries: readonly TarEntry[], source: string): Source[] {
  const wanted = posix.normalize(`/${source}`).replace(/^\/|\/$/g, '')
  if (wanted === '') return [{ path: '.', isDirectory: true, name: '' }]
  const isMatch = wildcard(wanted)
  const matches = entries.filter(({ path }) => isMatch(path))
  if (matches.length > 0) {
    const paths = new Set(matches.map(({ path }) => path))
    return matches.flatMap((entry) => {
      if (entry.link === undefined) return [asSource(entry, entry.path)]
      const target = followLinks(entries, entry.path)
      // What the wildcard matches as well is copied once.
      return paths.has(target) ? [asSource(entry, entry.path)] : findPath(entries, target, entry.path)
    })
  }
  return findPath(entries, followLinks(entries, wanted), wanted)
}

function findPath(entries: readonly TarEntry[], path: string, named: string): Source[] {
  const found = entries.find((entry) => entry.path === path)
  if (found !== undefined) return [asSource(found, named)]
  // An archive need not list its directories.
  if (path === '.' || entries.some((entry) => isBelow(entry.path, path)))
    return [{ path, isDirectory: true, name: posix.basename(named) }]
  const target = path === named ? '' : `, which leads to "${path}"`
  const reasons = 'Paths are relative to the context, and .dockerignore may leave files out.'
  throw new DormouseError('invalid_argument', `The context has no "${named}"${target}. ${reasons}`)
}

function asSource({ path, isDirectory }: TarEntry, named: string): Source {
  return { path, isDirectory, name: posix.basename(named) }
}

/** Resolves links in every part of a path. The context is their root. */
function followLinks(entries: readonly TarEntry[], path: string): string {
  const links = new Map(entries.flatMap(({ path, link }) => (link === undefined ? [] : [[path, link]])))
  let rest = path.split('/')
  let done = '/'
  for (let followed = 0; rest.length > 0; ) {
    const [part = '', ...after] = rest
    const next = posix.join(done, part)
    const link = links.get(next.slice(1))
    rest = after
    if (link === undefined) {
      done = next
      continue
    }
    followed += 1
    if (followed > LINKS_MAX)
      throw new DormouseError('invalid_argument', `The links of "${path}" in the context lead in a circle.`)
    if (link.startsWith('/')) done = '/'
    rest = [...link.split('/').filter((each) => each !== ''), ...after]
  }
  return done === '/' ? '.' : done.slice(1)
}

/** `*`, `?` and `[a-z]` within one name, as Go's filepath.Match has them. */
function wildcard(pattern: string): (path: string) => boolean {
  const source = pattern.replaceAll(/[.+^${}()|\\]|\*|\?/g, (found) =>
    found === '*' ? '[^/]*' : found === '?' ? '[^/]' : `\\${found}`,
  )
  try {
    const regex = new RegExp(`^${source}$`)
    return (path) => path === pattern || regex.test(path)
  } catch {
    return (path) => path === pattern
  }
}

export function isBelow(path: string, root: string): boolean {
  return root === '.' || path === root || path.startsWith(`${root}/`)
}
