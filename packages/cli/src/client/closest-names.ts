const SHOWN_MAX = 3

/** What people type, and the command for it. */
const SYNONYMS: Readonly<Record<string, string>> = {
  list: 'ls',
  ps: 'ls',
  new: 'create',
  delete: 'rm',
  remove: 'rm',
  kill: 'rm',
  shell: 'sh',
  bash: 'sh',
  python: 'repl',
  stop: 'standby',
  sleep: 'standby',
  pause: 'standby',
  start: 'resume',
  wake: 'resume',
  info: 'show',
  inspect: 'show',
  status: 'show',
  history: 'ledger',
  copy: 'cp',
}

/** `Did you mean "a" or "b"? ` with a space at its end; empty when no name is similar. */
export function didYouMean(typed: string, names: readonly string[]): string {
  const [last, ...others] = closestNames(typed, names)
    .map((name) => `"${name}"`)
    .reverse()
  if (last === undefined) return ''
  return `Did you mean ${others.length === 0 ? last : `${others.reverse().join(', ')} or ${last}`}? `
}

/** The same for a command. */
export function didYouMeanCommand(typed: string, names: readonly string[]): string {
  const synonym = Object.hasOwn(SYNONYMS, typed) ? SYNONYMS[typed] : undefined
  return synonym === undefined ? didYouMean(typed, names) : `Did you mean "${synonym}"? `
}

/** The names with the fewest typing mistakes between them and `typed`: at most one for each three letters. */
export function closestNames(typed: string, names: readonly string[]): string[] {
  const measured = [...new Set(names)].map((name) => ({ name, distance: distanceOf(typed, name) }))
  const least = Math.min(...measured.map(({ distance }) => distance))
  if (least > Math.max(1, Math.floor(typed.length / 3))) return []
  return measured
    .filter(({ name, distance }) => distance === least && name.length > 1)
    .map(({ name }) => name)
    .sort()
    .slice(0, SHOWN_MAX)
}

/** Letters that are missing, added, wrong or swapped with their neighbour; upper and lower case are the same. */
function distanceOf(first: string, second: string): number {
  const [a, b] = [first.toLowerCase(), second.toLowerCase()]
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    rows.push(current)
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1]
      const isSwapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current.push(
        Math.min(
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          at(row - 1, column - 1) + (isSame ? 0 : 1),
          isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
  }
  return at(a.length, b.length)
}
