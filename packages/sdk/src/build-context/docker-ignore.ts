/** Reads a .dockerignore: returns whether a path below the context is left out. */
export function dockerIgnore(text: string): (path: string) => boolean {
  const rules = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      const pattern = (isException ? line.slice(1) : line).replace(/^\.?\/+|\/+$/g, '')
      return { isException, regex: toRegex(pattern) }
    })
  return (path) => {
    let isIgnored = false
    for (const { isException, regex } of rules) if (regex.test(path)) isIgnored = !isException
    return isIgnored
  }
}

/** `*` and `?` within a name, `**` across names. A pattern also matches everything below what it names. */
function toRegex(pattern: string): RegExp {
  const source = pattern.replaceAll(/\*\*\/?|\*|\?|[.+^${}()|\\]/g, (found) => {
    if (found === '**/') return '(?:.*/)?'
    if (found === '**') return '.*'
    if (found === '*') return '[^/]*'
    return found === '?' ? '[^/]' : `\\${found}`
  })
  return new RegExp(`^${source}(?:/.*)?$`)
}
