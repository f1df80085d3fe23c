import type { Node } from './completion-tree.ts'

/** For `~/.config/fish/completions/dormouse.fish`. */
export function fishScript(nodes: readonly Node[]): string {
  return `# fish completion of dormouse
complete -c dormouse -f
${nodes.map(linesOf).join('')}`
}

function linesOf({ path, words, flags, lists, takesFiles }: Node): string {
  const when = quote(
    condition(
      path,
      words.map(({ word }) => word),
    ),
  )
  const lines = words.map(
    ({ word, summary }) => `complete -c dormouse -n ${when} -a ${quote(word)} -d ${quote(summary)}\n`,
  )
  const below = quote(path === '' ? '__fish_use_subcommand' : seen(path))
  for (const { word, summary } of flags) {
    const kind = word.startsWith('--') ? `-l ${word.slice(2)}` : `-s ${word.slice(1)}`
    lines.push(`complete -c dormouse -n ${below} ${kind} -d ${quote(summary)}\n`)
  }
  for (const list of new Set(lists))
    if (list !== '') lines.push(`complete -c dormouse -n ${below} -a '(dormouse ${list} 2>/dev/null)'\n`)
  if (takesFiles) lines.push(`complete -c dormouse -n ${below} -F\n`)
  return lines.join('')
}

function condition(path: string, words: readonly string[]): string {
  if (path === '') return '__fish_use_subcommand'
  return words.length === 0
    ? seen(path)
    : `${seen(path)}; and not __fish_seen_subcommand_from ${words.join(' ')}`
}

function seen(path: string): string {
  return path
    .split(' ')
    .map((word) => `__fish_seen_subcommand_from ${word}`)
    .join('; and ')
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
