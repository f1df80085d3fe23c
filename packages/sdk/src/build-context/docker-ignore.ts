import { DormouseError } from '../error.ts'

export interface Ignored {
  /** Whether a path below the context is left out. */
  readonly matches: (path: string) => boolean
  /** Whether something below a directory that is left out may not be. */
  readonly hasExceptions: boolean
}

/** Reads a .dockerignore, as `python/dormouse/_build_context.py` does. */
export function dockerIgnore(text: string): Ignored {
  const rules = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      return { isException, regex: toRegex(cleanPath(isException ? line.slice(1).trim() : line)) }
    })
  const matches = (path: string) => {
    let isIgnored = false
    for (const { isException, regex } of rules) if (regex.test(path)) isIgnored = !isException
    return isIgnored
  }
  return { matches, hasExceptions: rules.some(({ isException }) => isException) }
}

function cleanPath(path: string): string {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/')
}

/**
 * `*`, `?` and `[a-z]` within a name, `**` across names, and a backslash before a character that is meant as such. A
 * pattern also matches everything below what it names.
 */
function toRegex(pattern: string): RegExp {
  const source = pattern.replaceAll(/\*\*\/?|\\.|\[[^\]]+\]|[^\w/]/gs, (found) => {
    if (found === '**/') return '(?:.*/)?'
    if (found === '**') return '.*'
    if (found === '*') return '[^/]*'
    if (found === '?') return '[^/]'
    if (found.length > 1 && found.startsWith('[')) return found
    return `\\${found.at(-1)}`
  })
  try {
    return new RegExp(`^${source}(?:/.*)?$`, 's')
  } catch {
    throw new DormouseError('invalid_argument', `.dockerignore: "${pattern}" is no pattern`)
  }
}
